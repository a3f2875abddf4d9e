import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { amount } from "../support/long.ts";
import { get, put } from "./client.ts";
import { instance, PLUGIN, register } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";
import { registryObject } from "./nodes-helpers.ts";

/** One in this many volumes is claimed, each by an allocation on the same node. */
const ONE_IN = 5;
/** No agent mounts here: the cost of a claim is the registry's own work. */
const NODE = nodeId(1);
const volumeOf = (number: number): string => `vol[${String(number).padStart(8, "0")}]`;

const report = async (events: readonly object[]): Promise<void> => {
  const reported = await put("/v1/cluster/objects", events);
  expect(reported.status, reported.text).toBe(200);
};

const allocation = (ID: string, volume: string, ClientStatus: string) => ({
  Topic: "Allocation",
  Type: "AllocationUpdated",
  Payload: {
    Allocation: { ID, Name: `db.main${volume.slice(3)}`, JobID: "db", TaskGroup: "main", NodeID: NODE, ClientStatus },
  },
});

/** One of each as the service makes it. */
beforeEach(async () => {
  const plugin = instance({ RequiresControllerPlugin: false, NodeInfo: { ID: "far" } });
  const Node = { ID: NODE, Name: "csi", Status: "ready", CSINodePlugins: { [PLUGIN]: plugin } };
  const Volumes = { data: { Type: "csi", Source: "vol", PerAlloc: true } };
  await report([{ Topic: "Node", Type: "NodeRegistration", Payload: { Node } }]);
  expect((await register({ ID: volumeOf(0), Name: "vol-0" })).status).toBe(200);
  await report([
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "db", TaskGroups: [{ Name: "main", Volumes }] } } },
    allocation("alloc-0", volumeOf(0), "running"),
  ]);
});

/** So many like the first, besides those that there are. */
const fill = (from: number, to: number): Promise<void> =>
  runInDurableObject(registryObject(), (_registry, { storage: { sql } }) => {
    const numbers = `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to - 1})`;
    const volume = "printf('vol[%08d]', i)";
    sql.exec(
      `${numbers} INSERT INTO csi_volumes (namespace, id, plugin_id, body, create_index, modify_index)
       SELECT namespace, ${volume}, plugin_id, json_set(body, '$.id', ${volume}), create_index, modify_index
       FROM n, csi_volumes WHERE id = '${volumeOf(0)}'`,
    );
    sql.exec(
      `${numbers} INSERT INTO csi_claims (namespace, volume_id, alloc_id, node_id, plugin_id, mode, access_mode,
         attachment_mode, volume_mode, state, created, updated)
       SELECT namespace, ${volume}, 'alloc-' || i, node_id, plugin_id, mode, access_mode, attachment_mode, volume_mode, state,
         created, updated
       FROM n, csi_claims WHERE volume_id = '${volumeOf(0)}' AND i % ${ONE_IN} = 0`,
    );
    sql.exec(
      `${numbers} INSERT INTO reported (topic, namespace, id, job_id, node_id, terminal, body, create_line, create_index,
         modify_index)
       SELECT topic, namespace, 'alloc-' || i, job_id, node_id, terminal, body, create_line, create_index, modify_index
       FROM n, reported WHERE topic = 'Allocation' AND id = 'alloc-0' AND i % ${ONE_IN} = 0`,
    );
  });

/** Rows that the registry reads while something is asked of it, and until nothing moves any more. */
async function rowsOf(work: () => Promise<unknown>): Promise<number> {
  const cursors: { rowsRead: number }[] = [];
  const sql = await runInDurableObject(registryObject(), (registry) => {
    const held = (registry as unknown as { sql: SqlStorage }).sql;
    const exec = held.exec.bind(held) as SqlStorage["exec"];
    Object.defineProperty(held, "exec", {
      configurable: true,
      value: (...given: Parameters<SqlStorage["exec"]>) => {
        const cursor = exec(...given);
        cursors.push(cursor);
        return cursor;
      },
    });
    return { exec, stop: () => Reflect.deleteProperty(held, "exec") };
  });
  await work();
  const moving = "SELECT 1 FROM outbox UNION ALL SELECT 1 FROM csi_claims WHERE due IS NOT NULL LIMIT 1";
  const moves = () => runInDurableObject(registryObject(), () => sql.exec(moving).toArray().length);
  await expect.poll(moves).toBe(0);
  return runInDurableObject(registryObject(), () => {
    sql.stop();
    return cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0);
  });
}

const ok = async (path: string): Promise<void> => expect((await get(path)).status).toBe(200);
let claimed = 0;
const WORK: Readonly<Record<string, (count: number) => Promise<void>>> = {
  "a volume": (count) => ok(`/v1/volume/csi/${encodeURIComponent(volumeOf(count / 2))}`),
  "a page": () => ok("/v1/volumes?type=csi&per_page=20"),
  "a page from the middle": (count) =>
    ok(`/v1/volumes?type=csi&per_page=20&next_token=${encodeURIComponent(`default.${volumeOf(count / 2)}`)}`),
  "claims of a volume": (count) => ok(`/v1/volume/csi/${encodeURIComponent(volumeOf(count / 2))}/claims`),
  "a claim taken and given back": async () => {
    claimed += ONE_IN;
    for (const status of ["running", "complete"])
      await report([allocation(`new-${claimed}`, volumeOf(claimed + 1), status)]);
  },
};

const MANY = amount(5_000, 100_000);

describe("with many CSI volumes, one in five of them claimed", () => {
  it("every operation costs the same with 1 000 as with many", async () => {
    const costs = async (count: number) => {
      const measured: Record<string, number> = {};
      for (const [name, work] of Object.entries(WORK)) {
        await work(count);
        // Alarms, and other work that comes now and then, do not count.
        const spent: number[] = [];
        for (let time = 0; time < 3; time++) spent.push(await rowsOf(() => work(count)));
        measured[name] = Math.min(...spent);
      }
      return measured;
    };
    await fill(1, 1_000);
    const few = await costs(1_000);
    await fill(1_000, MANY);
    const many = await costs(MANY);
    for (const [name, rows] of Object.entries(many)) {
      expect([name, rows <= (few[name] ?? 0) + 2, rows <= 250]).toEqual([name, true, true]);
    }
  }, 120_000);
});
