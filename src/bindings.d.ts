declare namespace Cloudflare {
  interface GlobalProps {
    mainModule: typeof import("./worker.ts");
  }
  interface Env {
    ACCESS_CONTROL: DurableObjectNamespace<import("./worker.ts").AccessControl>;
    AUDIT_COLLECTOR: DurableObjectNamespace<import("./worker.ts").AuditCollector>;
    KV_STORE: DurableObjectNamespace<import("./worker.ts").KvStore>;
    SYNC_DESTINATION: DurableObjectNamespace<import("./worker.ts").SyncDestination>;
    SYNC_CONTROL: DurableObjectNamespace<import("./worker.ts").SyncControl>;
    CREDENTIAL_ENGINE: DurableObjectNamespace<import("./worker.ts").CredentialEngine>;
    IDENTITY_ISSUER: DurableObjectNamespace<import("./worker.ts").IdentityIssuer>;
    EVENT_LOG: DurableObjectNamespace<import("./worker.ts").EventLog>;
    EVENT_RELAY: DurableObjectNamespace<import("./worker.ts").EventRelay>;
    EVENT_SUBSCRIPTION: DurableObjectNamespace<import("./worker.ts").EventSubscription>;
    READ_REPLICA: DurableObjectNamespace<import("./worker.ts").ReadReplica>;
    CLUSTER_REGISTRY: DurableObjectNamespace<import("./worker.ts").ClusterRegistry>;
    METRICS: DurableObjectNamespace<import("./worker.ts").Metrics>;
    NODE_SESSION: DurableObjectNamespace<import("./worker.ts").NodeSession>;
    /** The files that the Worker serves as they are. */
    ASSETS: Fetcher;
    LISTINGS: D1Database;
    SYNC_WORK: Queue<import("./platform/durable/wake-up.ts").WakeUpMessage>;
    /** The files that `@path` names. A deployment may leave it out. */
    FILES?: R2Bucket;
    /** Says whether the disk is full; bound by `npm start` only. */
    LOCAL_DISK?: Fetcher;
    /** A network of public addresses only, for hosts that tenants name; bound by the local runtime. */
    PUBLIC_NETWORK?: Fetcher;
    /** Secret of the local gateway, in the header `CF-Gateway-Key`; requests without it are refused. */
    GATEWAY_KEY?: string;
    /** A setting that is read at each call to a host that a tenant names. */
    PRIVATE_HOSTS?: string;
    /** Request limits (docs/reference/limits.md). An absent binding means no limit. */
    LIMIT_TOKEN?: RateLimit;
    LIMIT_OPEN?: RateLimit;
    LIMIT_REFUSED?: RateLimit;
    /** Where lines of the audit log are kept, as text. A deployment may bind none, one or both. */
    AUDIT_QUEUE?: Queue<string>;
    AUDIT_BUCKET?: R2Bucket;
    /** Where event subscriptions of type `queue` deliver. A deployment may leave it out. */
    EVENT_QUEUE?: Queue<string>;
    /** Where scheduled snapshots are kept. A deployment may leave it out. */
    SNAPSHOT_BUCKET?: R2Bucket;
    /** Comma-separated base64 keys of 32 bytes, newest first: a secret, or a binding of the Secrets Store. */
    MASTER_KEY?: string | import("./platform/crypto/master-key.ts").StoredSecret;
  }
}
interface Env extends Cloudflare.Env {}
