import { type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import { SINGLETONS, storedObject } from "../rpc/stored-objects.ts";

/**
 * Enumerates every object of the deployment once: mounts and key holders through `AccessControl`, agents through
 * `ClusterRegistry`, destinations with work through `SyncControl`.
 */
export async function* everyObject(env: Env): AsyncGenerator<ObjectName> {
  const seen = new Set<string>();
  for (const owner of SINGLETONS) {
    for (let after: string | null = ""; after !== null; ) {
      const page = await storedObject(env, owner).known(after);
      for (const object of page.objects) {
        if (seen.has(textOfObject(object))) continue;
        seen.add(textOfObject(object));
        yield object;
      }
      after = page.next;
    }
  }
}
