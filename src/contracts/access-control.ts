import type { RateLimit } from "../lib/rate-limit.ts";
import type { Refusal, Result } from "../lib/result.ts";
import type { KnownPage, ObjectName } from "../platform/durable/object-kinds.ts";
import type { Identity } from "../platform/http/exchange.ts";
import type { ApproleApi } from "./approle.ts";
import type { AuthApi } from "./auth.ts";
import type { ClusterAclApi } from "./cluster-acl.ts";
import type { ClusterRights } from "./cluster-rights.ts";
import type { CubbyholeOwner, CubbyholeRights } from "./cubbyhole.ts";
import type { IdentityApi } from "./identity.ts";
import type { ListedMount, Mount, MountConfig, MountType } from "./mount.ts";
import type {
  AclPolicy,
  Capability,
  GoverningRule,
  ParameterConstraints,
  PolicyAttributes,
  PolicyWritten,
} from "./policies.ts";
import type { QuotasApi } from "./quotas.ts";
import type { StoredObjectApi } from "./stored-objects.ts";
import type { StreamAnswer, StreamQuestion } from "./stream-rights.ts";
import type {
  AclToken,
  AclTokenPage,
  Authed,
  ClusterTokenBody,
  RightsCheck,
  TokenBody,
  TokenKind,
  TokenName,
  TokenRole,
  TokenRoleBody,
} from "./tokens.ts";
import type { Unwrapped, WrapInfo, WrapLookup, WrapRequest } from "./wrapping.ts";

/** Settings of a mount, as a request names them. */
type MountSettings = { readonly [Name in keyof MountConfig]?: MountConfig[Name] | undefined };

/** The body of `POST sys/mounts/:path`, read and checked. Durations in seconds. */
export interface MountBody {
  readonly type: string;
  readonly description: string;
  readonly config?: MountSettings | null | undefined;
  readonly options?: Readonly<Record<string, string>> | null | undefined;
  readonly local: boolean;
  readonly seal_wrap: boolean;
}

/** The body of `POST sys/mounts/:path/tune`, read and checked: only the settings that change. */
export interface TuneBody extends MountSettings {
  readonly description?: string | undefined;
  readonly options?: Readonly<Record<string, string>> | null | undefined;
}

/** A request to authorize: the first call of every routed request. */
export interface AuthorizeRequest {
  readonly token: string | null;
  /** The namespace header as sent; may be empty. */
  readonly namespace: string;
  /** Path without `/v1/`, decoded; null for cluster routes, which are checked against `cluster` rights. */
  readonly path: string | null;
  readonly list?: boolean;
  /** Seconds that a wrapped answer shall last; absent or 0 = the answer is not wrapped. */
  readonly wrapTtl?: number;
  /** The client's address, for tokens that are bound to networks; null when the platform does not provide it. */
  readonly address?: string | null;
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
  /** False for tokens with limited uses and for requests that a quota counts: each must be authorized again. */
  readonly cacheable: boolean;
}

/** A path inside a namespace. */
export interface Located {
  readonly namespace: string;
  readonly path: string;
}

/** The move of a mount. Paths from the root, with the namespace. */
export interface Remount {
  readonly source_mount: string;
  readonly target_mount: string;
  readonly status: "success";
}

/** Objects besides mounts that hold data keys. */
export type KeyHolder = "sync-destination" | "sync-control" | "identity-issuer" | "node-session" | "cluster-registry";

export interface Namespace {
  readonly id: string;
  /** From the root, with a trailing slash; the root itself is the empty text. */
  readonly path: string;
  readonly custom_metadata: Readonly<Record<string, string>>;
}

/** A flat namespace of the cluster routes. */
export interface ClusterNamespace extends JobSettings {
  Name: string;
  Description: string;
  Meta: Record<string, string> | null;
  CreateIndex: number | null;
  ModifyIndex: number | null;
}

/** Job settings of a namespace: stored and returned; this service places no jobs. */
export interface JobSettings {
  readonly Quota?: string | undefined;
  readonly Capabilities?: Readonly<Record<string, Names>> | null | undefined;
  readonly NodePoolConfiguration?: Choice | null | undefined;
  readonly VaultConfiguration?: Choice | null | undefined;
  readonly ConsulConfiguration?: Choice | null | undefined;
}

export type Names = readonly string[] | null | undefined;

export type Choice = { readonly Default?: string | undefined; readonly Allowed?: Names; readonly Denied?: Names };

export interface ServiceStatus {
  /** Null while the service is unsealed. */
  readonly sealedBecause: string | null;
  readonly clusterId: string;
  readonly bootstrapped: boolean;
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

/** The compiled path rules of a token, in upstream's shape: globs without their final `*`. */
export interface ResultantAcl {
  readonly root: boolean;
  readonly exact_paths: Readonly<Record<string, { readonly capabilities: readonly Capability[] }>>;
  readonly glob_paths: Readonly<Record<string, { readonly capabilities: readonly Capability[] }>>;
}

/** The methods of `AccessControl` that other objects and Workers call. */
export interface AccessControlApi extends StoredObjectApi, AuthApi, ApproleApi, ClusterAclApi, IdentityApi, QuotasApi {
  /** Resolves the namespace of a path that needs no token. */
  locate(namespace: string, path: string): Result<Located>;
  /** Authorizes a request. Counts one use of a token with limited uses. */
  authorize(ask: AuthorizeRequest): Grant | Refusal;
  /** Returns seal state and cluster id; works while sealed. */
  status(): ServiceStatus;
  /** Authorizes event streams; one answer per question, in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[];
  /** Lists the objects of mounts, ended mounts included, and other objects that hold keys. */
  known(after: string): KnownPage;
  swap(restore: string): Result<null>;
  /** Restore of a snapshot, step by step: see `Restores`. */
  beginRestore(restore: string): Promise<Result<null>>;
  joinRestore(restore: string, object: ObjectName): Result<null>;
  completeRestore(restore: string): Result<null>;
  undoRestore(restore: string | null): Promise<Result<null>>;
  stepRestore(): Promise<boolean>;
  /** Records the storage id of a new object. @returns the id on record: see `Birth` */
  begins(object: ObjectName, id: string, fresh: boolean): string;
  /** Clears the lost mark of an object whose storage is back. */
  isFound(object: ObjectName): void;
  keyStatus(): {
    term: number;
    installed: number;
    pending: number;
  };
  /**
   * Starts a new key term: later values are sealed under fresh data keys, and older data keys are wrapped again under the
   * newest master key in every object. Reads and writes continue.
   */
  rotateKeys(): Promise<Result<null>>;
  /** Registers or removes an object that holds data keys. @returns the current key term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number;
  /** Registers a destination before its creation. Refused when its namespace has ended. Idempotent. */
  admitDestination(name: string): Result<null>;
  /** Lists the mounts of a namespace, built-in ones included, by path. */
  listMounts(namespace: string): ListedMount[];
  /** Lists the mounts visible to a caller; without a caller, the unauthenticated listing. */
  visibleMounts(accessor: string | null, namespace: string): ListedMount[];
  /** Returns the mount of a path when the caller has any capability on it. */
  visibleMount(accessor: string, namespace: string, path: string): ListedMount | null;
  readMount(namespace: string, path: string): Result<ListedMount>;
  /** Returns the mount of a path. */
  findMount(namespace: string, path: string): Mount | null;
  /** Counts the mounts of all namespaces by type and returns the first `limit`, by full path. */
  everyMount(limit: number): Record<
    MountType,
    {
      total: number;
      some: {
        name: string;
        uuid: string;
      }[];
    }
  >;
  /** Mounts an engine. Waits up to 2 s at a path that another mount left a moment ago. */
  enableMount(namespace: string, path: string, request: MountBody): Promise<Result<Mount>>;
  /** Changes settings of a mount; may upgrade a KV mount to version 2. */
  tuneMount(namespace: string, path: string, request: TuneBody): Promise<Result<Mount>>;
  /** Moves a mount inside its namespace, with its data, leases and associations. @returns an id for `remountStatus` */
  remount(from: Located, to: Located): Promise<Result<string>>;
  /** Returns the result of a move of this namespace; null for an unknown id. */
  remountStatus(namespace: string, id: string): Remount | null;
  /** Returns the mounts that may have issued a lease, each with the rest of its id; the most likely one first. */
  mountsOfLease(namespace: string, id: string): { mount: Mount; id: string }[];
  /** Removes a mount at once and enqueues the destruction of its data. Idempotent. */
  disableMount(namespace: string, path: string): Promise<Result<null>>;
  listNamespaces(parent: string): Namespace[];
  readNamespace(path: string): Result<Namespace>;
  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>>;
  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace>;
  /** Deletes an empty namespace with its policies and tokens. Idempotent. */
  deleteNamespace(path: string): Promise<Result<null>>;
  listClusterNamespaces(prefix: string): ClusterNamespace[];
  readClusterNamespace(name: string): Result<ClusterNamespace>;
  putClusterNamespace(
    name: string,
    description: string,
    meta: Record<string, string> | null,
    jobs: JobSettings,
  ): Promise<Result<ClusterNamespace>>;
  clusterNamespaceId(name: string): Result<string>;
  deleteClusterNamespace(name: string): Promise<Result<null>>;
  /** @param attributes absent: unchanged */
  putPolicy(
    namespace: string,
    name: string,
    text: string,
    attributes?: PolicyAttributes,
  ): Promise<Result<PolicyWritten>>;
  readPolicy(
    namespace: string,
    name: string,
  ): Result<{
    name: string;
    text: string;
  }>;
  policyNames(namespace: string): string[];
  /** The index of the newest change of tokens, policies, roles, auth methods and binding rules. */
  clusterAclIndex(): Promise<number>;
  /** That index, as soon as it is beyond `since` or after `waitMs`. */
  clusterAclChanged(since: number, waitMs: number): Promise<number>;
  /** Returns the policies of the root namespace as cluster routes show them, all or by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[];
  /** Returns the volume rules of all policies; they apply to every caller. */
  volumeRules(): GoverningRule[];
  deletePolicy(
    namespace: string,
    name: string,
  ): Promise<
    Result<
      PolicyWritten & {
        existed: boolean;
      }
    >
  >;
  createToken(
    caller: string,
    namespace: string,
    path: string,
    request: TokenBody,
    kind: TokenKind,
  ): Promise<Result<Authed>>;
  /** Returns the rules of a token; null when it is gone. */
  resultantAcl(accessor: string): ResultantAcl | null;
  /** Returns the children of a namespace in which a token has any capability. */
  visibleNamespaces(accessor: string, parent: string): string[];
  /** Returns the settings of cross-origin requests; null when there are none. */
  cors(): CorsSettings | null;
  /** @param settings null removes them */
  setCors(settings: CorsSettings | null): void;
  /** Counts the tokens of all namespaces. */
  countTokens(): number;
  /** Counts the entities of all namespaces. */
  countEntities(): number;
  /** Lists the names of token roles, sorted. */
  tokenRoleNames(namespace: string): string[];
  readTokenRole(namespace: string, name: string): TokenRole | null;
  /** Creates a role, or changes the fields that the request names. @returns warnings */
  putTokenRole(namespace: string, name: string, body: TokenRoleBody): Result<string[]>;
  /** Idempotent. */
  deleteTokenRole(namespace: string, name: string): void;
  lookupToken(name: TokenName): Result<Record<string, unknown>>;
  renewToken(name: TokenName, increment: number): Promise<Result<Authed>>;
  /** Revokes a token with its descendants, or alone (`keepChildren`). Idempotent. */
  revokeToken(name: TokenName, keepChildren?: boolean): Promise<Result<null>>;
  accessors(
    within: string,
    from: string,
    limit: number,
  ): {
    keys: string[];
    next: string | null;
  };
  /** Returns the capabilities of a token on each path. */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>>;
  /** Checks further capabilities of an authorized caller. Counts no use. */
  mayAlso(check: RightsCheck): Result<null>;
  /**
   * Registers a mount that is about to issue a lease to a token; the mount is notified of the token's end. Idempotent.
   * @returns a refusal when the token has ended
   */
  holdsLeases(accessor: string, mount: string): Result<null>;
  /** Returns the JSON text at a path of a token's private storage. */
  readCubbyhole(owner: CubbyholeOwner, path: string): Result<string>;
  /** Stores the JSON text of an object in a token's private storage. Refused above its bounds. */
  writeCubbyhole(owner: CubbyholeOwner, path: string, text: string, rights: CubbyholeRights): Result<null>;
  deleteCubbyhole(owner: CubbyholeOwner, path: string): void;
  /** Returns the names in a folder, sorted; `folder` is empty or ends with a slash. */
  listCubbyhole(owner: CubbyholeOwner, folder: string): string[];
  /** Stores an answer in wrapped form, sealed. Refused when too many wait. */
  wrap(request: WrapRequest): Result<WrapInfo>;
  lookupWrapping(token: string): Result<WrapLookup>;
  /** Returns the wrapped answer of a token and deletes both; the second call is refused. */
  unwrap(token: string): Result<Unwrapped>;
  /** Moves a wrapped answer to a new token, with the original TTL. */
  rewrap(token: string): Result<WrapInfo>;
  bootstrap(secret: string | null): Result<AclToken>;
  createClusterToken(request: ClusterTokenBody): Promise<Result<AclToken>>;
  /** @param reveal includes the stored secret in the response */
  updateClusterToken(accessor: string, request: ClusterTokenBody, reveal?: boolean): Promise<Result<AclToken>>;
  readClusterToken(accessor: string, reveal?: boolean): Result<AclToken>;
  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage;
  deleteClusterToken(accessor: string): Promise<Result<null>>;
}
