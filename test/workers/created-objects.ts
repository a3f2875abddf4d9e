import { listDurableObjectIds } from "cloudflare:test";
import { DurableObject } from "cloudflare:workers";
import { StoredObject } from "../../src/platform/durable/stored-object.ts";

/** The objects that the running test has made: ids, with the names of their classes. */
export const made = new Map<string, string>();

/** The class of the object that a storage, its SQL or its keys belong to. */
const owners = new WeakMap<object, string>();
export const ownerOf = (storage: object): string | undefined => owners.get(storage);

/** Has every object note itself in `made` as it begins. */
export function noteWhatIsMade(): void {
  Object.setPrototypeOf(
    StoredObject,
    class extends DurableObject<Env> {
      constructor(ctx: DurableObjectState, env: Env) {
        super(ctx, env);
        made.set(ctx.id.toString(), new.target.name);
        for (const part of [ctx.storage, ctx.storage.sql, ctx.storage.kv]) owners.set(part, new.target.name);
      }
    },
  );
}

/** The running test's objects of a kind. The runtime itself lists all that there ever were, those of other tests and files, too. */
export async function objectIds(namespace: DurableObjectNamespace): Promise<DurableObjectId[]> {
  return (await listDurableObjectIds(namespace)).filter((id) => made.has(String(id)));
}
