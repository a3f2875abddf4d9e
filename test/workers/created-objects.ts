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

/** Class names of the objects of each namespace. */
const classes = new WeakMap<DurableObjectNamespace, string>();

/**
 * The running test's objects of a kind. The plugin's own list names all objects of the runtime's tests so far, and takes
 * a request to another process: it was a fifth of the CPU time of the suite of bad input.
 */
export function objectIds(namespace: DurableObjectNamespace): DurableObjectId[] {
  const known = classes.get(namespace);
  const found: DurableObjectId[] = [];
  for (const [id, name] of made) {
    if (known !== undefined && known !== name) continue;
    try {
      found.push(namespace.idFromString(id));
      classes.set(namespace, name);
    } catch {
      // An id of another namespace.
    }
  }
  return found;
}
