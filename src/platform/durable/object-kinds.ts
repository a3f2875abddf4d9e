/**
 * The object types included in a snapshot, and the tables with rows in an unused object: the maximum number of rows.
 */
const kinds = {
  "kv-store": { binding: "KV_STORE", bornWith: { data_keys: 1 } },
  "credential-engine": { binding: "CREDENTIAL_ENGINE", bornWith: { data_keys: 1 } },
  "sync-destination": { binding: "SYNC_DESTINATION", bornWith: { data_keys: 1 } },
  "sync-control": { binding: "SYNC_CONTROL", bornWith: { data_keys: 1, total: 1, permissions: 1 } },
  "identity-issuer": { binding: "IDENTITY_ISSUER", bornWith: { data_keys: 1 } },
  "cluster-registry": { binding: "CLUSTER_REGISTRY", bornWith: { data_keys: 1 } },
  "node-session": { binding: "NODE_SESSION", bornWith: { data_keys: 1, session: 1 } },
  "event-subscription": { binding: "EVENT_SUBSCRIPTION", bornWith: { data_keys: 1 } },
  "event-log": { binding: "EVENT_LOG", bornWith: { secret_demand: 1 } },
  // A restore is requested with the first root token.
  "access-control": {
    binding: "ACCESS_CONTROL",
    bornWith: { data_keys: 1, facts: 10, sealed: 1, tokens: 1, cluster_namespaces: 1 },
  },
} as const satisfies Record<string, { binding: keyof Env; bornWith: Readonly<Record<string, number>> }>;

export type ObjectKind = keyof typeof kinds;

/** An object of the deployment. */
export interface ObjectName {
  readonly kind: ObjectKind;
  readonly name: string;
}

export interface KnownPage {
  readonly objects: readonly ObjectName[];
  /** Start of the next page; null on the last. */
  readonly next: string | null;
}

export const isKind = (text: string): text is ObjectKind => Object.hasOwn(kinds, text);

export const bornWith = (kind: ObjectKind): Readonly<Record<string, number>> => kinds[kind].bornWith;

export const bindingOf = (kind: ObjectKind): keyof Env => kinds[kind].binding;

export const textOfObject = ({ kind, name }: ObjectName): string => `${kind} ${name}`;
