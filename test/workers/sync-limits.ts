import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import type { SecretRef } from "../../src/contracts/sync-tasks.ts";
import { type Answer, get, patch } from "./client.ts";

/** Helpers of the tests of pause and capacity. */

export const configure = (changes: Record<string, unknown>): Promise<Answer> => patch("/sys/sync/config", changes);
export const pause = () => configure({ disabled: true });
export const resume = () => configure({ disabled: false });

export const destination = (name: string) => env.SYNC_DESTINATION.getByName(name);

/** How many associations of a destination are in each state. */
export async function counts(name: string): Promise<Record<string, number>> {
  const { body } = await get(`/sys/sync/destinations/${name}/associations`);
  return body.data.sync_operation_counters;
}

/** Records every call to cloud-a from this runtime, and the most calls in flight. */
export function watchCalls(): { readonly started: string[]; readonly most: number } {
  const seen = { started: [] as string[], most: 0 };
  let out = 0;
  const real = globalThis.fetch;
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (!url.startsWith(env.TEST_CLOUD_A.url) || url.includes("/_double/")) return real(input, init);
    seen.started.push(new Headers(init?.headers).get("x-amz-target")?.split(".")[1] ?? url);
    seen.most = Math.max(seen.most, ++out);
    return real(input, init).finally(() => out--);
  });
  return seen;
}

/** Many secrets of one mount, written without a request each. */
export async function writeMany(
  mount: { uuid: string; accessor: string },
  names: readonly string[],
  value = "first",
): Promise<SecretRef[]> {
  const store = env.KV_STORE.getByName(mount.uuid);
  for (const name of names) {
    const written = await store.put(name, JSON.stringify({ v: `${value} of ${name}` }), null, {
      create: true,
      update: true,
    });
    expect(written.ok).toBe(true);
  }
  return names.map((secretName) => ({
    mountUuid: mount.uuid,
    mountAccessor: mount.accessor,
    mountPath: "kv/",
    secretName,
  }));
}

export const numbered = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(4, "0")}`);
