import { describe, expect, it } from "vitest";
import {
  answered,
  type MemoryEngine,
  memoryEngine,
  refusedWith,
  reportOf,
  stepsOf,
} from "../../../test/memory-engine.ts";
import type { Step, StepResult } from "../../contracts/credential-engine.ts";
import { LEASE_MS } from "../../platform/durable/work-queue.ts";
import type { EngineConfig } from "../engines/azure/config.ts";

const application = answered({ objectId: "app", clientId: "client", displayName: "", passwords: [] });

/** Starts a rotation and performs it up to the first login. */
function untilLogin(engine: MemoryEngine) {
  const begun = engine.root.rotate();
  if (!begun.ok) throw new Error(begun.message);
  const { wanted, polled } = begun.value;
  const now = Date.now();
  const found = answered([{ objectId: "app", clientId: "engine", displayName: "", passwords: [] }]);
  const adding = engine.runner.poll(wanted, reportOf(polled, found), now);
  const key = answered({ keyId: "new", secretText: "abcnew", endsAt: now + 1_000_000_000 });
  return { wanted, login: engine.runner.poll(wanted, reportOf(adding, key), now), now };
}

describe("a report of steps", () => {
  it("is applied once, for any number of repetitions by the Worker", () => {
    const engine = memoryEngine();
    const { wanted, login, now } = untilLogin(engine);
    expect(stepsOf(login).steps).toMatchObject([{ call: "login" }]);
    const report = reportOf(login, answered());
    expect(engine.runner.poll(wanted, report, now)).toMatchObject({ kind: "wait" });
    expect(engine.runner.poll(wanted, report, now), "the same login is no second one").toMatchObject({ kind: "wait" });
    expect(stepsOf(engine.runner.poll(wanted, { lease: report.lease, done: null }, now + 2_000)).steps).toMatchObject([
      { call: "login" },
    ]);
  });

  it("is ignored when another Worker has leased the job", () => {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0);
    const { lease } = stepsOf(engine.runner.poll(wanted, null, LEASE_MS + 1));
    const stale = reportOf(polled, application);
    expect(lease.lease).not.toBe(stale.lease.lease);
    expect(engine.runner.poll(wanted, stale, LEASE_MS + 2)).toEqual({ kind: "wait", ms: 250, lease: null });
  });

  it("is ignored when its job was abandoned, and the removal starts after the longest call", () => {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0);
    engine.issuer.abandonForToken("token", 1_000);
    expect(engine.jobs.kindOf(wanted.job)).toBe("removal");
    expect(engine.work.find(wanted.job)).toMatchObject({ leased: false, readyAt: 21_000 });
    expect(engine.work.holds(reportOf(polled, application).lease, 1_000)).toBe(false);
  });
});

describe("a throttled removal", () => {
  /** Two unfinished credentials, abandoned: their removals are ready at `now`. */
  const twoRemovals = () => {
    const engine = memoryEngine();
    const jobs = [0, 1].map(() => {
      const { wanted, polled } = engine.issue("dynamic", 0);
      engine.runner.poll(wanted, reportOf(polled, application), 0);
      return wanted.job;
    });
    engine.issuer.abandonForToken("token", 0);
    const [first, second] = [0, 1].map(() => engine.runner.poll(null, null, 30_000));
    return { engine, jobs, first: first ?? null, second: second ?? null };
  };

  it("pauses all removals until the provider accepts calls again, and counts no attempt", () => {
    const { engine, first, second } = twoRemovals();
    const end = engine.runner.poll(null, reportOf(first, refusedWith("throttled", 90_000)), 30_000, false, true);
    expect(end, "the Worker gets no other job").toEqual({ kind: "idle" });
    expect(engine.runner.poll(null, reportOf(second, answered([])), 30_001)).toMatchObject({ kind: "steps" });
    expect([engine.runner.poll(null, null, 119_999), engine.work.nextReady()]).toEqual([{ kind: "idle" }, 120_000]);
    const again = stepsOf(engine.runner.poll(null, null, 120_000));
    expect(again.lease.id).toBe(stepsOf(first).lease.id);
    expect(engine.jobs.find(again.lease.id)).toMatchObject({ tries: 0, failures: 0 });
  });

  it("does not pause the jobs of requests", () => {
    const { engine, first } = twoRemovals();
    engine.runner.poll(null, reportOf(first, refusedWith("throttled", 90_000)), 30_000);
    expect(engine.issue("dynamic", 30_001).polled).toMatchObject({ kind: "steps" });
    expect(engine.issue("static", 30_001).polled).toMatchObject({ kind: "steps" });
  });
});

describe("a job whose Worker leaves in a wait", () => {
  const unavailable: StepResult = {
    ok: false,
    failure: { outcome: "external", code: "provider_unavailable", message: "", status: 503, providerCode: "" },
  };

  /** A removal in the back-off after its first attempt, at 30 s. */
  function waiting() {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0);
    engine.runner.poll(wanted, reportOf(polled, application), 0);
    engine.issuer.abandonForToken("token", 0);
    const { lease } = stepsOf(engine.runner.poll(null, null, 30_000));
    const steps = engine.runner.poll(null, { lease, done: null }, 30_000);
    expect(engine.runner.poll(null, reportOf(steps, unavailable), 30_000)).toMatchObject({ kind: "wait", lease });
    const leave = (at: number) => engine.runner.poll(null, { lease, done: null, leftForMs: 7_000 }, at);
    return { engine, lease, leave, job: wanted.job };
  }

  it("is ready after the wait, with its attempts as they were", () => {
    const { engine, leave, job } = waiting();
    const attempts = engine.work.find(job)?.attempts;
    expect(leave(30_000)).toEqual({ kind: "idle" });
    expect(engine.work.nextReady()).toBe(37_000);
    expect(engine.runner.poll(null, null, 36_999), "the back-off is not over").toEqual({ kind: "idle" });
    expect(stepsOf(engine.runner.poll(null, null, 37_000)).lease.id).toBe(job);
    expect(engine.work.find(job)?.attempts).toBe(attempts);
    expect(engine.jobs.find(job)).toMatchObject({ tries: 1, failures: 0 });
  });

  it("keeps the lease of another Worker that has it meanwhile", () => {
    const { engine, lease, leave, job } = waiting();
    leave(30_000);
    const second = stepsOf(engine.runner.poll(null, null, 37_000));
    expect(second.lease.lease).not.toBe(lease.lease);
    expect(leave(37_001), "a second message of the first Worker").toEqual({ kind: "idle" });
    expect(engine.work.holds(second.lease, 96_999)).toBe(true);
    expect(engine.runner.poll(null, null, 96_999), "no other Worker has it").toEqual({ kind: "idle" });
    expect(engine.work.find(job)).toMatchObject({ leased: true, readyAt: 97_000 });
  });

  it("is ready once its lease ends, if the message is lost", () => {
    const { engine, job } = waiting();
    expect(engine.runner.poll(null, null, 89_999)).toEqual({ kind: "idle" });
    expect(stepsOf(engine.runner.poll(null, null, 90_000)).lease.id).toBe(job);
  });
});

describe("credentials at a provider that fails", () => {
  type Failing = (step: Step, deadlineMs: number) => { result: StepResult; ms: number };
  const failed = (
    step: Step,
    code: "provider_unavailable" | "deadline_exceeded" = "provider_unavailable",
  ): StepResult => {
    const outcome = /^(find|get)/.test(step.call) ? "external" : "unknown";
    return { ok: false, failure: { outcome, code, message: `${step.call} failed`, status: 500, providerCode: "" } };
  };
  const atOnce: Failing = (step) => ({ result: failed(step), ms: 5 });

  /** Performs the job of a caller until its end. @returns the refusal, and the caller's wait in ms */
  function performed(engine: MemoryEngine, role: "dynamic" | "static", answer: Failing) {
    const { wanted, polled: first } = engine.issue(role, 0);
    let now = 0;
    for (let polled = first; ; ) {
      if (polled?.kind === "end") return { end: polled.end, now, job: wanted.job };
      if (polled?.kind === "wait") now += polled.ms;
      const steps = polled?.kind === "steps" ? polled : null;
      const [step] = steps?.steps ?? [];
      const { result, ms } = steps && step ? answer(step, steps.deadlineMs) : { result: null, ms: 0 };
      now += ms;
      const lease = polled && "lease" in polled ? polled.lease : null;
      const report = steps && result ? reportOf(steps, result) : lease && { lease, done: null };
      polled = engine.runner.poll(wanted, report, now);
    }
  }

  it.each([
    ["dynamic", "at once", "error creating service principal: createApplication failed", atOnce],
    ["static", "at once", "error updating credentials: addApplicationPassword failed", atOnce],
    [
      ...([
        "dynamic",
        "after a slow start",
        "error creating service principal: createServicePrincipal failed",
      ] as const),
      (step, deadlineMs) =>
        step.call === "createApplication"
          ? { result: application, ms: 15_000 }
          : { result: failed(step, "deadline_exceeded"), ms: deadlineMs },
    ],
    [
      ...(["dynamic", "at its last call", "error creating service principal: addPrincipalPassword failed"] as const),
      (step, deadlineMs) =>
        step.call === "addPrincipalPassword"
          ? { result: failed(step), ms: deadlineMs }
          : { result: answered({ objectId: "id", clientId: "client" }), ms: 100 },
    ],
  ] satisfies [role: "dynamic" | "static", when: string, message: string, answer: Failing][])(
    "%s, %s, are refused within 25 s, by the name of the create call, and searched for afterwards: %s",
    (role, _, message, answer) => {
      const engine = memoryEngine();
      const { end, now, job } = performed(engine, role, answer);
      expect(end).toMatchObject({ ok: false, reason: "unavailable", message });
      expect(now).toBeLessThanOrEqual(25_000);
      expect(engine.jobs.find(job)?.work.kind).toBe("removal");
    },
  );

  it("wait longer for one that only replicates slowly", () => {
    const engine = memoryEngine();
    const { end, now } = performed(engine, "dynamic", (step) => {
      if (step.call === "createApplication") return { result: application, ms: 5 };
      return { result: refusedWith("not_found"), ms: 5 };
    });
    expect(end).toMatchObject({ ok: false });
    expect(now).toBeGreaterThan(60_000);
  });
});

describe("credentials without a caller", () => {
  it("are rolled back once their lease ends", () => {
    const engine = memoryEngine();
    const { wanted } = engine.issue("dynamic", 0);
    engine.runner.poll(null, null, LEASE_MS + 1);
    expect(engine.jobs.kindOf(wanted.job)).toBe("removal");
  });

  it("are rolled back at once after the caller hangs up", () => {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0);
    const after = engine.runner.poll(wanted, reportOf(polled, application), 0, true);
    expect(after).toMatchObject({ kind: "end", end: { ok: false, message: "the caller left before the answer" } });
    expect(engine.jobs.kindOf(wanted.job)).toBe("removal");
  });

  it("are completed for a request with an idempotency key", () => {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0, { key: "again" });
    const after = engine.runner.poll(wanted, reportOf(polled, application), 0, true);
    expect(stepsOf(after).steps).toMatchObject([{ call: "createServicePrincipal" }]);
  });

  it("are given up at the time limit of a request", () => {
    const engine = memoryEngine();
    const { wanted, polled } = engine.issue("dynamic", 0);
    const creating = engine.runner.poll(wanted, reportOf(polled, application), 50_000);
    const late = engine.runner.poll(wanted, reportOf(creating, answered({ objectId: "principal" })), 85_000);
    expect(late).toMatchObject({ kind: "end", end: { ok: false, message: "gave up after too long" } });
  });
});

describe("the account of a step", () => {
  it("is that of the start of a rotation, for any later configuration", () => {
    const engine = memoryEngine();
    const before = engine.config.find() as EngineConfig | null;
    const { wanted, login, now } = untilLogin(engine);
    if (before) engine.config.put({ ...before, subscription_id: "another" } as EngineConfig, now);
    const report = reportOf(login, refusedWith("contended"));
    expect(engine.runner.poll(wanted, report, now)).toMatchObject({ kind: "wait" });
    const again = engine.runner.poll(wanted, { lease: report.lease, done: null }, now);
    expect(stepsOf(again).account).toMatchObject({ subscriptionId: before?.subscription_id });
  });
});

/** Runs what is due without any timer. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("the lock of an application", () => {
  it("wakes the job that waits longest when the job that holds it ends", async () => {
    const engine = memoryEngine();
    const first = engine.issue("static", 0).wanted.job;
    const woken: string[] = [];
    const waiting = ["second", "third"].map((name) => {
      const { wanted, polled } = engine.issue("static", 0, { token: name });
      expect(polled, name).toMatchObject({ kind: "wait", inLine: true });
      return { name, job: wanted.job };
    });
    // The later job waits first: the order of the jobs counts, not that of the calls.
    const calls = [...waiting].reverse().map(({ name, job }) =>
      engine.jobs.waitInLine(job, 0).then(() => {
        woken.push(name);
      }),
    );
    await settled();
    expect(woken).toEqual([]);
    engine.jobs.delete(first);
    await settled();
    expect(woken).toEqual(["second"]);
    engine.jobs.delete(waiting[0]?.job ?? "");
    await settled();
    expect(woken).toEqual(["second", "third"]);
    await Promise.all(calls);
  });
});
