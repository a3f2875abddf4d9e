import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { accessObject, eventsOf, issue, path, policies } from "./access.ts";
import { type Answer, del, get, put, send } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { throughReplicas } from "./replicas.ts";

/** A power cut of one object: uncommitted writes, memory and calls are lost. */
const cut = () =>
  runInDurableObject(accessObject(), (_object, state) => {
    state.abort("power cut");
  }).catch(() => undefined);

const outboxRows = () =>
  runInDurableObject(
    accessObject(),
    (_object, { storage: { sql } }) => sql.exec<{ n: number }>("SELECT count(*) AS n FROM outbox").one().n,
  );

/** Waits until the outbox is empty; the alarm delivers without help. */
const settled = () => vi.waitFor(async () => expect(await outboxRows()).toBe(0), { interval: 100 });

/** Cuts the power at the next append: before the log stores it, or after, when only the response is lost. */
const cutAtAppend = (when: "before" | "after") => {
  const append = EventLog.prototype.append;
  const spy = vi.spyOn(EventLog.prototype, "append").mockImplementationOnce(async function (
    this: EventLog,
    ...entries
  ) {
    const indexes = when === "after" ? await append.apply(this, entries) : [];
    await cut();
    if (when === "before") throw new Error("never arrived");
    return indexes;
  });
  return () => expect(spy).toHaveBeenCalled();
};

describe.each(["before", "after"] as const)("a power cut %s the event log has stored an event", (when) => {
  it("keeps all tokens and policies, and delivers each event once and in order", async () => {
    const wasCut = cutAtAppend(when);
    await put("/v1/acl/policy/first", { Rules: path("sys/mounts", "read") }).catch(() => undefined);
    wasCut();
    const token = await issue({ policies: ["first"] });
    await put("/v1/acl/policy/second", { Rules: 'path "a" {}' });
    await del("/v1/acl/policy/first");
    await settled();
    const events = [...(await eventsOf("ACLPolicy")), ...(await eventsOf("ACLToken"))].sort(
      (a, b) => a.Index - b.Index,
    );
    expect(events.map(({ Type, Key }) => [Type, Key])).toEqual([
      ["ACLPolicyUpserted", "first"],
      ["ACLTokenUpserted", token.accessor],
      ["ACLPolicyUpserted", "second"],
      ["ACLPolicyDeleted", "first"],
    ]);
    const shown = await get("/v1/acl/policy/second");
    expect(shown.body.ModifyIndex).toBe(events[2].Index);
  });

  it("sets the indexes of the new token", async () => {
    const wasCut = cutAtAppend(when);
    await send("POST", "/v1/acl/token", { Name: "n", Type: "management" }).catch(() => undefined);
    wasCut();
    await settled();
    const [made, ...more] = await eventsOf("ACLToken");
    expect(more).toEqual([]);
    const { body } = await get(`/v1/acl/token/${made.Key}`);
    expect([body.CreateIndex, body.ModifyIndex]).toEqual([made.Index, made.Index]);
  });

  it("keeps a revocation", async () => {
    const { client_token, accessor } = await issue({});
    const wasCut = cutAtAppend(when);
    await put("/v1/auth/token/revoke", { token: client_token }).catch(() => undefined);
    wasCut();
    expect((await get("/v1/auth/token/lookup-self", { token: client_token })).status).toBe(403);
    await settled();
    expect((await eventsOf(`ACLToken:${accessor}`)).map(({ Type }) => Type)).toEqual([
      "ACLTokenUpserted",
      "ACLTokenDeleted",
    ]);
  });
});

describe("a power cut between an answer and the commit that stores the index of its event", () => {
  const index = (answer: Answer) => Number(answer.headers.get("x-orch-index"));
  /** Writes are answered before the indexes of their lines are stored. */
  const cutBeforeStoring = async () => {
    expect(await outboxRows()).toBeGreaterThan(0);
    await cut();
  };

  it("leaves a policy with the index that its writer was given", async () => {
    const first = index(await put("/v1/acl/policy/p", { Rules: 'path "a" {}' }));
    await cutBeforeStoring();
    expect((await get("/v1/acl/policy/p")).body).toMatchObject({ CreateIndex: first, ModifyIndex: first });
    const second = index(await put("/v1/acl/policy/p", { Rules: 'path "b" {}' }));
    await cutBeforeStoring();
    const removed = index(await del("/v1/acl/policy/p"));
    await cutBeforeStoring();
    expect(index(await get("/v1/acl/policies"))).toBe(removed);
    const payloads = (await eventsOf("ACLPolicy:p")).map(({ Index, Payload }) => [Index, Payload.ACLPolicy]);
    expect(payloads).toMatchObject([
      [first, { CreateIndex: first, ModifyIndex: first }],
      [second, { CreateIndex: first, ModifyIndex: second }],
      [removed, { CreateIndex: first, ModifyIndex: second }],
    ]);
  });

  it("leaves a token with the indexes of its event", async () => {
    const { accessor } = await issue({});
    await cutBeforeStoring();
    const { body } = await get(`/v1/acl/token/${accessor}`);
    const events = await eventsOf(`ACLToken:${accessor}`);
    expect(events.map(({ Index }) => [Index, Index])).toEqual([[body.CreateIndex, body.ModifyIndex]]);
  });

  it("waits for the log no longer than a second", async () => {
    await put("/v1/acl/policy/p", { Rules: 'path "a" {}' });
    vi.spyOn(EventLog.prototype, "append").mockReturnValue(new Promise(() => undefined));
    await cutBeforeStoring();
    const began = Date.now();
    expect((await get("/v1/acl/policy/p")).status).toBe(200);
    expect(Date.now() - began).toBeLessThan(5_000);
    vi.restoreAllMocks();
  });
});

it("stores the index of an event with the next commit, and by the alarm", async () => {
  await put("/v1/acl/policy/first", { Rules: 'path "a" {}' });
  expect(await outboxRows()).toBe(1);
  await put("/v1/acl/policy/second", { Rules: 'path "a" {}' });
  expect(await outboxRows()).toBe(1);
  await settled();
});

it("works while the event log is down, and delivers the events later", async () => {
  const down = vi.spyOn(EventLog.prototype, "append").mockImplementation(async () => {
    throw new Error("down");
  });
  expect((await put("/v1/acl/policy/p", { Rules: 'path "a" {}' })).status).toBe(200);
  expect((await get("/v1/acl/policy/p")).body).toMatchObject({ Name: "p", ModifyIndex: null });
  expect(down).toHaveBeenCalled();
  down.mockRestore();
  await settled();
  const [made] = await eventsOf("ACLPolicy:p");
  expect((await get("/v1/acl/policy/p")).body).toMatchObject({ CreateIndex: made.Index, ModifyIndex: made.Index });
});

it("keeps all acknowledged writes over restarts between requests", async () => {
  const restart = () => evictObject(accessObject());
  await policies({ p: path("sys/mounts", "read") });
  await restart();
  const parent = await issue({ policies: ["p"], num_uses: 2 });
  await restart();
  expect((await get("/v1/sys/mounts", { token: parent.client_token })).status).toBe(200);
  await restart();
  expect((await get("/v1/sys/mounts", { token: parent.client_token })).status).toBe(200);
  await restart();
  expect((await get("/v1/sys/mounts", { token: parent.client_token })).status).toBe(403);
  await put("/v1/sys/namespaces/a", {});
  await restart();
  await put("/v1/a/sys/mounts/kv", { type: "kv-v2" });
  await restart();
  expect((await get("/v1/a/sys/mounts")).body.data).toHaveProperty("kv/");
  expect((await get("/v1/auth/token/lookup-self")).status).toBe(200);
});

it("expires a token after a power cut before its expiry", async () => {
  const { accessor } = await issue({ ttl: "1s" });
  await cut();
  await vi.waitFor(
    async () => {
      const types = (await eventsOf(`ACLToken:${accessor}`)).map(({ Type }) => Type);
      expect(types).toEqual(["ACLTokenUpserted", "ACLTokenDeleted"]);
    },
    { interval: 200 },
  );
  // The object's rows are settled, so another alarm has no work.
  await runDurableObjectAlarm(accessObject());
  expect(await eventsOf(`ACLToken:${accessor}`)).toHaveLength(2);
});

it.each(["authorizeFor", "authorize"] as const)(
  "answers a request during a restart of AccessControl in %s",
  async (method) => {
    throughReplicas(method === "authorizeFor" ? 1 : 0);
    try {
      await get("/v1/sys/mounts");
      const asked = vi.spyOn(AccessControl.prototype, method).mockImplementationOnce(function (this: AccessControl) {
        (this as unknown as { ctx: DurableObjectState }).ctx.abort("restarted");
        throw new Error("unreachable");
      });
      // The clock stands still: a request that takes longer than a moment is judged once more before its answer.
      vi.spyOn(Date, "now").mockReturnValue(Date.now());
      // Another path: a replica would answer the same from memory.
      expect((await get("/v1/sys/auth")).status).toBe(200);
      expect(asked).toHaveBeenCalledTimes(method === "authorize" ? 2 : 1);
    } finally {
      throughReplicas(1);
    }
  },
);
