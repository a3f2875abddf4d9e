import { clusterRegistry } from "../../rpc/stubs.ts";
import { allocationOf, jobIn, withJobType } from "./allocation-shapes.ts";
import { jobKey } from "./job-joins.ts";
import { allocationStub } from "./list-views.ts";
import type { Fields } from "./topics/topic.ts";

const MAX_IDS_PER_CALL = 1_000;

/**
 * The list views of allocations by id, as volumes and plugins show them; unknown ids are skipped.
 * @param namespace null = any
 * @param visible whether the caller may read a namespace
 */
export async function namedAllocations(
  env: Env,
  ids: readonly string[],
  namespace: string | null,
  visible: (namespace: string) => boolean = () => true,
): Promise<Fields[]> {
  const stubs: Fields[] = [];
  for (let at = 0; at < ids.length; ) {
    const page = await clusterRegistry(env).allocations(ids.slice(at, at + MAX_IDS_PER_CALL), namespace);
    at += page.looked;
    for (const object of page.objects) {
      if (!visible(object.namespace)) continue;
      const typed = withJobType(allocationOf(object), jobIn(page.jobs[jobKey(object)]));
      stubs.push(allocationStub(typed, { resources: false, taskStates: true }));
    }
  }
  return stubs;
}
