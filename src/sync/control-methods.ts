import type { SyncControlApi } from "../contracts/sync-control.ts";
import { refuse } from "../lib/result.ts";
import { DataKeys } from "../platform/crypto/data-keys.ts";
import { masterKey } from "../platform/crypto/master-key.ts";
import { refuseIfSealed, sealed } from "../platform/crypto/refuse-if-sealed.ts";
import { EndedNamespaces } from "../platform/durable/ended-namespaces.ts";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { MethodTable } from "../platform/durable/rpc-methods.ts";
import { syncDestination } from "../rpc/stubs.ts";
import { APP_CONTENT, Apps } from "./configuration/apps.ts";
import { QueueCapacity } from "./scheduler/queue-capacity.ts";

const USERS_ASKED = 50;

/** The components of `SyncControl`. */
export function controlParts(object: ObjectContext) {
  const keys = new DataKeys(object.sql, "sync-control", () => masterKey(object.env));
  return {
    object,
    keys,
    apps: new Apps(object.sql, keys),
    capacity: new QueueCapacity(object.sql),
    ended: new EndedNamespaces(object.sql, [APP_CONTENT], refuse("missing", "the namespace was deleted meanwhile")),
  };
}

export type ControlParts = ReturnType<typeof controlParts>;

/** RPC methods about custom applications of the repository host, which belong to namespaces. */
export const appMethods = {
  putApp: async ({ object, apps, ended }, namespaceId, namespace, name, ...key) => {
    const { outbox } = object;
    const written = refuseIfSealed(() =>
      object.commit(() => {
        const admitted = ended.admit([namespaceId]);
        if (!admitted.ok) return admitted;
        if (!apps.any()) outbox.enlistLatest("key-holder", "", null);
        for (const user of apps.users(namespace, name)) outbox.enlistLatest("repaired", `${namespace}${user}`, null);
        return apps.put(namespaceId, namespace, name, ...key);
      }),
    );
    await outbox.drain();
    return written;
  },
  app: ({ apps }, ...given) => apps.view(...given),
  appNames: ({ apps }, namespace) => apps.names(namespace),
  appCredentials: sealed(({ apps }, ...given) => apps.credentials(...given)),
  deleteApp: async ({ object, apps }, namespace, name) => {
    // A destination that crashed between the two writes does not use it.
    for (const user of apps.users(namespace, name).slice(0, USERS_ASKED)) {
      const destination = `${namespace}${user}`;
      if (await syncDestination(object.env, destination).needsApp(name)) continue;
      object.commit(() => apps.release(namespace, destination, name));
    }
    return object.commit(() => apps.delete(namespace, name));
  },
  claimApp: ({ object, apps }, ...given) => object.commit(() => apps.claim(...given)),
  useApp: ({ object, apps }, ...given) => object.commit(() => apps.use(...given)),
  endNamespace: ({ object, ended }, id, path) => object.commit(() => ended.end(id, path, Date.now())),
  clearNamespace: ({ object, apps }, path) => object.commit(() => apps.clear(path)),
} satisfies Partial<MethodTable<SyncControlApi, ControlParts>>;
