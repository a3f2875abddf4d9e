import type { Result } from "../lib/result.ts";
import type { Given, Mounted, MountedBody, MountedChange, MountedConfig } from "./mounted.ts";
import type { Authed } from "./tokens.ts";

/** Types of auth methods that can be enabled. */
export const AUTH_TYPES = ["userpass", "jwt", "oidc", "kubernetes", "approle"] as const;
export type AuthType = (typeof AUTH_TYPES)[number];

/** When repeated failures of one name block its logins; durations in seconds. */
export interface LockoutConfig {
  readonly lockout_threshold: number;
  readonly lockout_duration: number;
  readonly lockout_counter_reset_duration: number;
  readonly lockout_disable: boolean;
}

export interface AuthMountConfig extends MountedConfig {
  readonly listing_visibility: string;
  readonly token_type: string;
  /** Absent unless set. */
  readonly user_lockout_config?: LockoutConfig;
}

/** An enabled auth method. */
export type AuthMount = Mounted<AuthType, AuthMountConfig>;

/** An auth method as tables show it: an enabled one, or the built-in method of tokens, which every namespace has. */
export type ListedAuthMount = Mounted<AuthType | "token", AuthMountConfig>;

/** The body of `POST sys/auth/:path`. */
export type AuthMountBody = MountedBody<AuthSettings>;

/** Settings of an auth mount, as a request names them. */
export type AuthSettings = Omit<Given<AuthMountConfig>, "user_lockout_config"> & {
  readonly user_lockout_config?: Given<LockoutConfig> | undefined;
};

/** The body of `POST sys/auth/:path/tune`. */
export type AuthTuneBody = MountedChange<AuthSettings>;

/** An auth mount and the path of a request inside it. */
export interface AuthPlace {
  /** Whether requests are counted: see `QuotasApi.countRequest`. */
  readonly counted?: boolean;
  readonly mount: AuthMount;
  /** Relative to the mount, without a leading slash. */
  readonly path: string;
}

/** An entry of an auth mount: its configuration, a role, a user. Stored sealed as JSON. */
export interface AuthEntryName {
  /** The uuid of the auth mount. */
  readonly mount: string;
  readonly kind: string;
  readonly name: string;
}

/** Settings for the tokens of a login, as roles and users hold them. Durations in seconds; 0 = the mount's. */
export interface TokenSettings {
  readonly token_ttl: number;
  readonly token_max_ttl: number;
  readonly token_explicit_max_ttl: number;
  readonly token_period: number;
  readonly token_policies: readonly string[];
  readonly token_bound_cidrs: readonly string[];
  readonly token_no_default_policy: boolean;
  readonly token_num_uses: number;
  readonly token_type: string;
  /** Custom metadata of the alias, set by each login. Absent in entries older than this field. */
  readonly alias_metadata?: Readonly<Record<string, string>>;
  /** Fields that reads show under their older names as well. Absent in entries older than this field. */
  readonly older_names?: readonly string[];
}

/** The text of an entry of a login's mount, as its verifier read it. */
export interface SeenEntry {
  readonly kind: string;
  readonly name: string;
  readonly text: string;
}

/** A verified login: the verifier has checked the caller's credentials, `AccessControl` issues the token. */
export interface Login {
  /** The role or user. The login is refused when it is gone, and the token is not renewed after it is gone. */
  readonly entry: AuthEntryName;
  /** The entries that the verification used, earlier. The login is refused when one of them has changed. */
  readonly seen?: readonly SeenEntry[];
  /** The caller's name at this auth method, and what is known of it. Null for logins without an entity. */
  readonly alias: { readonly name: string; readonly metadata: Readonly<Record<string, string>> } | null;
  /** Names of external groups that the caller is a member of, by its credentials. */
  readonly groups: readonly string[];
  /** The suffix of the token's display name. */
  readonly displayName: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly settings: TokenSettings;
  /** The client's address; null when the platform does not provide it. */
  readonly address: string | null;
  /** The path of the login, from the namespace. */
  readonly path: string;
  /** The login is refused when this id was used before at its mount. Remembered until `expires`, ms since 1970. */
  readonly once?: { readonly id: string; readonly expires: number };
}

/** The methods of `AccessControl` about auth methods. */
export interface AuthApi {
  /** Lists the auth methods of a namespace, the built-in one included. */
  listAuthMounts(namespace: string): ListedAuthMount[];
  readAuthMount(namespace: string, path: string): Result<ListedAuthMount>;
  enableAuthMount(namespace: string, path: string, body: AuthMountBody): Result<AuthMount>;
  tuneAuthMount(namespace: string, path: string, body: AuthTuneBody): Result<ListedAuthMount>;
  /** Removes an auth mount with its entries, and ends its tokens. Idempotent. */
  disableAuthMount(namespace: string, path: string): Promise<Result<null>>;
  /**
   * The auth mount of a path that may need no token.
   * @param namespace the header as sent
   * @param path the path as sent; namespaces may lead it
   */
  locateAuth(namespace: string, path: string): AuthPlace | null;
  /** The JSON text of an entry; null when there is none. */
  authEntry(entry: AuthEntryName): Result<string | null>;
  /**
   * Writes an entry. Refused when its mount is gone.
   * @param value JSON text
   * @param before the text that the change is based on, null for none: refused with `conflict` when another one is stored
   */
  putAuthEntry(entry: AuthEntryName, value: string, before?: string | null): Result<null>;
  /** Deletes an entry. Idempotent. */
  deleteAuthEntry(entry: AuthEntryName): Result<null>;
  /** Names of entries, sorted. */
  authEntryNames(mount: string, kind: string): string[];
  /**
   * An entry for a login attempt by name.
   * @returns a refusal while the name is locked after repeated failures
   */
  authAttempt(entry: AuthEntryName, alias: string): Result<string | null>;
  /**
   * Counts a failed login of a name.
   * @param exists whether there is a user of this name
   * @returns whether the name has been locked meanwhile, by other failures
   */
  authFailed(mount: string, alias: string, exists: boolean): boolean;
  /** Issues the token of a verified login. */
  login(login: Login): Promise<Result<Authed>>;
}
