import type { Result } from "../lib/result.ts";
import type { ListedAuthMount } from "./auth.ts";
import type { Given, Mounted, MountedBody, MountedChange, MountedConfig } from "./mounted.ts";
import type { Located } from "./namespaces.ts";

/** `kv`, or a type of engine. */
export type MountType = string;

export interface MountConfig extends MountedConfig {
  readonly listing_visibility: "" | "hidden" | "unauth";
  /** Absent unless set, and without an effect. */
  readonly allowed_managed_keys?: readonly string[];
  readonly delegated_auth_accessors?: readonly string[];
  readonly identity_token_key?: string;
}

export type Mount = Mounted<MountType, MountConfig>;

/** Types of the engines that every namespace has at a fixed path; they can be listed, but not changed. */
export type BuiltInType = "cubbyhole" | "identity" | "system";

/** A row of a listing of mounts. */
export type ListedMount = Mounted<MountType | BuiltInType, MountConfig>;

/** Settings of a mount, as a request names them. */
export type MountSettings = Given<MountConfig>;

/** The body of `POST sys/mounts/:path`. */
export type MountBody = MountedBody<MountSettings>;

/** The body of `POST sys/mounts/:path/tune`. */
export type TuneBody = MountedChange<MountSettings>;

/** Where a mount is, and its constant names. */
export interface MountPlace extends Located {
  readonly type: MountType;
  readonly accessor: string;
}

/** The move of a mount. Paths from the root, with the namespace. */
export interface Remount {
  readonly source_mount: string;
  readonly target_mount: string;
  readonly status: "success";
}

/** The auth methods of a namespace that a caller may see. */
export interface VisibleAuthMounts {
  readonly methods: readonly ListedAuthMount[];
  /** Whether the caller may see the method of tokens, which is not among them: of an object of version 0.2.0. */
  readonly token?: boolean;
}

/** An auth method and its namespace. */
export interface VisibleAuthMount {
  readonly namespace: string;
  /** "token": of an object of version 0.2.0. */
  readonly mount: ListedAuthMount | "token";
}

/** The methods of `AccessControl` about mounts. */
export interface MountsApi {
  /** Lists the mounts of a namespace, built-in ones included, by path. */
  listMounts(namespace: string): ListedMount[];
  /** Lists the mounts visible to a caller; without a caller, the unauthenticated listing. */
  visibleMounts(accessor: string | null, namespace: string): ListedMount[];
  /** Returns the mount of a path when the caller has any capability on it. */
  visibleMount(accessor: string, namespace: string, path: string): ListedMount | null;
  /** Like `visibleMounts`, for auth methods. */
  visibleAuthMounts(accessor: string | null, namespace: string): VisibleAuthMounts;
  /** Like `visibleMount`, for a path that leads into an auth method. */
  visibleAuthMount(accessor: string, namespace: string, path: string): VisibleAuthMount | null;
  /**
   * Returns the mounts of a namespace and of those below it on which a caller has any capability, by uuid.
   * @param after the uuid before the first; @param limit of the page
   */
  searchableMounts(accessor: string, namespace: string, after: string, limit: number): Mount[];
  readMount(namespace: string, path: string): Result<ListedMount>;
  /** Returns the mount of a path. */
  findMount(namespace: string, path: string): Mount | null;
  /** Returns the place of a mount by its uuid; null after its deletion. */
  mountPlace(uuid: string): MountPlace | null;
  /** Counts the mounts of all namespaces by type and returns the first `limit`, by full path. */
  everyMount(limit: number): Record<MountType, { total: number; some: { name: string; uuid: string }[] }>;
  /**
   * Sets whether later KV mounts publish their events on demand from their start.
   * @param epoch see `KvStore.publishEvents`; an earlier one than the last changes nothing
   * @returns the uuids of the KV mounts that there are
   */
  publishSecrets(epoch: number, on: boolean): string[];
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
}
