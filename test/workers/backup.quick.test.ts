import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { clusterRegistry, eventLog } from "../../src/rpc/stubs.ts";
import { eventsOf, issue } from "./access.ts";
import {
  allInPlace,
  allObjects,
  buildWorld,
  CANARY,
  listed,
  lookBefore,
  loseEverything,
  restore,
  rowsOf,
  snapshot,
} from "./backup-world.ts";
import { get, put } from "./client.ts";
import { objectIds } from "./created-objects.ts";
import { lookup, revoke } from "./engine-helpers.ts";
import { nodeId } from "./host-volumes.ts";
import { NAMESPACES } from "./object-namespaces.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { eventually, objects } from "./sync-helpers.ts";

describe("a snapshot restored into a new deployment", () => {
  it("restores every row of every object before any of them starts, and the lists", async () => {
    const { destroyedMount } = await buildWorld();
    const all = await allObjects();
    for (const [kind, namespace] of Object.entries(NAMESPACES)) {
      const found = all.filter((object) => object.kind === kind).map(({ name }) => String(namespace.idFromName(name)));
      const existing = objectIds(namespace as DurableObjectNamespace);
      // The session of a node that never had an agent, and owes nothing, is empty.
      const empty = String(env.NODE_SESSION.idFromName(nodeId(1)));
      const used = existing.map(String).filter((id) => id !== empty);
      expect(found.sort(), kind).toEqual(used.sort());
    }
    const atTheCut = lookBefore("thaw", all);
    // Deletions of earlier tests may still be on their way to the list.
    await eventually(async () => expect((await listed())[0]).toHaveLength(2));
    const listedBefore = await listed();
    // The log tells a subscription of its newest line after the change, also while a snapshot is taken.
    await eventually(async () => {
      const rows = Object.entries(await rowsOf(all));
      expect(rows.filter(([name, { length }]) => name.endsWith(" outbox") && length > 0)).toEqual([]);
      const newest = await eventLog(env).newest();
      expect(rows.filter(([name]) => name.endsWith(" subscription"))).toMatchObject([
        [expect.anything(), [{ newest }]],
      ]);
    });
    const file = await snapshot();
    const before = atTheCut();
    expect(Object.keys(before)).toContain(`kv-store ${destroyedMount} settings`);
    expect(Object.keys(before).length).toBeGreaterThan(60);

    await loseEverything();
    const inPlace = lookBefore("stepRestore", all, allInPlace);
    const restored = await restore(file);
    expect(restored.status, restored.text).toBe(200);
    // An object that wakes after its mount is gone makes itself a data key that it never uses.
    const used = ({ [`kv-store ${destroyedMount} data_keys`]: _unused, ...rows }: ReturnType<typeof inPlace>) => rows;
    expect(used(inPlace())).toEqual(used(before));
    expect(await listed()).toEqual(listedBefore);
    expect(restored.body.data).toMatchObject({ objects: 12, listings: { destinations: 2, behind: 0 } });
    expect(Object.keys(await rowsOf(all)).filter((name) => name.includes(":"))).toEqual([]);
  });

  it("yields a working service: tokens, leases, syncing, events from the next index on, nodes", async () => {
    const { lease, token, agent, tenant } = await buildWorld();
    const newest = await eventLog(env).newest();
    const file = await snapshot();
    await loseEverything();
    expect((await restore(file)).status).toBe(200);

    const secret = await get("/v1/kv/data/app/db", { token });
    expect(secret.body?.data?.data, secret.text).toEqual({ password: `${CANARY}-2` });
    expect((await put("/v1/kv/data/app/db", { data: {} }, { token })).status).toBe(403);
    expect((await lookup(lease)).body.data.id).toBe(lease);
    expect((await tenant.everything()).principals).toHaveLength(3);
    expect((await revoke(lease)).status).toBe(204);
    expect((await tenant.everything()).principals).toHaveLength(2);

    await put("/v1/kv/data/app/db", { data: { password: "new" } });
    await eventually(async () => {
      expect(Object.values(await objects("memory"))).toEqual(['{"password":"new"}']);
      expect((await cloudA.secrets()).map(({ value }) => value)).toEqual(['{"password":"new"}']);
    });
    expect((await get("/sys/sync/repo-host-apps/app")).body.data.app_id).toBe(1);
    expect((await get("/sys/sync/config")).body.data.queue_capacity).toBe(500);

    const seen = (await eventsOf("Node")).filter(({ Index }) => Index > newest);
    await issue();
    const made = (await eventsOf("ACLToken")).at(-1);
    expect(seen.every(({ Index }) => Index > newest)).toBe(true);
    expect(made.Index).toBeGreaterThan(newest);
    const indexes = (await eventsOf("*")).map(({ Index }) => Index);
    expect(indexes).toEqual([...indexes].sort((a, b) => a - b));

    const socket = await agent.connect();
    const welcome = await socket.welcome({ epoch: 2 });
    expect(welcome.t).toBe("welcome");
    await socket.seen("req");
    expect(await clusterRegistry(env).agentIdentity(agent.node)).not.toBeNull();
  });

  it("has no secret in the file", async () => {
    await buildWorld();
    const file = Buffer.from(await snapshot());
    for (const text of [CANARY, "app/db", "readers", "PRIVATE KEY"]) expect(file.includes(text), text).toBe(false);
  });
});
