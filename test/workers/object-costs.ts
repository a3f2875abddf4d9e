import { runInDurableObject } from "cloudflare:test";

export interface Cost {
  statements: number;
  transactions: number;
}

/** Counts what an object does from now on. */
export const count = (stub: unknown): Promise<Cost> =>
  runInDurableObject(stub as DurableObjectStub, (object, { storage }) => {
    const cost: Cost = { statements: 0, transactions: 0 };
    const { sql } = object as unknown as { sql: SqlStorage };
    const exec = sql.exec.bind(sql) as SqlStorage["exec"];
    const transactionSync = storage.transactionSync.bind(storage);
    Object.defineProperty(sql, "exec", {
      value: (...given: Parameters<SqlStorage["exec"]>) => {
        cost.statements += 1;
        return exec(...given);
      },
    });
    Object.defineProperty(storage, "transactionSync", {
      value: (change: () => unknown) => {
        cost.transactions += 1;
        return transactionSync(change);
      },
    });
    return cost;
  });
