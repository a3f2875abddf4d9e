import { runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import type { JobRef } from "../../src/contracts/credential-engine.ts";
import { AccessControl } from "../../src/objects/access-control.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { ReadReplica } from "../../src/objects/read-replica.ts";
import type { WorkLease } from "../../src/platform/durable/lease.ts";
import type { FormerCredentialEngineApi } from "../../src/rpc/renamed-methods.ts";
import type { OperationName } from "../doubles/cloud-b/azure-types.ts";
import { issue, path, policies } from "./access.ts";
import { clock } from "./clock.ts";
import {
  byItself,
  creds,
  dynamicRole,
  engineObject,
  lookup,
  revoke,
  rows,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { expectNothingLeft, openEngineWithRole, tenant, uuid, writeExisting } from "./engine-world.ts";

/** Credentials whose response never reached the caller are revoked soon; all others keep their TTL. */

clock.moves = true;

const HOUR_MS = 3_600_000;

beforeEach(async () => {
  await openEngineWithRole();
  await writeExisting();
});

/** At most three minutes in small steps, long before the expiry of any lease. */
const soon = (check: () => Promise<void>) => byItself(uuid, check, 3_000);

/** Advances the clock by an hour and runs the alarms. */
const anHourLater = () => {
  const end = Date.now() + HOUR_MS;
  return byItself(uuid, () => expect(Date.now()).toBeGreaterThan(end), HOUR_MS / 4);
};

/** Requests credentials, and hangs up once `when` holds. */
async function hangUp(path: string, when: () => Promise<void>, headers: Record<string, string> = {}): Promise<void> {
  const caller = new AbortController();
  const asked = exports.default
    .fetch(`https://x/v1/cloud-b/creds/${path}`, {
      headers: { "X-Orch-Token": "root", ...headers },
      signal: caller.signal,
    })
    .catch((failure: unknown) => failure);
  await vi.waitFor(when);
  caller.abort();
  expect(await asked).toBeInstanceOf(Error);
}

const isCalled = (operation: OperationName) => async () =>
  expect((await tenant.requests()).map((request) => request.operation)).toContain(operation);

/** The poll of an issue that makes the call. */
const TURN = {
  CreateApplication: 1,
  CreateServicePrincipal: 2,
  CreateRoleAssignment: 3,
  AddServicePrincipalPassword: 3,
  AddApplicationPassword: 1,
};

describe("a caller that hangs up", () => {
  it.each([
    ["web", "CreateApplication"],
    ["web", "CreateServicePrincipal"],
    ["web", "CreateRoleAssignment"],
    ["web", "AddServicePrincipalPassword"],
    ["app", "AddApplicationPassword"],
  ] as const)("leaves no lease and no resource (%s, during %s)", async (role, operation) => {
    await tenant.fault({ operation, fault: "delay", ms: 700 });
    await hangUp(role, async () =>
      expect(await rows(uuid, "jobs")).toMatchObject([{ kind: "issue", seq: TURN[operation] }]),
    );
    await soon(expectNothingLeft);
  });

  it("during verification of its credentials leaves no lease", async () => {
    await tenant.call({ change: "SetLags", lags: { password: { ms: HOUR_MS } } });
    await hangUp("web?verify=true", async () => expect(await rows(uuid, "leases")).toHaveLength(1));
    await soon(expectNothingLeft);
  });

  it("while it waits for a lock does not affect the other callers", async () => {
    await tenant.fault({ operation: "AddApplicationPassword", fault: "delay", ms: 1_500 });
    const first = creds("app");
    await vi.waitFor(async () => expect(await rows(uuid, "jobs")).toHaveLength(1));
    await hangUp("app", async () => expect(await rows(uuid, "jobs")).toHaveLength(2));
    const third = creds("app");
    for (const answer of [await first, await third]) succeeded(answer);
    await soon(async () => {
      expect(await rows(uuid, "leases")).toHaveLength(2);
      expect(await rows(uuid, "jobs")).toEqual([]);
    });
  });

  it("with an idempotency key gets the same lease from a repeated request", async () => {
    const headers = { "Idempotency-Key": "deploy-8" };
    await tenant.fault({ operation: "CreateServicePrincipal", fault: "delay", ms: 700 });
    await hangUp("web", isCalled("CreateApplication"), headers);
    await vi.waitFor(async () => expect(await rows(uuid, "leases")).toHaveLength(1));
    await anHourLater();
    const [lease] = await rows(uuid, "leases");
    expect(succeeded(await creds("web", { headers })).body.lease_id).toBe(`cloud-b/${lease?.["id"]}`);
  });
});

describe("a caller that loses its right while it waits", () => {
  const allow = (capability: string) => policies({ issuer: path("cloud-b/creds/*", capability) });

  it.each([
    ["", {}],
    ["with an idempotency key", { "Idempotency-Key": "deploy-9" }],
  ])("gets no credentials, and its lease is revoked %s", async (_, headers) => {
    await allow("read");
    const { client_token: token } = await issue({ policies: ["issuer"] });
    await tenant.fault({ operation: "CreateServicePrincipal", fault: "delay", ms: 700 });
    const asked = creds("web", { headers, token });
    await vi.waitFor(isCalled("CreateApplication"));
    await allow("deny");
    expect(await asked).toMatchObject({ status: 403 });
    await soon(expectNothingLeft);
  });
});

describe("a Worker that dies at the last check of the right", () => {
  const killed = () => {
    throw new Error("killed");
  };

  /** The check has no answer, or refuses; no further call of the Worker arrives. */
  const deaths = {
    "during the check": async () => {
      clearAuthorizeCache();
      vi.spyOn(AccessControl.prototype, "authorize").mockImplementation(killed);
      vi.spyOn(ReadReplica.prototype, "authorizeAsText").mockImplementation(killed);
    },
    "after a refusal": () => policies({ issuer: path("cloud-b/creds/*", "deny") }),
  };

  it.each(
    Object.entries(deaths).flatMap(([when, die]) => [
      [when, "from its calls", 0, die] as const,
      [when, "from a pool", 1, die] as const,
    ]),
  )("%s leaves no lease of credentials %s", async (_when, _from, size, die) => {
    await policies({ issuer: path("cloud-b/creds/*", "read") });
    const { client_token: token } = await issue({ policies: ["issuer"] });
    if (size > 0) {
      await writeRole("web", dynamicRole(tenant, { ttl: 3_600, pool_size: size }));
      await byItself(uuid, async () => expect(await rows(uuid, "pooled")).toHaveLength(size));
    }
    let revocations = 0;
    vi.spyOn(CredentialEngine.prototype, "revokeSoon").mockImplementation(() => {
      revocations++;
      return killed();
    });
    const poll = size > 0 ? "issue" : "poll";
    const original = CredentialEngine.prototype[poll] as (...parameters: unknown[]) => unknown;
    vi.spyOn(CredentialEngine.prototype, poll).mockImplementation(async function (
      this: CredentialEngine,
      ...parameters: unknown[]
    ) {
      const answer = await original.apply(this, parameters);
      if (this["sql"].exec("SELECT id FROM leases").toArray().length > 0) await die();
      return answer as never;
    });
    expect((await creds("web", { token })).status).toBeGreaterThanOrEqual(500);
    expect(revocations).toBeGreaterThan(0);
    expect(await rows(uuid, "leases")).toHaveLength(1);
    vi.restoreAllMocks();
    if (size > 0) await writeRole("web", dynamicRole(tenant, { ttl: 3_600, pool_size: 0 }));
    await soon(expectNothingLeft);
  });
});

describe("a lost response", () => {
  type Method = (this: CredentialEngine, ...parameters: unknown[]) => unknown;
  const around = (name: "handOver", act: (engine: CredentialEngine, original: () => unknown) => unknown) => {
    const original = CredentialEngine.prototype[name] as unknown as Method;
    return vi.spyOn(CredentialEngine.prototype, name).mockImplementation(function (
      this: CredentialEngine,
      ...parameters: unknown[]
    ) {
      return act(this, () => original.apply(this, parameters)) as never;
    });
  };
  const killed = () => {
    throw new Error("killed");
  };

  it.each(["web", "app"])("before the hand-over revokes its lease soon (%s)", async (role) => {
    around("handOver", killed);
    expect((await creds(role)).status).toBe(500);
    expect(await rows(uuid, "leases")).toHaveLength(1);
    vi.restoreAllMocks();
    await soon(expectNothingLeft);
  });

  it("that arrives at the second attempt keeps its lease", async () => {
    let calls = 0;
    around("handOver", (_engine, original) => {
      const answer = original();
      return ++calls === 1 ? killed() : answer;
    });
    const { lease_id: lease } = succeeded(await creds("web")).body;
    await anHourLater();
    expect((await lookup(lease)).status).toBe(200);
  });

  it("returns 503 without credentials when the lease has ended", async () => {
    around("handOver", (engine, original) => {
      const [id = ""] = engine.leasesUnder("", "");
      engine.revokeSoon([id]);
      return original();
    });
    const refused = await creds("web");
    expect([refused.status, refused.body.errors.join()]).toEqual([503, expect.stringContaining("lease ended")]);
    await soon(expectNothingLeft);
  });
});

describe("a sent response", () => {
  it.each(["web", "web?verify=true", "app"])("keeps the lease for its TTL (%s)", async (path) => {
    const { lease_id: lease } = succeeded(await creds(path)).body;
    await anHourLater();
    expect((await lookup(lease)).body.data).toMatchObject({ renewable: true });
    expect(await rows(uuid, "leases")).toMatchObject([{ state: "live", hand_over_by: null }]);
  });

  it("may be sent for 30 s, plus the request's time if the credentials are verified", async () => {
    const seen: number[] = [];
    const original = CredentialEngine.prototype.handOver;
    vi.spyOn(CredentialEngine.prototype, "handOver").mockImplementation(function (this: CredentialEngine, id) {
      const [row] = this["sql"].exec<{ at: number }>("SELECT hand_over_by - issued AS at FROM leases").toArray();
      seen.push(row?.at ?? 0);
      return original.call(this, id);
    });
    for (const path of ["app", "app?verify=true"]) {
      const { lease_id: lease } = succeeded(await creds(path)).body;
      succeeded(await revoke(lease));
    }
    expect(seen).toEqual([30_000, 115_000]);
  });
});

describe("a Worker of the version before", () => {
  it("performs a revocation with methods and fields by their former names", async () => {
    const issued = succeeded(await creds("app"));
    const id = issued.body.lease_id.slice("cloud-b/".length);
    const polls = await runInDurableObject(engineObject(uuid), (object) => {
      const former: FormerCredentialEngineApi = object;
      const started = object.revoke(id) as unknown as { value: { wanted: JobRef; turn: { claim: WorkLease } } };
      const { wanted, turn } = started.value;
      return [turn, former.turn(wanted, { claim: turn.claim, done: null })];
    });
    const asked = { kind: "steps", claim: { id }, steps: [{ call: "removeApplicationPassword" }] };
    expect(polls).toMatchObject([asked, asked]);
    await byItself(uuid, expectNothingLeft);
  });
});
