import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { SharedRead } from "../../src/platform/durable/blocking/shared-read.ts";

const inObject = (work: (storage: DurableObjectStorage) => void): Promise<void> =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) => work(storage));

it("concurrent equal reads share one query; a different one, or one after a write, runs its own", () =>
  inObject((storage) => {
    const { sql } = storage;
    sql.exec("CREATE TABLE numbers (n INTEGER)");
    let reads = 0;
    const shared = new SharedRead<number>(sql);
    const sum = (plus: number): number =>
      shared.of({ plus }, () => {
        reads += 1;
        return sql.exec<{ n: number }>("SELECT ifnull(sum(n), 0) AS n FROM numbers").one().n + plus;
      });
    expect([sum(1), sum(1), reads]).toEqual([1, 1, 1]);
    expect([sum(2), reads]).toEqual([2, 2]);
    sql.exec("INSERT INTO numbers VALUES (10)");
    expect([sum(2), sum(2), reads]).toEqual([12, 12, 3]);
    sql.exec("UPDATE numbers SET n = 20");
    expect([sum(2), reads]).toEqual([22, 4]);
    expect(() =>
      storage.transactionSync(() => {
        sql.exec("DELETE FROM numbers");
        throw new Error("undone");
      }),
    ).toThrow("undone");
    expect(sum(2)).toBe(22);
    sql.exec("DROP TABLE numbers");
  }));
