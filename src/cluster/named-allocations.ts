import { parseLossless } from "../http/json.ts";
import { clusterRegistry } from "../objects/stubs.ts";
import { allocationStub } from "./stubs.ts";
import type { Fields } from "./topics/topic.ts";

const IDS_AT_ONCE = 1_000;

/**
 * As volumes and plugins show the allocations that they name: those that there are.
 * @param namespace null = any
 * @param visible whether the caller may see those of a namespace
 */
export async function namedAllocations(
  env: Env,
  ids: readonly string[],
  namespace: string | null,
  visible: (namespace: string) => boolean = () => true,
): Promise<Fields[]> {
  const stubs: Fields[] = [];
  for (let at = 0; at < ids.length; ) {
    const { objects, looked } = await clusterRegistry(env).allocations(ids.slice(at, at + IDS_AT_ONCE), namespace);
    at += looked;
    for (const { namespace: held, body } of objects) {
      if (!visible(held)) continue;
      stubs.push(allocationStub(parseLossless(body) as Fields, { resources: false, taskStates: true }));
    }
  }
  return stubs;
}
