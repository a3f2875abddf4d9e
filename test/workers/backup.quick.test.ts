import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { OperationResult } from "../../src/contracts/node-operation.ts";
import { ok } from "../../src/lib/result.ts";
import { NodeSession } from "../../src/objects/node-session.ts";
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
import { controllers, create } from "./csi-world.ts";
import { lookup, revoke } from "./engine-helpers.ts";
import { addNode, ask, make, nodeId } from "./host-volumes.ts";
import { NAMESPACES } from "./object-namespaces.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { eventually, objects } from "./sync-helpers.ts";

const SEQUENCES = "cluster-registry main sqlite_sequence";

/** A node that refuses generations below the highest one of a key, as agents do; else every operation succeeds. */
function fencedNode(): void {
  const fences = new Map<string, number>();
  const given = { path: "/v", bytes: 0, externalId: "ext", capacityBytes: 2_048, context: {}, topologies: [] };
  vi.spyOn(NodeSession.prototype, "start").mockImplementation(async function (this: NodeSession, { id, key, gen }) {
    const { ctx } = this as unknown as { ctx: DurableObjectState };
    const fence = fences.get(key) ?? 0;
    fences.set(key, Math.max(fence, gen));
    const result: OperationResult =
      gen < fence
        ? { state: "failed", error: { kind: "stale", message: "a newer operation was accepted" } }
        : { state: "done", result: { ...given, nodeExpansionRequired: false } };
    setTimeout(() => void clusterRegistry(env).operationDone(ctx.id.name ?? "", id, result), 2);
    return ok(null);
  });
}

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
    // An object that wakes after its mount is gone makes itself a data key that it never uses. Generations are raised.
    const used = ({ [`kv-store ${destroyedMount} data_keys`]: _unused, ...rows }: ReturnType<typeof inPlace>) => ({
      ...rows,
      [SEQUENCES]: rows[SEQUENCES]?.filter(({ name }) => name !== "csi_operations"),
    });
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

  it("operates on nodes that have accepted newer operations than those of the snapshot", async () => {
    fencedNode();
    await addNode(1, controllers());
    const { ID } = await make();
    expect((await create()).status).toBe(200);
    const file = await snapshot();
    let capacity = 4_096;
    const change = async () => {
      capacity += 1_024;
      const answers = [
        await ask({ ID, Parameters: { n: `${capacity}` } }),
        await create({ RequestedCapacityMin: capacity }),
      ];
      expect(answers.map(({ status, text }) => [status, status === 200 ? "" : text])).toEqual([
        [200, ""],
        [200, ""],
      ]);
    };
    for (let count = 0; count < 3; count++) await change();
    await loseEverything();
    expect((await restore(file)).status).toBe(200);
    await change();
  });

  it("has no secret in the file", async () => {
    await buildWorld();
    const file = Buffer.from(await snapshot());
    for (const text of [CANARY, "app/db", "readers", "PRIVATE KEY"]) expect(file.includes(text), text).toBe(false);
  });
});
