import { listDurableObjectIds } from "cloudflare:test";
import { DurableObject } from "cloudflare:workers";
import { StoredObject } from "../../src/platform/durable/stored-object.ts";

/** The objects that the running test has made: ids, with the names of their classes. */
export const made = new Map<string, string>();

/** Has every object note itself in `made` as it begins. */
export function noteWhatIsMade(): void {
  Object.setPrototypeOf(
    StoredObject,
    class extends DurableObject<Env> {
      constructor(ctx: DurableObjectState, env: Env) {
        super(ctx, env);
        made.set(ctx.id.toString(), new.target.name);
      }
    },
  );
}

/** The running test's objects of a kind. The runtime itself lists all that there ever were, those of other tests and files, too. */
export async function objectIds(namespace: DurableObjectNamespace): Promise<DurableObjectId[]> {
  return (await listDurableObjectIds(namespace)).filter((id) => made.has(String(id)));
}
