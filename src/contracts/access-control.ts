import type { Refusal, Result } from "../lib/result.ts";
import type { KnownPage, ObjectName } from "../platform/durable/object-kinds.ts";
import type { Identity } from "../platform/http/exchange.ts";
import type { ClusterRights } from "./cluster-rights.ts";
import type { Mount, MountConfig, MountType } from "./mount.ts";
import type {
  AclPolicy,
  Capability,
  GoverningRule,
  ParameterConstraints,
  PolicyAttributes,
  PolicyWritten,
} from "./policies.ts";
import type { StoredObjectApi } from "./stored-objects.ts";
import type { StreamAnswer, StreamQuestion } from "./stream-rights.ts";
import type { AclToken, AclTokenPage, Authed, ClusterTokenBody, TokenBody, TokenName, Wish } from "./tokens.ts";

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

/** What a request asks `AccessControl` before anything else happens. */
export interface Ask {
  readonly token: string | null;
  /** As the caller wrote it; may be empty. */
  readonly namespace: string;
  /** Path without `/v1/`, decoded; null for requests of areas C and D, which are judged by `cluster` rights. */
  readonly path: string | null;
  readonly list?: boolean;
}

/** The answer: who it is, what the request may do, and what it is about. */
export interface Grant {
  readonly ok: true;
  readonly identity: Identity;
  /** The namespace the request is in: the header's, and what of the path led further. */
  readonly namespace: string;
  /** Its identity, which a later namespace at its path does not have; `root` for the root. */
  readonly namespaceId: string;
  /** The path inside that namespace. */
  readonly path: string;
  /** What the token may do there; `["root"]` or `["deny"]` or capabilities. */
  readonly capabilities: readonly (Capability | "root")[];
  readonly constraints: ParameterConstraints | null;
  /** The mount the path falls under, if any. */
  readonly mount: Mount | null;
  /** None where a path was asked for: those of areas C and D are not judged by it. */
  readonly cluster: ClusterRights;
  /** False when the answer must not be used twice: the token counts its uses. */
  readonly cacheable: boolean;
}

/** Kinds of objects that hold data keys and are no mount. */
export type KeyHolder = "sync-destination" | "sync-control" | "identity-issuer" | "node-session" | "cluster-registry";

export interface Namespace {
  readonly id: string;
  /** From the root, with a trailing slash; the root itself is the empty text. */
  readonly path: string;
  readonly custom_metadata: Readonly<Record<string, string>>;
}

/** A namespace of areas C and D. */
export interface ClusterNamespace extends JobSettings {
  Name: string;
  Description: string;
  Meta: Record<string, string> | null;
  CreateIndex: number | null;
  ModifyIndex: number | null;
}

/** Settings that govern jobs: kept and shown, without effect where no jobs are placed. */
export interface JobSettings {
  readonly Quota?: string | undefined;
  readonly Capabilities?: Readonly<Record<string, Names>> | null | undefined;
  readonly NodePoolConfiguration?: Choice | null | undefined;
  readonly VaultConfiguration?: Choice | null | undefined;
  readonly ConsulConfiguration?: Choice | null | undefined;
}

export type Names = readonly string[] | null | undefined;

export type Choice = { readonly Default?: string | undefined; readonly Allowed?: Names; readonly Denied?: Names };

/** The methods of `AccessControl` that other objects and Workers call. */
export interface AccessControlApi extends StoredObjectApi {
  /** Where a path leads that is asked for without a token. */
  locate(
    namespace: string,
    path: string,
  ): Result<{
    namespace: string;
    path: string;
  }>;
  /** Who calls, what the request may do, and which mount it is about. Counts a use of a token that has only so many. */
  authorize(ask: Ask): Grant | Refusal;
  /** Whether the service can work, and its identity. Never refuses. */
  status(): {
    sealedBecause: string | null;
    clusterId: string;
    bootstrapped: boolean;
    /** Objects whose storage was found empty, though it held data before. */
    lost: ObjectName[];
  };
  /** Who may stream what; any number of questions, answered in order. */
  mayStream(questions: readonly StreamQuestion[]): StreamAnswer[];
  /** Objects of mounts, also of those that are gone, and those beside the mounts that hold keys. */
  known(after: string): KnownPage;
  swap(restore: string): Result<null>;
  /** See `Restores`. */
  beginRestore(restore: string): Promise<Result<null>>;
  joinRestore(restore: string, object: ObjectName): Result<null>;
  completeRestore(restore: string): Result<null>;
  undoRestore(restore: string | null): Promise<Result<null>>;
  stepRestore(): Promise<boolean>;
  /** Records the storage of an object that begins. @returns the id on record: see `Birth` */
  begins(object: ObjectName, id: string, fresh: boolean): string;
  /** An object that was lost has its storage again. */
  isFound(object: ObjectName): void;
  keyStatus(): {
    term: number;
    installed: number;
    pending: number;
  };
  /**
   * Starts a new key term: values written from now on are sealed under fresh data keys, and the older data keys are wrapped
   * anew under the newest master key, everywhere. Reads and writes go on meanwhile.
   */
  rotateKeys(): Promise<Result<null>>;
  /** Registers an object beside the mounts that holds data keys, or that no longer does. @returns the current term */
  holdsKeys(kind: KeyHolder, name: string, holds: boolean): number;
  /** Registers a destination that is about to be created. Refused when its namespace admits none. Idempotent. */
  admitDestination(name: string): Result<null>;
  listMounts(namespace: string): Mount[];
  /** The mounts that a caller sees in a namespace; without a caller, those listed for everyone. */
  visibleMounts(accessor: string | null, namespace: string): Mount[];
  /** The mount that a path falls under, if the caller may do anything on it. */
  visibleMount(accessor: string, namespace: string, path: string): Mount | null;
  readMount(namespace: string, path: string): Result<Mount>;
  /** The mount of a namespace that a path falls under. */
  findMount(namespace: string, path: string): Mount | null;
  /** Mounts of all namespaces by type: how many there are, and the first of them, each by its whole path. */
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
  enableMount(namespace: string, path: string, request: MountBody): Result<Mount>;
  tuneMount(namespace: string, path: string, request: TuneBody): Result<Mount>;
  /** Takes a mount out of the table at once and has its data destroyed. One that is gone already counts as disabled. */
  disableMount(namespace: string, path: string): Promise<Result<null>>;
  listNamespaces(parent: string): Namespace[];
  readNamespace(path: string): Result<Namespace>;
  putNamespace(parent: string, name: string, customMetadata: Record<string, string>): Promise<Result<Namespace>>;
  patchNamespace(path: string, changes: Record<string, string | null>): Result<Namespace>;
  /** Deletes an empty namespace with its policies and tokens. One that is gone already counts as deleted. */
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
  /** @param attributes absent: as they were */
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
  /** The policies of areas C and D: those of the root namespace, all or by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[];
  /** The volume rules of all policies, which govern everyone. */
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
    orphan: boolean,
  ): Promise<Result<Authed>>;
  lookupToken(name: TokenName): Result<Record<string, unknown>>;
  renewToken(name: TokenName, increment: number): Promise<Result<Authed>>;
  /** Ends a token at once, with all its descendants, or alone (`keepChildren`). An unknown token counts as revoked. */
  revokeToken(name: TokenName, keepChildren?: boolean): Promise<Result<null>>;
  accessors(
    within: string,
    from: string,
    limit: number,
  ): {
    keys: string[];
    next: string | null;
  };
  /** What a token may do on each path of a namespace. */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>>;
  /** Whether a caller may do more than its request was let in for. Counts no use. */
  mayAlso(wish: Wish): Result<null>;
  /**
   * A mount is about to give a lease to a token, and hears of its end from now on. Idempotent.
   * @returns a refusal when that has come already
   */
  holdsLeases(accessor: string, mount: string): Result<null>;
  bootstrap(secret: string | null): Result<AclToken>;
  createClusterToken(request: ClusterTokenBody): Promise<Result<AclToken>>;
  /** @param reveal whether the answer holds the token's secret, if one is kept */
  updateClusterToken(accessor: string, request: ClusterTokenBody, reveal?: boolean): Promise<Result<AclToken>>;
  readClusterToken(accessor: string, reveal?: boolean): Result<AclToken>;
  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage;
  deleteClusterToken(accessor: string): Promise<Result<null>>;
}
