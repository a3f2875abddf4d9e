import type { AccessControl } from "../objects/access-control.ts";
import type { ClusterRegistry } from "../objects/cluster-registry.ts";
import type { CredentialEngine } from "../objects/credential-engine.ts";
import type { EventLog } from "../objects/event-log.ts";
import type { EventRelay } from "../objects/event-relay.ts";
import type { IdentityIssuer } from "../objects/identity-issuer.ts";
import type { KvStore } from "../objects/kv-store.ts";
import type { Metrics } from "../objects/metrics.ts";
import type { NodeSession } from "../objects/node-session.ts";
import type { SyncControl } from "../objects/sync-control.ts";
import type { SyncDestination } from "../objects/sync-destination.ts";
import { remote } from "../platform/durable/rpc.ts";

/** Who may do what: one for the deployment. */
export const accessControl = (env: Env) => remote<AccessControl>(env.ACCESS_CONTROL.getByName("main"));

/** The secrets of one mount. */
export const kvStore = (env: Env, mountUuid: string) => remote<KvStore>(env.KV_STORE.getByName(mountUuid));

/** The credentials engine of one mount. */
export const credentialEngine = (env: Env, mountUuid: string) =>
  remote<CredentialEngine>(env.CREDENTIAL_ENGINE.getByName(mountUuid));

/** One destination, by its object's name. */
export const syncDestination = (env: Env, name: string) =>
  remote<SyncDestination>(env.SYNC_DESTINATION.getByName(name));

/** What concerns all destinations: one for the deployment. */
export const syncControl = (env: Env) => remote<SyncControl>(env.SYNC_CONTROL.getByName("main"));

/** Who signs identity tokens: one for the deployment. */
export const identityIssuer = (env: Env) => remote<IdentityIssuer>(env.IDENTITY_ISSUER.getByName("main"));

/** The sequence of events: one for the deployment. */
export const eventLog = (env: Env) => remote<EventLog>(env.EVENT_LOG.getByName("log"));

/** One that serves streams in the log's place. Only who opens streams may make one: it stays where it was made. */
export const eventRelay = (env: Env, name: string) => remote<EventRelay>(env.EVENT_RELAY.getByName(name));

/** What goes on between the service and the agent of one node. */
export const nodeSession = (env: Env, nodeId: string) => remote<NodeSession>(env.NODE_SESSION.getByName(nodeId));

/** What is measured: one for the deployment. */
export const metrics = (env: Env) => remote<Metrics>(env.METRICS.getByName("main"));

/** What the cluster consists of: one for the deployment. */
export const clusterRegistry = (env: Env) => remote<ClusterRegistry>(env.CLUSTER_REGISTRY.getByName("main"));
