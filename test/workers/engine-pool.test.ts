import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollResult } from "../../src/contracts/credential-engine.ts";
import { azure } from "../../src/credentials/engines/azure/index.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { randomFrom } from "../crash/random.ts";
import type { Everything } from "../doubles/cloud-b/azure-types.ts";
import { amount, part } from "../support/long.ts";
import { issue, path, policies } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import {
  byItself,
  creds,
  dynamicRole,
  engineObject,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  rows,
  succeeded,
  type Tenant,
  unmount,
  writeRole,
} from "./engine-helpers.ts";

/** Principals that are made ahead of requests: each has an owner at any time, and one caller at most. */

clock.moves = true;

const DAY_MS = 86_400_000;

let tenant: Tenant;
let fresh: Everything;
let uuid: string;
beforeEach(async () => {
  tenant = await openTenant();
  fresh = await tenant.everything();
  uuid = await mountEngine(tenant);
});

const pooledRole = (size: number, more: Record<string, unknown> = {}) =>
  writeRole("web", dynamicRole(tenant, { pool_size: size, ttl: 3_600, max_ttl: 7_200, ...more }));

const isIdle = async () => {
  expect(await rows(uuid, "jobs")).toEqual([]);
  expect(await rows(uuid, "work")).toEqual([]);
};
const isFull = (size: number) => async () => {
  expect(await rows(uuid, "pooled")).toHaveLength(size);
  await isIdle();
};
const fills = (size: number) => byItself(uuid, isFull(size));

const nothingIsLeft = async () => {
  expect(await rows(uuid, "leases")).toEqual([]);
  expect(await rows(uuid, "pooled")).toEqual([]);
  await isIdle();
  expect(await tenant.everything()).toEqual(fresh);
};

/** Every principal at the provider belongs to a lease or to the pool. */
const eachIsOwned = async () => {
  const owned = [...(await rows(uuid, "leases")), ...(await rows(uuid, "pooled"))];
  const ids = owned.map(({ holding }) => (JSON.parse(String(holding)) as { application: string }).application);
  const made = (await tenant.everything()).applications.map(({ id }) => id);
  const known = fresh.applications.map(({ id }) => id);
  expect(made.filter((id) => !known.includes(id)).toSorted()).toEqual(ids.toSorted());
};

/**
 * Leaves out the logins of new principals: the double has the real time, at which a secret that is made while a test's clock
 * is ahead has not begun.
 */
const withoutLogins = () => vi.spyOn(azure.issue, "verify").mockReturnValue(null);

const callsSince = async (before: number) => (await tenant.requests()).slice(before).map(({ operation }) => operation);

describe("a role with a pool", () => {
  it("answers without a call of the provider, and fills its pool again", async () => {
    await pooledRole(2);
    await fills(2);
    expect((await get("/v1/cloud-b/roles/web")).body.data).toMatchObject({ pool_size: 2, pool_ready: 2 });
    const before = (await tenant.requests()).length;
    const issued = await creds("web");
    expect(issued.status, issued.text).toBe(200);
    expect(issued.body.lease_duration).toBe(3_600);
    expect(await callsSince(before)).not.toContain("CreateApplication");
    expect(await rows(uuid, "leases")).toMatchObject([{ hand_over_by: null, state: "live" }]);
    await fills(2);
    await eachIsOwned();
    expect((await revoke(issued.body.lease_id)).status).toBe(204);
    expect((await del("/v1/cloud-b/roles/web")).status).toBe(204);
    await byItself(uuid, nothingIsLeft);
  });

  it("has its size, what is ready and its hits in the metrics", async () => {
    await pooledRole(2);
    await fills(2);
    expect((await creds("web")).status).toBe(200);
    await fills(2);
    const { text } = await get("/v1/metrics?format=prometheus");
    const lines = text.split("\n").filter((line: string) => line.startsWith("sallyport_engine_pool"));
    expect(lines.toSorted()).toEqual([
      'sallyport_engine_pool_ready{mount="cloud-b/",role="web"} 2',
      'sallyport_engine_pool_requests_total{mount="cloud-b/",outcome="hit"} 1',
      'sallyport_engine_pool_size{mount="cloud-b/",role="web"} 2',
    ]);
  });

  it("verifies principals before they are ready, and asks nothing more for verify=true", async () => {
    await tenant.call({ change: "SetLags", lags: { password: { ms: 4_000 } } });
    await pooledRole(1);
    // The lag is the double's, in real time.
    await byItself(uuid, isFull(1), 15_000, 0, Number.POSITIVE_INFINITY);
    const before = (await tenant.requests()).length;
    expect((await creds("web", undefined, "?verify=true")).status).toBe(200);
    expect((await callsSince(before)).filter((operation) => operation === "Token")).toEqual([]);
  });

  it("counts the end of a lease from its hand-over, and its secret lives as long as it may be renewed", async () => {
    await pooledRole(1);
    await fills(1);
    const [{ ends } = { ends: 0 }] = await rows(uuid, "pooled");
    const clock = new ShiftedClock(DAY_MS / 2);
    try {
      const issued = await creds("web");
      expect(issued.body.lease_duration).toBe(3_600);
      const [lease] = await rows(uuid, "leases");
      expect(Number(lease?.["expires"]) - Date.now()).toBeGreaterThan(3_500_000);
      expect(Number(ends) - Date.now()).toBeGreaterThan(7_200_000);
      const renewed = await put("/v1/sys/leases/renew", { lease_id: issued.body.lease_id, increment: 7_000 });
      expect(renewed.body.lease_duration).toBe(7_000);
    } finally {
      clock.end();
    }
  });

  it("replaces principals that are older than pool_ttl", async () => {
    withoutLogins();
    await pooledRole(1, { pool_ttl: 600 });
    await fills(1);
    const [first] = await rows(uuid, "pooled");
    await byItself(
      uuid,
      async () => {
        const [now] = await rows(uuid, "pooled");
        expect(now?.["id"]).toBeDefined();
        expect(now?.["id"]).not.toBe(first?.["id"]);
        await isIdle();
      },
      60_000,
    );
    await eachIsOwned();
  });

  it("replaces principals when the role grants something else, and keeps them when it does not", async () => {
    await pooledRole(2);
    await fills(2);
    const ids = async () => (await rows(uuid, "pooled")).map(({ id }) => id);
    const before = await ids();
    await pooledRole(2, { ttl: 600 });
    await fills(2);
    expect(await ids()).toEqual(before);
    await pooledRole(2, { cloud_groups: [] });
    const issued = await creds("web");
    expect(issued.status).toBe(200);
    await byItself(uuid, async () => {
      expect((await ids()).filter((id) => before.includes(id))).toEqual([]);
      await isFull(2)();
    });
    expect((await tenant.everything()).memberships).toEqual(fresh.memberships);
    await eachIsOwned();
  });

  it("makes principals of the new content only when it changes while they are made", async () => {
    withoutLogins();
    await pooledRole(3);
    await runDurableObjectAlarm(engineObject(uuid));
    await pooledRole(2, { cloud_groups: [] });
    await fills(2);
    expect((await tenant.everything()).memberships).toEqual(fresh.memberships);
    await eachIsOwned();
  });

  it("removes the principals that it no longer wants", async () => {
    await pooledRole(3);
    await fills(3);
    await pooledRole(1);
    await fills(1);
    await eachIsOwned();
    await pooledRole(0);
    await byItself(uuid, nothingIsLeft);
    expect(await rows(uuid, "pools")).toEqual([]);
  });

  it.each([
    ["the deletion of the role", () => del("/v1/cloud-b/roles/web")],
    ["the deletion of the mount", () => unmount()],
    ["the deletion of the configuration", () => del("/v1/cloud-b/config")],
  ] as const)("has no principals after %s", async (_what, end) => {
    await pooledRole(2);
    await fills(2);
    succeeded(await end());
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it.each<readonly [what: string, end: () => Promise<Answer>]>([
    ["its mount is deleted", () => unmount()],
    ["its role is deleted", () => del("/v1/cloud-b/roles/web")],
  ])("has no principals after %s while they are made", async (_what, end) => {
    await pooledRole(3);
    await runDurableObjectAlarm(engineObject(uuid));
    succeeded(await end());
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it.each<readonly [what: string, act: () => Promise<unknown>]>([
    ["the root secret is rotated", () => put("/v1/cloud-b/rotate-root", {})],
    ["leases under its path are revoked", () => put("/v1/sys/leases/revoke-prefix/cloud-b/creds/web", { sync: true })],
    ["the configuration is written again", () => put("/v1/cloud-b/config", tenant.config)],
    ["the clock is set back by a minute", async () => void new ShiftedClock(-60_000)],
  ])("is full, of principals with an owner each, after %s while they are made", async (_what, act) => {
    withoutLogins();
    await pooledRole(3);
    await runDurableObjectAlarm(engineObject(uuid));
    await act();
    await fills(3);
    await eachIsOwned();
    expect((await creds("web")).status).toBe(200);
  });

  it("replaces its principals when leases under its path are revoked", async () => {
    await pooledRole(1);
    await fills(1);
    const [before] = await rows(uuid, "pooled");
    succeeded(await put("/v1/sys/leases/revoke-prefix/cloud-b/creds/other", { sync: true }));
    expect((await rows(uuid, "pooled"))[0]?.["id"]).toBe(before?.["id"]);
    succeeded(await put("/v1/sys/leases/revoke-prefix/cloud-b/creds/web", { sync: true }));
    expect(await rows(uuid, "pooled")).toEqual([]);
    await fills(1);
    await eachIsOwned();
  });

  it("keeps its principals when the root secret is rotated", async () => {
    await pooledRole(1);
    await fills(1);
    const [before] = await rows(uuid, "pooled");
    succeeded(await put("/v1/cloud-b/rotate-root", {}));
    await byItself(uuid, isIdle);
    expect((await rows(uuid, "pooled"))[0]?.["id"]).toBe(before?.["id"]);
    expect((await creds("web")).status).toBe(200);
  });

  it("removes its principals with the identity that made them", async () => {
    await pooledRole(1);
    await fills(1);
    const other = await openTenant();
    succeeded(await put("/v1/cloud-b/config", other.config));
    await byItself(uuid, async () => expect(await tenant.everything()).toEqual(fresh));
  });

  it("hands over no principal that was made before a restore", async () => {
    await pooledRole(1);
    await fills(1);
    await runInDurableObject(engineObject(uuid), (_object, { storage }) => storage.kv.put("restored", "r1"));
    const before = (await tenant.requests()).length;
    expect((await creds("web")).status).toBe(200);
    expect(await callsSince(before)).toContain("CreateApplication");
    await fills(1);
    await eachIsOwned();
  });

  it.each([
    [{ pool_size: 51 }, "pool_size: must be at most 50"],
    [{ pool_size: 1, pool_ttl: 60 }, "pool_ttl: must be at least 600 seconds"],
    [{ pool_size: 1, persist_app: true }, "pool_size: a pool is of principals"],
  ])("refuses %o", async (fields, text) => {
    const refused = await put("/v1/cloud-b/roles/web", dynamicRole(tenant, fields));
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(text);
  });
});

describe("callers of a pool", () => {
  it("never get one principal twice, also all at once", async () => {
    await pooledRole(3);
    await fills(3);
    const answers = await Promise.all(Array.from({ length: 5 }, () => creds("web")));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(new Set(answers.map(({ body }) => body.data.client_id)).size).toBe(5);
    await byItself(uuid, eachIsOwned);
  });

  it("get the same lease for the same idempotency key", async () => {
    await pooledRole(2);
    await fills(2);
    const headers = { "Idempotency-Key": "once" };
    const [first, second] = await Promise.all([creds("web", { headers }), creds("web", { headers })]);
    expect(first.status, first.text).toBe(200);
    expect(second.body.data).toEqual(first.body.data);
    expect((await creds("web", { headers })).body.lease_id).toBe(first.body.lease_id);
    expect(await rows(uuid, "leases")).toHaveLength(1);
  });

  it("lose a principal whose answer did not leave", async () => {
    await pooledRole(1);
    await fills(1);
    vi.spyOn(CredentialEngine.prototype, "handOver").mockImplementation(() => {
      throw new Error("killed");
    });
    expect((await creds("web")).status).toBeGreaterThanOrEqual(500);
    vi.restoreAllMocks();
    withoutLogins();
    expect(await rows(uuid, "leases")).toHaveLength(1);
    await byItself(uuid, async () => {
      expect(await rows(uuid, "leases")).toEqual([]);
      await isFull(1)();
    });
    await eachIsOwned();
  });

  it("with limited uses get leases that end with their token, and the pool loses none to the last use", async () => {
    await policies({ reader: path("cloud-b/creds/web", "read") });
    await pooledRole(1);
    await fills(1);
    const { client_token: token } = await issue({ policies: ["reader"], num_uses: 2 });
    const issued = await creds("web", { token });
    expect(issued.status, issued.text).toBe(200);
    await fills(1);
    const [kept] = await rows(uuid, "pooled");
    // Its last use, which a lease would not outlive.
    expect((await creds("web", { token })).status).toBe(400);
    expect((await rows(uuid, "pooled"))[0]?.["id"]).toBe(kept?.["id"]);
    withoutLogins();
    await byItself(uuid, async () => {
      expect(await rows(uuid, "leases")).toEqual([]);
      await isFull(1)();
    });
    await eachIsOwned();
  });

  it("are refused beyond a quota of leases at their request, and the pool keeps its principal", async () => {
    await policies({ reader: path("cloud-b/creds/web", "read") });
    const { client_token: token } = await issue({ policies: ["reader"] });
    await pooledRole(1);
    await fills(1);
    succeeded(await put("/v1/sys/quotas/lease-count/one", { path: "cloud-b", max_leases: 1 }));
    expect((await creds("web", { token })).status).toBe(200);
    await fills(1);
    const [kept] = await rows(uuid, "pooled");
    const refused = await creds("web", { token });
    expect(refused.status, refused.text).toBe(429);
    expect(await rows(uuid, "leases")).toHaveLength(1);
    expect((await rows(uuid, "pooled"))[0]?.["id"]).toBe(kept?.["id"]);
    await del("/v1/sys/quotas/lease-count/one");
  });
});

describe("a provider that refuses", () => {
  it("is asked again after a delay, and leaves nothing", async () => {
    withoutLogins();
    await tenant.fault({
      operation: "AddServicePrincipalPassword",
      fault: "error",
      status: 400,
      code: "Request_BadRequest",
    });
    await pooledRole(1);
    await byItself(uuid, async () => expect(await rows(uuid, "pools")).toMatchObject([{ failures: 1 }]), 1_000);
    await fills(1);
    expect(await rows(uuid, "pools")).toMatchObject([{ failures: 0 }]);
    await eachIsOwned();
  });

  it("is left alone as long as it asks, also by other fillings", async () => {
    withoutLogins();
    await tenant.fault({
      operation: "CreateApplication",
      fault: "error",
      status: 429,
      code: "TooManyRequests",
      headers: { "Retry-After": "20" },
    });
    await pooledRole(3);
    await fills(3);
    await eachIsOwned();
  });
});

const ONE_BY_ONE = 1;
const TOGETHER = 16;
/** The first poll that may be one of a login. */
const FIRST_LOGIN = 4;

describe("filling a pool while the Worker dies", () => {
  it.each(part([...deaths(8, ONE_BY_ONE), ...deaths(6, TOGETHER)]))(
    "at poll %i (%s the report; %i calls) leaves no principal without an owner",
    async (nth, when, calls) => {
      if (nth < FIRST_LOGIN) withoutLogins();
      await pooledRole(1);
      const died = dieAt(nth, when, calls);
      await byItself(uuid, () => expect(died()).toBe(true));
      vi.restoreAllMocks();
      withoutLogins();
      await fills(1);
      await eachIsOwned();
      expect((await creds("web")).status).toBe(200);
    },
  );
});

describe("random walks over a pool", () => {
  const WALK = 8;
  type Method = (this: { ctx: DurableObjectState }, ...parameters: unknown[]) => unknown;

  /** Kills the Worker at some of its polls, before or after the object has its report. */
  function killing(random: () => number) {
    const original = CredentialEngine.prototype.poll as unknown as Method;
    vi.spyOn(CredentialEngine.prototype, "poll").mockImplementation(function (this: unknown, ...parameters) {
      const polled = () => original.apply(this as ThisParameterType<Method>, parameters) as PollResult;
      if (parameters[1] === null || random() >= 0.15) return polled();
      if (random() < 0.5) polled();
      throw new Error("killed");
    });
  }

  it.each(Array.from({ length: amount(6, 300) }, (_, seed) => [seed + 1]))(
    "leave no principal without an owner, and no principal with two (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      const given: string[] = [];
      withoutLogins();
      killing(random);
      for (let step = 0; step < WALK; step++) {
        const choice = random();
        if (choice < 0.35) {
          const answer = await creds("web");
          if (answer.status === 200) given.push(answer.body.data.client_id);
        } else if (choice < 0.6) {
          const groups = random() < 0.3 ? { cloud_groups: [] } : {};
          await put("/v1/cloud-b/roles/web", dynamicRole(tenant, { pool_size: Math.floor(random() * 4), ...groups }));
        } else if (choice < 0.7) await put("/v1/sys/leases/revoke-prefix/cloud-b/creds/web", { sync: false });
        else if (choice < 0.75) await del("/v1/cloud-b/roles/web");
        else {
          await runDurableObjectAlarm(engineObject(uuid));
          await scheduler.wait(15);
        }
      }
      vi.restoreAllMocks();
      withoutLogins();
      expect(new Set(given).size).toBe(given.length);
      await byItself(uuid, async () => {
        await isIdle();
        await eachIsOwned();
      });
      await del("/v1/cloud-b/roles/web");
      await put("/v1/sys/leases/revoke-prefix/cloud-b/creds/web", { sync: false });
      await byItself(uuid, nothingIsLeft);
    },
  );
});

it("an engine without pools costs no row and no alarm", async () => {
  await writeRole("plain", dynamicRole(tenant));
  expect(await rows(uuid, "pools")).toEqual([]);
  expect((await get("/v1/cloud-b/roles/plain")).body.data).not.toHaveProperty("pool_ready");
  const issued = await creds("plain");
  expect((await lookup(issued.body.lease_id)).status).toBe(200);
});
