import { remote } from "../platform/durable/rpc.ts";
import type { AccessControlApi } from "./access-control.ts";
import type { ClusterRegistryApi } from "./cluster-registry.ts";
import type { CredentialEngineApi } from "./credential-engine.ts";
import type { EventLogApi } from "./event-log.ts";
import type { EventRelayApi } from "./event-relay.ts";
import type { IdentityIssuerApi } from "./identity-issuer.ts";
import type { KvStoreApi } from "./kv-store.ts";
import type { MetricsApi } from "./metrics.ts";
import type { NodeSessionApi } from "./node-session.ts";
import type { SyncControlApi } from "./sync-control.ts";
import type { SyncDestinationApi } from "./sync-destination.ts";

/** Who may do what: one for the deployment. */
export const accessControl = (env: Env) => remote<AccessControlApi>(env.ACCESS_CONTROL.getByName("main"));

/** The secrets of one mount. */
export const kvStore = (env: Env, mountUuid: string) => remote<KvStoreApi>(env.KV_STORE.getByName(mountUuid));

/** The credentials engine of one mount. */
export const credentialEngine = (env: Env, mountUuid: string) =>
  remote<CredentialEngineApi>(env.CREDENTIAL_ENGINE.getByName(mountUuid));

/** One destination, by its object's name. */
export const syncDestination = (env: Env, name: string) =>
  remote<SyncDestinationApi>(env.SYNC_DESTINATION.getByName(name));

/** What concerns all destinations: one for the deployment. */
export const syncControl = (env: Env) => remote<SyncControlApi>(env.SYNC_CONTROL.getByName("main"));

/** Who signs identity tokens: one for the deployment. */
export const identityIssuer = (env: Env) => remote<IdentityIssuerApi>(env.IDENTITY_ISSUER.getByName("main"));

/** The sequence of events: one for the deployment. */
export const eventLog = (env: Env) => remote<EventLogApi>(env.EVENT_LOG.getByName("log"));

/** One that serves streams in the log's place. Only who opens streams may make one: it stays where it was made. */
export const eventRelay = (env: Env, name: string) => remote<EventRelayApi>(env.EVENT_RELAY.getByName(name));

/** What goes on between the service and the agent of one node. */
export const nodeSession = (env: Env, nodeId: string) => remote<NodeSessionApi>(env.NODE_SESSION.getByName(nodeId));

/** What is measured: one for the deployment. */
export const metrics = (env: Env) => remote<MetricsApi>(env.METRICS.getByName("main"));

/** What the cluster consists of: one for the deployment. */
export const clusterRegistry = (env: Env) => remote<ClusterRegistryApi>(env.CLUSTER_REGISTRY.getByName("main"));
