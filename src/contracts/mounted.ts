/** The record that mounts of engines and of auth methods have in common, and the bodies that set it. */

type Texts = Readonly<Record<string, string>>;

/** Settings as a request names them. */
export type Given<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

export interface MountedConfig {
  /** Seconds; 0 = the system's. */
  readonly default_lease_ttl: number;
  readonly max_lease_ttl: number;
  readonly force_no_cache: boolean;
  /** Absent unless set. These settings have no effect here; clients read them back. */
  readonly passthrough_request_headers?: readonly string[];
  readonly allowed_response_headers?: readonly string[];
  readonly audit_non_hmac_request_keys?: readonly string[];
  readonly audit_non_hmac_response_keys?: readonly string[];
}

export interface Mounted<Type, Config> {
  readonly namespace: string;
  /** With a trailing slash; that of an auth method is below `auth/`. */
  readonly path: string;
  readonly type: Type;
  /** `<type>_<8 hex>`, of an auth method `auth_<type>_<8 hex>`: constant for the lifetime of the mount. */
  readonly accessor: string;
  readonly uuid: string;
  readonly description: string;
  readonly options: Texts;
  /** Stored for clients that read them back: every value is sealed and nothing is replicated in any case. */
  readonly local: boolean;
  readonly seal_wrap: boolean;
  readonly config: Config;
}

/** The body that makes a mount, read and checked. Durations in seconds. */
export interface MountedBody<Settings> {
  readonly type: string;
  readonly description: string;
  readonly config?: Settings | null | undefined;
  readonly options?: Texts | null | undefined;
  readonly local: boolean;
  readonly seal_wrap: boolean;
}

/** The body that changes a mount, read and checked: only the settings that change. */
export type MountedChange<Settings> = Omit<Settings, "force_no_cache"> & {
  readonly description?: string | undefined;
  readonly options?: Texts | undefined;
  /** Without an effect. */
  readonly force_no_cache?: unknown;
};
