import { memorySql } from "./memory-sql.ts";

/** The storage of one object in memory: tables, the values beside them, and transactions that nest. */
export function memoryStorage(): DurableObjectStorage {
  const sql = memorySql([]);
  const values = new Map<string, unknown>();
  let depth = 0;
  const transactionSync = <T>(closure: () => T): T => {
    const point = `point${++depth}`;
    sql.exec(`SAVEPOINT ${point}`);
    try {
      const result = closure();
      sql.exec(`RELEASE ${point}`);
      return result;
    } catch (failure) {
      sql.exec(`ROLLBACK TO ${point}`);
      sql.exec(`RELEASE ${point}`);
      throw failure;
    } finally {
      depth--;
    }
  };
  const kv = {
    get: (key: string) => values.get(key),
    put: (key: string, value: unknown) => void values.set(key, structuredClone(value)),
    delete: (key: string) => values.delete(key),
  };
  return { sql, kv, transactionSync, setAlarm: async () => undefined } as unknown as DurableObjectStorage;
}
