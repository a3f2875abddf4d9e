import type { RateLimit } from "../lib/rate-limit.ts";
import type { Refusal, Result } from "../lib/result.ts";
import type { KnownPage, ObjectName } from "../platform/durable/object-kinds.ts";
import type { Identity } from "../platform/http/exchange.ts";
import type { ApproleApi } from "./approle.ts";
import type { AuthApi } from "./auth.ts";
import type { ClusterAclIndexApi, ClusterLoginsApi, ClusterRolesApi, ClusterTokensApi } from "./cluster-acl.ts";
import type { ClusterRights } from "./cluster-rights.ts";
import type { CubbyholeApi } from "./cubbyhole.ts";
import type { IdentityApi } from "./identity.ts";
import type { ReadVersion } from "./kv-store.ts";
import type { Mount, MountsApi } from "./mount.ts";
import type { Located, NamespacesApi } from "./namespaces.ts";
import type { Capability, ParameterConstraints, PoliciesApi } from "./policies.ts";
import type { QuotasApi } from "./quotas.ts";
import type { GivenBack, Leased } from "./read-lease.ts";
import type { StoredObjectApi } from "./stored-objects.ts";
import type { StreamAnswer, StreamQuestion } from "./stream-rights.ts";
import type { TokenRolesApi, TokensApi } from "./tokens.ts";
import type { WrappingApi } from "./wrapping.ts";

/** A request to authorize: the first call of every routed request. */
export interface AuthorizeRequest {
  readonly token: string | null;
  /** The namespace header as sent; may be empty. */
  readonly namespace: string;
  /** Path without `/v1/`, decoded; null for cluster routes, which are checked against `cluster` rights. */
  readonly path: string | null;
  readonly list?: boolean;
  /** Lifetime of the wrapped answer in seconds; absent or 0 = the answer is not wrapped. */
  readonly wrapTtl?: number;
  /** The client's address, for tokens that are bound to networks; null when the platform does not provide it. */
  readonly address?: string | null;
  /** Also returns the caller's own token, so that its look-up needs no second call. */
  readonly self?: boolean;
  /** Whether the request was judged before: neither uses of its token nor quotas count it again. */
  readonly again?: boolean;
}

/** A granted request: the caller, its capabilities, and the mount of the path. */
export interface Grant {
  readonly ok: true;
  readonly identity: Identity;
  /** The namespace of the request: the header, extended by namespaces that lead the path. */
  readonly namespace: string;
  /** The id of that namespace, unique over its lifetime; `root` for the root. */
  readonly namespaceId: string;
  /** The path inside that namespace. */
  readonly path: string;
  /** `["root"]`, `["deny"]`, or the capabilities of the token on the path. */
  readonly capabilities: readonly (Capability | "root")[];
  readonly constraints: ParameterConstraints | null;
  /** The mount the path falls under, if any. */
  readonly mount: Mount | null;
  /** Empty for requests with a path: only cluster routes use these rights. */
  readonly cluster: ClusterRights;
  /** The caller's limit by a quota, if one counts the request. */
  readonly rate?: RateLimit;
  /** Present where a lease-count quota exists, so that a new lease is counted. */
  readonly countsLeases?: true;
  /** The caller's own token, as a look-up shows it; present when the request asked for it. */
  readonly self?: Readonly<Record<string, unknown>>;
  /** The secret at the path, when a replica has read it along. */
  readonly read?: KvRead;
  /** The secret at the path, when a replica gave it back because the request may change it. */
  readonly givenBack?: GivenBack;
  /** The replica that has authorized the request; absent when `AccessControl` has. */
  readonly replica?: string;
  /** False for tokens with limited uses and for requests that a quota counts: each must be authorized again. */
  readonly cacheable: boolean;
}

/** An answer about a token. */
export interface LeasedGrant extends Leased<Grant | Refusal> {
  /** The name of the token in announcements of its changes. */
  readonly tag: string;
  /** Expiry of the token, ms since 1970; null for never. */
  readonly expires: number | null;
  /** Whether the answer is the same for each request with this token. */
  readonly unknown: boolean;
}

/** A secret that was read together with the authorization of the request. */
export interface KvRead {
  readonly path: string;
  readonly version: number;
  readonly result: ReadVersion | Refusal;
}

/** Objects besides mounts that hold data keys. */
export type KeyHolder =
  | "sync-destination"
  | "sync-control"
  | "identity-issuer"
  | "node-session"
  | "cluster-registry"
  | "event-subscription";

export interface ServiceStatus {
  /** Null while the service is unsealed. */
  readonly sealedBecause: string | null;
  readonly clusterId: string;
  readonly bootstrapped: boolean;
  /** When the last snapshot that was read to its end was begun, in ms since 1970; null = never. */
  readonly lastSnapshot: number | null;
  /** Objects whose storage is empty although it held data before. */
  readonly lost: ObjectName[];
}

/** Origins whose pages may read answers in a browser. */
export interface CorsSettings {
  /** Origins, or `*` alone for every one. */
  readonly origins: readonly string[];
  /** Request headers beside the service's own. */
  readonly headers: readonly string[];
}

/** The methods of `AccessControl` about data keys and the objects that hold them. */
export interface KeysApi {
  keyStatus(): { term: number; installed: number; pending: number };
  /**
   * Starts a new key term: later values are sealed under fresh data keys, and older data keys are wrapped again under the
   * newest master key in every object. Reads and writes continue.
   */
  rotateKeys(): Promise<Result<null>>;
  /** Registers or removes an object that holds data keys. @returns the current key term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number;
  /** Registers a destination before its creation. Refused when its namespace has ended. Idempotent. */
  admitDestination(name: string): Result<null>;
}

/** The methods of `AccessControl` about the restore of a snapshot: see `RestoreLedger`. */
export interface RestoresApi {
  beginRestore(restore: string): Promise<Result<null>>;
  joinRestore(restore: string, object: ObjectName): Result<null>;
  /** Whether a restore has begun and has not ended. */
  hasRestore(restore: string): boolean;
  completeRestore(restore: string): Result<null>;
  undoRestore(restore: string | null): Promise<Result<null>>;
  stepRestore(): Promise<boolean>;
}

/** The methods of `AccessControl` that other objects and Workers call, by subject. */
export interface AccessControlApi
  extends StoredObjectApi,
    ApproleApi,
    AuthApi,
    ClusterAclIndexApi,
    ClusterLoginsApi,
    ClusterRolesApi,
    ClusterTokensApi,
    CubbyholeApi,
    IdentityApi,
    KeysApi,
    MountsApi,
    NamespacesApi,
    PoliciesApi,
    QuotasApi,
    RestoresApi,
    TokenRolesApi,
    TokensApi,
    WrappingApi {
  /** Resolves the namespace of a path that needs no token. */
  locate(namespace: string, path: string): Result<Located>;
  /** Authorizes a request. Counts one use of a token with limited uses. */
  authorize(ask: AuthorizeRequest): Grant | Refusal;
  /** Authorizes a request of a replica, which may answer equal ones while its lease runs. @param holder its instance */
  authorizeFor(holder: string, ask: AuthorizeRequest): LeasedGrant;
  /** Returns seal state and cluster id; works while sealed. */
  status(): ServiceStatus;
  /** Authorizes event streams; one answer per question, in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[];
  /** Lists the objects of mounts, ended mounts included, and other objects that hold keys. */
  known(after: string): KnownPage;
  swap(restore: string): Result<null>;
  /** Records the storage id of a new object. @returns the id on record: see `Birth` */
  begins(object: ObjectName, id: string, fresh: boolean): string;
  /** Clears the lost mark of an object whose storage is back. */
  isFound(object: ObjectName): void;
  /** Returns the settings of cross-origin requests; null when there are none. */
  cors(): CorsSettings | null;
  /** @param settings null removes them */
  setCors(settings: CorsSettings | null): void;
  /** Records that a snapshot was read to its end. @param began ms since 1970 */
  snapshotRead(began: number): void;
}
