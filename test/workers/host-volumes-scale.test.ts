import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { NodeView } from "../../src/cluster/nodes/view.ts";
import type { VolumeQuery } from "../../src/contracts/host-volumes.ts";
import { VolumeUsage } from "../../src/volumes/host/usage.ts";
import { HostVolumeStore } from "../../src/volumes/host/volume-store.ts";
import { amount } from "../support/long.ts";
import { addNode, nodeId } from "./host-volumes.ts";
import { counted, registryObject } from "./nodes-helpers.ts";

/** Volumes and allocations to a node, however many nodes there are. */
const PER_NODE = 10;
/** Those of node 1 are there in any case. */
const numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)";
const uuid = "printf('%08d-0000-4000-8000-000000000000', i)";
const node = `printf('%08d-0000-4000-8000-000000000000', 1 + i / ${PER_NODE})`;

async function fill(count: number): Promise<void> {
  await addNode(1);
  await runInDurableObject(registryObject(), (_object, { storage: { sql } }) => {
    for (const table of ["host_volumes", "reported"]) sql.exec(`DELETE FROM ${table}`);
    sql.exec(
      `${numbers} INSERT INTO host_volumes (id, namespace, name, node_id, node_pool, plugin_id, state, made, gen, wanted,
         capacity_bytes, host_path, create_time, modify_time, create_index, modify_index)
       SELECT ${uuid}, 'default', 'db-' || i, ${node}, 'default', 'mkdir', 'ready', 1, 1, '{}', 0, '', 1, 1, 1, 1 FROM n`,
      count,
    );
    sql.exec(
      `${numbers} INSERT INTO reported (topic, namespace, id, job_id, node_id, terminal, body, create_line, create_index, modify_index)
       SELECT 'Allocation', 'default', ${uuid}, 'web', ${node}, 0, '{"TaskGroup":"g"}', 1, 1, 1 FROM n`,
      count,
    );
  });
}

const id = (number: number): string => `${String(number).padStart(8, "0")}-0000-4000-8000-000000000000`;
const page = (more: Partial<VolumeQuery>) => (sql: SqlStorage) =>
  new HostVolumeStore(sql).page({ namespace: "default", from: ["", ""], limit: 20, reverse: false, ...more });

const work: Readonly<Record<string, (sql: SqlStorage) => unknown>> = {
  "a page": page({}),
  "a page from the middle": page({ from: ["default", id(500)] }),
  "a page backwards": page({ from: ["default", id(500)], reverse: true }),
  "a page of all namespaces from the middle": page({ namespace: null, from: ["default", id(500)] }),
  "a page of a plugin from the middle": page({ pluginId: "mkdir", from: ["default", id(500)] }),
  "a page of a node": page({ nodeId: nodeId(7) }),
  "who uses a volume": (sql) =>
    new VolumeUsage(sql).usersOf({ id: id(70), nodeId: nodeId(7), namespace: "default", name: "db-70" }),
};

describe("with many volumes and allocations", () => {
  it("every operation costs the same with 1 000 as with many", async () => {
    const costs = async () => {
      const measured: Record<string, number> = {};
      for (const [name, run] of Object.entries(work)) measured[name] = (await counted(run)).rows;
      return measured;
    };
    await fill(1_000);
    const few = await costs();
    await fill(amount(5_000, 100_000));
    const many = await costs();
    for (const [name, rows] of Object.entries(many)) {
      expect([name, rows <= (few[name] ?? 0) + 2, rows <= 2 * 21 + 2]).toEqual([name, true, true]);
    }
  }, 120_000);
});

it("the first suitable of many nodes is selected without reading the others", async () => {
  for (let number = 1; number <= 5; number++) await addNode(number);
  const { rows } = await counted((sql) => new NodeView(sql).placeable("all", "", 200).next());
  expect(rows).toBeLessThanOrEqual(2);
});
