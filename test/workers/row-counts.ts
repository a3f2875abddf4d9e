import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { StoredObject } from "../../src/platform/durable/stored-object.ts";
import type { Metrics } from "../../src/worker.ts";
import { ownerOf } from "./created-objects.ts";

/** The billed usage since the last look. */
export interface Spent {
  /** Rows of tables, indexes and keys; without alarms. */
  readonly rows: number;
  /** Alarms that were set, a row each, and run, a request each: whichever are more. */
  readonly alarms: number;
  /** Calls of objects, and how often by method. */
  readonly calls: number;
  readonly called: Readonly<Record<string, number>>;
  /** Lines of the log, of the Worker and of all objects. */
  readonly lines: number;
  /** Rows by object class and statement. */
  readonly by: ReadonlyMap<string, number>;
}

interface Written {
  readonly what: string;
  readonly rows: () => number;
}

type Anything = (this: object, ...given: unknown[]) => unknown;

/** The call that writes counters: by time, not by operation. */
const COUNTERS_WRITTEN = "add" satisfies keyof Metrics;

/** Nothing is under way when nothing was spent for so long. */
const CALM_MS = 300;

/** Counts what the deployment spends from now on. The prototypes are those of the runtime, so all objects count. */
export async function countSpending() {
  const written: Written[] = [];
  const count = { set: 0, run: 0, calls: 0 };
  const called = new Map<string, number>();
  const around = (
    holder: object,
    name: string,
    after: (self: object, given: unknown[], result: unknown) => unknown,
  ) => {
    const original = (holder as Record<string, Anything>)[name] as Anything;
    vi.spyOn(holder as Record<string, Anything>, name).mockImplementation(function (this: object, ...given) {
      return after(this, given, original.apply(this, given));
    });
  };
  const write = (holder: object, text: string, rows: () => number) =>
    void written.push({ what: `${ownerOf(holder)}: ${text.replaceAll(/\s+/g, " ").slice(0, 60)}`, rows });
  await runInDurableObject(env.METRICS.getByName("main"), (_object, { storage }) => {
    around(Object.getPrototypeOf(storage.sql), "exec", (sql, [statement], cursor) => {
      write(sql, String(statement), () => (cursor as SqlStorageCursor<never>).rowsWritten);
      return cursor;
    });
    for (const name of ["put", "delete"]) {
      around(Object.getPrototypeOf(storage.kv), name, (kv, [key], result) => {
        write(kv, `${name} ${String(key).split(":")[0]}`, () => 1);
        return result;
      });
    }
    around(Object.getPrototypeOf(storage), "setAlarm", (_storage, _given, result) => {
      count.set += 1;
      return result;
    });
  });
  around(StoredObject.prototype, "alarm", (_object, _given, result) => {
    count.run += 1;
    return result;
  });
  around(Object.getPrototypeOf(env.METRICS), "getByName", (_namespace, _given, stub) => {
    const calls: ProxyHandler<object> = {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          if (name !== COUNTERS_WRITTEN) count.calls += 1;
          called.set(String(name), (called.get(String(name)) ?? 0) + 1);
          return (target as Record<PropertyKey, (...given: unknown[]) => unknown>)[name]?.(...given);
        };
      },
    };
    return new Proxy(stub as object, calls);
  });
  const lists = (results: readonly { readonly meta: { readonly rows_written?: number } }[]) => {
    for (const { meta } of results) written.push({ what: "D1", rows: () => meta.rows_written ?? 0 });
  };
  const prepared = Object.getPrototypeOf(env.LISTINGS.prepare("SELECT 1")) as object;
  for (const name of ["run", "all"]) {
    around(prepared, name, async (_statement, _given, result) => {
      lists([(await result) as D1Result]);
      return result;
    });
  }
  around(Object.getPrototypeOf(env.LISTINGS), "batch", async (_database, _given, results) => {
    lists((await results) as D1Result[]);
    return results;
  });
  const consoles = (["info", "warn", "error", "log"] as const).map((name) => vi.spyOn(console, name));
  const take = (): Spent => {
    const by = new Map<string, number>();
    for (const { what, rows } of written.splice(0)) by.set(what, (by.get(what) ?? 0) + rows());
    // Rows of counters, like their call.
    for (const [what, rows] of by) if (rows === 0 || what.startsWith("Metrics")) by.delete(what);
    const spent = {
      rows: [...by.values()].reduce((sum, rows) => sum + rows, 0),
      alarms: Math.max(count.set, count.run),
      calls: count.calls,
      called: Object.fromEntries(called),
      lines: consoles.reduce((sum, { mock }) => sum + mock.calls.length, 0),
      by,
    };
    Object.assign(count, { set: 0, run: 0, calls: 0 });
    called.clear();
    for (const { mock } of consoles) mock.calls.length = 0;
    return spent;
  };
  /** Everything that `work` spends, also behind its answer. */
  return async (work: () => Promise<unknown>): Promise<Spent> => {
    take();
    await work();
    await calm();
    return take();
  };

  async function calm(): Promise<void> {
    for (let seen = -1; seen !== written.length + count.calls; await scheduler.wait(CALM_MS))
      seen = written.length + count.calls;
  }
}
