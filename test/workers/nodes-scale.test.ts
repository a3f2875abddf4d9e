import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, it } from "vitest";
import { dueNode, NodeStore } from "../../src/cluster/nodes/node-store.ts";
import { amount } from "../support/long.ts";
import { get } from "./client.ts";
import { counted, id, ready, registryObject } from "./nodes-helpers.ts";

/** One real node, and as many more like it; of those, only what lists look at unless `whole`. */
async function fill(count: number, whole = false): Promise<void> {
  await ready(id(1));
  await runInDurableObject(registryObject(), (_object, state) => {
    state.storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO nodes (id, origin, pool, status, eligibility, draining, heard, down_at, drain_due, body, events,
         create_line, create_index, modify_index)
       SELECT replace(node.id, '00000001', printf('%08d', i)), node.origin, iif(i % 10 = 3, 'gpu', node.pool),
         node.status, node.eligibility, 0, 0, iif(i % 10 = 0, 6e12, NULL), iif(i % 10 = 1, 6e12, NULL),
         json_set(iif(?, node.body, '{}'), '$.ID', replace(node.id, '00000001', printf('%08d', i))), '[]', 1, 1, 1
       FROM n, nodes AS node WHERE node.id LIKE '00000001%'`,
      count,
      whole ? 1 : 0,
    );
  });
}

const work: Readonly<Record<string, (store: NodeStore, sql: SqlStorage) => unknown>> = {
  "reading one": (store) => store.read(id(777)),
  "finding one": (store) => store.find(id(777)),
  "whether it is draining": (store) => store.isDraining(id(777)),
  "a page from the middle": (store) => store.page({ from: id(500), limit: 20 }),
  "a page backwards": (store) => store.page({ from: id(500), limit: 20, reverse: true }),
  "a page by prefix": (store) => store.page({ from: "", limit: 20, range: ["000007", "000007g"] }),
  "a later page by prefix": (store) => store.page({ from: id(720), limit: 20, range: ["000007", "000007g"] }),
  "a page of a small pool": (store) => store.page({ from: "", limit: 20, pool: "gpu" }),
  "a page of a large pool": (store) => store.page({ from: id(900), limit: 20, pool: "default" }),
  "when the next node is down": (_store, sql) => sql.exec(dueNode("down_at")).one(),
  "when the next drain ends": (_store, sql) => sql.exec(dueNode("drain_due")).one(),
  "which node is down by now": (store) => store.due("down_at", 1e15),
  "which drain ends by now": (store) => store.due("drain_due", 1e15),
};

const costs = async (): Promise<Record<string, number>> => {
  const measured: Record<string, number> = {};
  for (const [name, run] of Object.entries(work)) {
    measured[name] = (await counted((sql) => run(new NodeStore(sql, []), sql))).rows;
  }
  return measured;
};

describe("with many nodes", () => {
  it("every operation costs the same with 1 000 nodes as with many", async () => {
    await fill(1_000);
    const few = await costs();
    await runInDurableObject(registryObject(), (_object, state) => {
      state.storage.sql.exec("DELETE FROM nodes");
    });
    await fill(amount(5_000, 100_000));
    const many = await costs();
    for (const [name, rows] of Object.entries(many)) {
      expect([name, rows <= (few[name] ?? 0) + 2]).toEqual([name, true]);
      expect([name, rows <= 2 * 21 + 2]).toEqual([name, true]);
    }
  }, 120_000);

  describe("in a list", () => {
    beforeEach(() => fill(3_000, true), 60_000);

    it("each of 3 000 appears once and in order", async () => {
      const ids: string[] = (await get("/v1/nodes")).body.map(({ ID }: { ID: string }) => ID);
      expect(ids).toHaveLength(3_000);
      expect(ids).toEqual(Array.from({ length: 3_000 }, (_, n) => id(n + 1)));
    });
  });
});
