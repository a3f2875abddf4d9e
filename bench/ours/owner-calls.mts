/** Counts the calls by which requests reach the owners of grants and secrets. One isolate runs all objects. */
import { AccessControl, KvStore } from "../../src/worker.ts";

export const ownerCalls = { count: 0 };

type Method = (...given: unknown[]) => unknown;

for (const [owner, names] of [
  [AccessControl, ["authorize", "authorizeFor"]],
  [KvStore, ["read", "readFor"]],
] as const) {
  const prototype = owner.prototype as unknown as Record<string, Method>;
  for (const name of names) {
    const method = prototype[name] as Method;
    prototype[name] = function (this: unknown, ...given) {
      ownerCalls.count += 1;
      return Reflect.apply(method, this, given);
    };
  }
}
