import type { AccessControlApi } from "../contracts/access-control.ts";
import type { ClusterRegistryApi } from "../contracts/cluster-registry.ts";
import type { CredentialEngineApi } from "../contracts/credential-engine.ts";
import type { EventLogApi } from "../contracts/event-log.ts";
import type { EventRelayApi } from "../contracts/event-relay.ts";
import type { EventSubscriptionApi } from "../contracts/event-subscription.ts";
import type { IdentityIssuerApi } from "../contracts/identity-issuer.ts";
import type { KvStoreApi } from "../contracts/kv-store.ts";
import type { MetricsApi } from "../contracts/metrics.ts";
import type { NodeSessionApi } from "../contracts/node-session.ts";
import type { ReadReplicaApi } from "../contracts/read-replica.ts";
import type { SyncControlApi } from "../contracts/sync-control.ts";
import type { SyncDestinationApi } from "../contracts/sync-destination.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { remote } from "../platform/durable/rpc.ts";

/** Tokens, policies, mounts and namespaces: one for the deployment. */
export const accessControl = (env: Env) => remote<AccessControlApi>(objectStub(env, env.ACCESS_CONTROL, "main"));

/** The secrets of one mount. */
export const kvStore = (env: Env, mountUuid: string) => remote<KvStoreApi>(objectStub(env, env.KV_STORE, mountUuid));

/** The credentials engine of one mount. */
export const credentialEngine = (env: Env, mountUuid: string) =>
  remote<CredentialEngineApi>(objectStub(env, env.CREDENTIAL_ENGINE, mountUuid));

/** One destination, by its object's name. */
export const syncDestination = (env: Env, name: string) =>
  remote<SyncDestinationApi>(objectStub(env, env.SYNC_DESTINATION, name));

/** Pause, queue capacity and custom applications of all destinations: one for the deployment. */
export const syncControl = (env: Env) => remote<SyncControlApi>(objectStub(env, env.SYNC_CONTROL, "main"));

/** Signs identity tokens: one for the deployment. */
export const identityIssuer = (env: Env) => remote<IdentityIssuerApi>(objectStub(env, env.IDENTITY_ISSUER, "main"));

/** The sequence of events: one for the deployment. */
export const eventLog = (env: Env) => remote<EventLogApi>(objectStub(env, env.EVENT_LOG, "log"));

/**
 * Serves streams near their readers. The first call places the object for its lifetime, so only stream routes make one.
 */
export const eventRelay = (env: Env, name: string) => remote<EventRelayApi>(objectStub(env, env.EVENT_RELAY, name));

/** The deliveries of one event subscription, by its name. */
export const eventSubscription = (env: Env, name: string) =>
  remote<EventSubscriptionApi>(objectStub(env, env.EVENT_SUBSCRIPTION, name));

/**
 * Answers reads near the callers of a place. The first call places the object for its lifetime.
 * @param name as `placedName` gives it
 */
export const readReplica = (env: Env, name: string, place: DurableObjectLocationHint | null = null) =>
  remote<ReadReplicaApi>(objectStub(env, env.READ_REPLICA, name, place));

/** The session with the agent of one node. */
export const nodeSession = (env: Env, nodeId: string) =>
  remote<NodeSessionApi>(objectStub(env, env.NODE_SESSION, nodeId));

/** Counters and scrapes: one for the deployment. */
export const metrics = (env: Env) => remote<MetricsApi>(objectStub(env, env.METRICS, "main"));

/** Nodes, reported objects and volumes: one for the deployment. */
export const clusterRegistry = (env: Env) => remote<ClusterRegistryApi>(objectStub(env, env.CLUSTER_REGISTRY, "main"));
