import { describe, expect, it } from "vitest";
import { answered, type MemoryEngine, memoryEngine, refusedWith, reportOf } from "../../../test/memory-engine.ts";
import type { StepResult } from "../../contracts/credential-engine.ts";

const HOUR_MS = 3_600_000;

/** Issues a password of the application `app` at time 0. */
function issued(engine: MemoryEngine, endsAt = 10 * HOUR_MS) {
  const { wanted, polled } = engine.issue("static", 0);
  const key = answered({ keyId: "key", secretText: "secret", endsAt });
  return { wanted, end: engine.runner.poll(wanted, reportOf(polled, key), 0) };
}

/** Performs one round of a revocation, with the result of its only step. @returns the next poll result */
function round(engine: MemoryEngine, job: string, now: number, result: StepResult) {
  const wanted = { job, kind: "removal" as const };
  const { polled } = engine.runner.begin(wanted, now);
  return engine.runner.poll(wanted, reportOf(polled, result), now);
}

/** Revokes a lease; as `round`. */
function revoked(engine: MemoryEngine, job: string, now: number, result: StepResult) {
  const lease = engine.leases.find(job);
  if (lease) engine.lifecycle.end(lease, now);
  return round(engine, job, now, result);
}

describe("a new lease", () => {
  it("expires no later than its password", () => {
    const engine = memoryEngine();
    expect(issued(engine, 5_000).end).toMatchObject({ kind: "end", end: { ok: true, issued: { ttl: 5 } } });
    expect(engine.leases.nextExpiry()).toBe(5_000);
  });

  it("is revoked at once when the response with its secret was lost", () => {
    const engine = memoryEngine();
    const { wanted } = issued(engine);
    expect(engine.leases.nextHandOver()).toBe(30_000);
    expect(engine.runner.poll(wanted, null, 1_000)).toMatchObject({ kind: "end", end: { reason: "unavailable" } });
    expect(engine.leases.nextHandOver()).toBe(1_000);
  });
});

describe("a renewal whose call ends late", () => {
  /** Completes a renewal until 1200 s, after 10 s. */
  function completed(engine: MemoryEngine, lease: string, from = 600_000) {
    const end = { from, expires: 1_200_000 };
    const work = { kind: "renewal", renewal: {}, lease, ...end, renewable: true, warnings: [] } as const;
    const counts = { seq: 0, tries: 0, failures: 0, failure: null };
    const job = { id: "renewal", work, lock: null, deadline: null, account: 0, ...counts };
    const workLease = { id: "renewal", generation: 0, lease: "", leaseUntil: 60_000 };
    return engine.outcomes.finish(job, workLease, undefined, 10_000);
  }

  it("does not bring back a lease whose token has ended", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    engine.leases.expire("token", 10_000);
    expect(completed(engine, job)).toMatchObject({ ok: false, message: "lease expired" });
    expect(engine.leases.find(job)?.expires).toBe(10_000);
  });

  it("extends a lease whose own end came meanwhile", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    engine.leases.expire("token", 9_000);
    expect(completed(engine, job, 9_000)).toMatchObject({ ok: true, renewed: { ttl: 1_190 } });
  });

  it("ends with the users of a shared lease that are left", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    engine.leaseUsers.add(job, { token: "other", until: 700_000 });
    const warnings = [expect.stringContaining("exceeded the effective max_ttl")];
    expect(completed(engine, job)).toMatchObject({ ok: true, renewed: { ttl: 690, renewable: false, warnings } });
    expect(engine.leases.find(job)?.expires).toBe(700_000);
  });

  it("has the end that was asked for otherwise", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    expect(completed(engine, job)).toMatchObject({ renewed: { ttl: 1_190, renewable: true, warnings: [] } });
  });
});

describe("the revocation of a lease", () => {
  it("fails six rounds, each later than the one before, until the lease is irrevocable", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    const states: (string | undefined)[] = [];
    let now = 0;
    for (let n = 1; n <= 6; n++) {
      (n === 1 ? revoked : round)(engine, job, now, refusedWith("permission_denied"));
      states.push(engine.leases.find(job)?.state);
      const readyAt = engine.work.find(job)?.readyAt ?? 0;
      expect(readyAt - now, `round ${n}`).toBeGreaterThanOrEqual(n === 6 ? 24 * HOUR_MS : 5_000 * 2 ** n);
      now = readyAt;
    }
    expect(states).toEqual([...Array.from({ length: 5 }, () => "ending"), "irrevocable"]);
  });

  it("waits as long as the provider requires", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    revoked(engine, job, 0, refusedWith("throttled", 5 * HOUR_MS));
    expect(engine.work.find(job)?.readyAt).toBeGreaterThanOrEqual(5 * HOUR_MS);
  });

  it("starts a new count of rounds on request", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    revoked(engine, job, 0, refusedWith("permission_denied"));
    expect(engine.jobs.find(job)?.failures).toBe(1);
    engine.lifecycle.revoke(job);
    expect(engine.jobs.find(job)?.failures).toBe(0);
  });

  it("has not failed while the provider may not yet list the password", () => {
    const engine = memoryEngine();
    const { job } = issued(engine).wanted;
    const later = { kind: "end", end: { ok: true, goesOnAt: 20_000 } };
    expect(revoked(engine, job, 10_000, refusedWith("not_found"))).toMatchObject(later);
    expect(engine.runner.poll({ job, kind: "removal" }, null, 10_000)).toMatchObject(later);
  });
});

describe("a removal with a lock", () => {
  const removal = (until: number) => ({
    items: [{ kind: "password", application: "app", keyId: "k" }],
    stuck: [],
    search: { name: "n", application: "app", except: null, until, next: 0 },
    madeAt: 0,
    permanently: true,
    lock: "role r",
  });
  const start = (engine: MemoryEngine, what: object) =>
    engine.outcomes.startRemoval(
      { id: "strays", account: 0, because: "strays" },
      what as Parameters<MemoryEngine["outcomes"]["startRemoval"]>[1],
      0,
    );
  const application = answered({ objectId: "app", clientId: "client", displayName: "", passwords: [] });

  it("holds it until the end of its search, also when what it found cannot be removed", () => {
    const engine = memoryEngine();
    start(engine, removal(1_000));
    const wanted = { job: "strays", kind: "removal" } as const;
    const search = engine.runner.poll(
      wanted,
      reportOf(engine.runner.begin(wanted, 500).polled, refusedWith("permission_denied")),
      500,
    );
    expect(engine.jobs.holder("role r")).toBe("strays");
    const waits = engine.runner.poll(wanted, reportOf(search, application), 600);
    expect(waits).toMatchObject({ end: { goesOnAt: 30_600 } });
    expect(engine.jobs.holder("role r")).toBe("strays");
    const end = round(engine, "strays", 30_600, application);
    expect(end).toMatchObject({ kind: "end", end: { ok: false } });
    expect(engine.jobs.find("strays")).toMatchObject({ lock: null, work: { removal: { items: [{ keyId: "k" }] } } });
    expect(engine.jobs.holder("role r")).toBeNull();
  });

  it("holds none without a search", () => {
    const engine = memoryEngine();
    start(engine, { ...removal(0), search: null });
    expect(engine.jobs.kindOf("strays")).toBe("removal");
    expect(engine.jobs.holder("role r")).toBeNull();
  });
});

describe("a rotation", () => {
  /** Performs a rotation; the application has the secrets `passwords`. */
  function rotated(engine: MemoryEngine, passwords: { keyId: string; hint: string }[], login: StepResult) {
    const begun = engine.root.rotate();
    if (!begun.ok) throw new Error(begun.message);
    const { wanted } = begun.value;
    let now = Date.now();
    const listed = passwords.map((each) => ({ displayName: "", ...each }));
    const found = answered([{ objectId: "app", clientId: "engine", displayName: "", passwords: listed }]);
    const key = answered({ keyId: "new", secretText: "xyznew", endsAt: now + 24 * HOUR_MS });
    let polled = begun.value.polled;
    for (const result of [found, key, login, login]) {
      if (polled?.kind === "wait") {
        now += polled.ms;
        polled = engine.runner.poll(wanted, { lease: polled.lease ?? raise(), done: null }, now);
      }
      if (polled?.kind === "end") break;
      polled = engine.runner.poll(wanted, reportOf(polled, result), now);
    }
    return { wanted, polled };
  }
  const raise = (): never => {
    throw new Error("no lease");
  };

  it("stores the id of the new secret, by which the next rotation knows it", () => {
    const engine = memoryEngine();
    const { polled, wanted } = rotated(engine, [{ keyId: "old", hint: "abc" }], answered());
    expect(polled).toMatchObject({ kind: "end", end: { ok: true, warnings: [] } });
    expect(engine.config.find()).toMatchObject({ client_secret: "xyznew", key_id: "new" });
    expect(engine.jobs.find(wanted.job)?.work).toMatchObject({ removal: { items: [{ keyId: "old" }] } });
    const second = engine.root.rotate();
    if (!second.ok) throw new Error(second.message);
    expect(engine.jobs.find(second.value.wanted.job)?.work).toMatchObject({ rotation: { keyId: "new" } });
  });

  it("removes the new secret after a failure, with the account of its start", () => {
    const engine = memoryEngine();
    const { polled, wanted } = rotated(engine, [], refusedWith("permission_denied"));
    expect(polled).toMatchObject({ kind: "end", end: { ok: false } });
    expect(engine.jobs.find(wanted.job)?.work).toMatchObject({
      kind: "removal",
      removal: { items: [{ keyId: "new" }] },
      account: { clientSecret: "abcsecret" },
    });
  });

  it("is undone with the account of its start when another secret is configured", () => {
    const engine = memoryEngine();
    const { wanted } = rotated(engine, [], refusedWith("contended"));
    expect(engine.jobs.kindOf(wanted.job)).toBe("rotation");
    expect(engine.root.configure({ client_secret: "other" }, "neutral", null).ok).toBe(true);
    expect(engine.jobs.find(wanted.job)?.work).toMatchObject({
      kind: "removal",
      account: { clientSecret: "abcsecret" },
    });
  });
});
