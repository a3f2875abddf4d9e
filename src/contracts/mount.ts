/** Types of secrets engines that can be mounted. */
export const MOUNT_TYPES = ["kv", "cloud-b"] as const;
export type MountType = (typeof MOUNT_TYPES)[number];

/** Names of the route tables below a mount. */
export type MountRoutes = MountType | "kv-v1";

export interface MountConfig {
  /** Seconds; 0 = the system's. */
  readonly default_lease_ttl: number;
  readonly max_lease_ttl: number;
  readonly force_no_cache: boolean;
  readonly listing_visibility: string;
  /** Absent unless set. These settings have no effect here; clients read them back. */
  readonly passthrough_request_headers?: readonly string[];
  readonly allowed_response_headers?: readonly string[];
  readonly audit_non_hmac_request_keys?: readonly string[];
  readonly audit_non_hmac_response_keys?: readonly string[];
  readonly allowed_managed_keys?: readonly string[];
  readonly delegated_auth_accessors?: readonly string[];
  readonly identity_token_key?: string;
}

export interface Mount {
  readonly namespace: string;
  /** With a trailing slash. */
  readonly path: string;
  readonly type: MountType;
  /** `<type>_<8 hex>`: constant for the lifetime of the mount. */
  readonly accessor: string;
  readonly uuid: string;
  readonly description: string;
  readonly options: Readonly<Record<string, string>>;
  /** Stored for clients that read them back: every value is sealed and nothing is replicated in any case. */
  readonly local: boolean;
  readonly seal_wrap: boolean;
  readonly config: MountConfig;
}

/** Whether a mount is a KV engine with versions: only a mount that names version 2 is one. */
export const isVersioned = ({ type, options }: Pick<Mount, "type" | "options">): boolean =>
  type === "kv" && options["version"] === "2";

/** The route table of a mount. */
export const routesOf = (mount: Mount): MountRoutes =>
  mount.type === "kv" && !isVersioned(mount) ? "kv-v1" : mount.type;

/** Types of the engines that every namespace has at a fixed path; they can be listed, but not changed. */
export type BuiltInType = "cubbyhole" | "identity" | "system";

/** A row of a listing of mounts. */
export type ListedMount = Omit<Mount, "type"> & { readonly type: MountType | BuiltInType };
