import { env } from "cloudflare:workers";

/** The bindings of the objects that snapshots have, by kind. */
export const NAMESPACES = {
  "kv-store": env.KV_STORE,
  "credential-engine": env.CREDENTIAL_ENGINE,
  "sync-destination": env.SYNC_DESTINATION,
  "sync-control": env.SYNC_CONTROL,
  "identity-issuer": env.IDENTITY_ISSUER,
  "cluster-registry": env.CLUSTER_REGISTRY,
  "node-session": env.NODE_SESSION,
  "event-subscription": env.EVENT_SUBSCRIPTION,
  "event-log": env.EVENT_LOG,
  "access-control": env.ACCESS_CONTROL,
};
