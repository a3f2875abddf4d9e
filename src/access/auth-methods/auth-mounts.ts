import * as z from "zod";
import {
  AUTH_TYPES,
  type AuthMount,
  type AuthMountConfig,
  type AuthPlace,
  type AuthSettings,
  type AuthType,
  type LockoutConfig,
} from "../../contracts/auth.ts";
import { withoutUndefined } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { flag, integer } from "../../platform/http/fields.ts";
import { mountRequest, mountSettings, systemDuration, tunedFields, unlessEmpty } from "../mounts/mount-fields.ts";
import { MountRows } from "../mounts/mount-rows.ts";

const Lockout = z.object({
  lockout_threshold: unlessEmpty(integer().min(0)),
  lockout_duration: systemDuration(),
  lockout_counter_reset_duration: systemDuration(),
  lockout_disable: flag().optional(),
});

const Config = z.object({
  ...mountSettings,
  token_type: z
    .enum(["", "default-service", "default-batch", "service", "batch"], "invalid 'token_type' value")
    .optional(),
  user_lockout_config: Lockout.optional(),
  plugin_version: z.literal("", "auth methods have no versions here; leave it out").optional(),
});

/** Body of `POST sys/auth/:path`. */
export const AuthMountRequest = mountRequest(Config);

/** Body of `POST sys/auth/:path/tune`: only the settings that change. */
export const AuthTuneRequest = Config.extend(tunedFields);

/** Defaults of upstream (https://developer.hashicorp.com/vault/docs/concepts/user-lockout). */
export const DEFAULT_LOCKOUT: LockoutConfig = {
  lockout_threshold: 5,
  lockout_duration: 900,
  lockout_counter_reset_duration: 900,
  lockout_disable: false,
};

const NEW_CONFIG: AuthMountConfig = {
  default_lease_ttl: 0,
  max_lease_ttl: 0,
  force_no_cache: false,
  listing_visibility: "",
  token_type: "default-service",
};

/** Merges settings into a config. An empty list or text removes a setting. */
export function authConfigWith(before: AuthMountConfig, given: AuthSettings): AuthMountConfig {
  const { user_lockout_config: lockout, token_type, ...settings } = given;
  const merged: Record<string, unknown> = {
    ...before,
    ...withoutUndefined(settings),
    ...(token_type !== undefined && { token_type: token_type === "" ? "default-service" : token_type }),
    ...(lockout && { user_lockout_config: lockoutWith(before.user_lockout_config ?? DEFAULT_LOCKOUT, lockout) }),
  };
  const kept = Object.entries(merged).filter(([name, value]) => name in NEW_CONFIG || !isEmpty(value));
  return Object.fromEntries(kept) as unknown as AuthMountConfig;
}

/** A lockout after a request. As upstream, 0 is the default: `lockout_disable` ends lockouts. */
const lockoutWith = (
  before: LockoutConfig,
  given: NonNullable<AuthSettings["user_lockout_config"]>,
): LockoutConfig => ({
  lockout_threshold: (given.lockout_threshold ?? before.lockout_threshold) || DEFAULT_LOCKOUT.lockout_threshold,
  lockout_duration: (given.lockout_duration ?? before.lockout_duration) || DEFAULT_LOCKOUT.lockout_duration,
  lockout_counter_reset_duration:
    (given.lockout_counter_reset_duration ?? before.lockout_counter_reset_duration) ||
    DEFAULT_LOCKOUT.lockout_counter_reset_duration,
  lockout_disable: given.lockout_disable ?? before.lockout_disable,
});

const isEmpty = (value: unknown): boolean => value === "" || (Array.isArray(value) && value.length === 0);

export const newAuthConfig = (given: AuthSettings): AuthMountConfig => authConfigWith(NEW_CONFIG, given);

const SEGMENT = /^[A-Za-z0-9_.@-]{1,128}$/;

/** The accessor of the built-in method of tokens, derived from the namespace's id, since there is one in each. */
export const tokenMountAccessor = (namespaceId: string): string => `auth_token_${namespaceId}`;

/** Normalizes the path of an auth mount to the stored form `a/b/`, or refuses it. */
export function authPath(text: string): Result<string> {
  const segments = text.split("/").filter((segment) => segment !== "");
  if (segments.length === 0) return refuse("invalid", "auth path: must not be empty");
  if (segments.length > 16 || segments.some((segment) => !SEGMENT.test(segment) || /^\.+$/.test(segment))) {
    return refuse("invalid", "auth path: segments must be 1 to 128 of A-Z a-z 0-9 _ . @ -, at most 16 deep");
  }
  if (segments[0] === "token") return refuse("invalid", "path is already in use at token/");
  return ok(`${segments.join("/")}/`);
}

const byUuid = (mounts: readonly AuthMount[]): ReadonlyMap<string, AuthMount> =>
  new Map(mounts.map((mount) => [mount.uuid, mount]));

/** The table of auth mounts: every login resolves one, and every token of a login belongs to one. */
export class AuthMountTable extends MountRows<AuthMount, ReadonlyMap<string, AuthMount>> {
  constructor(sql: SqlStorage) {
    super(sql, "auth_mounts", "auth_", byUuid);
  }

  list(namespace: string): AuthMount[] {
    return this.every()
      .filter((mount) => mount.namespace === namespace)
      .sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  every(): AuthMount[] {
    return [...this.index.values()];
  }

  get(namespace: string, path: string): AuthMount | null {
    return this.every().find((mount) => mount.namespace === namespace && mount.path === path) ?? null;
  }

  byUuid(uuid: string): AuthMount | null {
    return this.index.get(uuid) ?? null;
  }

  byAccessor(accessor: string): AuthMount | null {
    return this.every().find((mount) => mount.accessor === accessor) ?? null;
  }

  /** The mount that `path`, which starts with `auth/`, leads into. */
  resolve(namespace: string, path: string): AuthPlace | null {
    if (!path.startsWith("auth/")) return null;
    const inside = path.slice("auth/".length);
    const mount = this.list(namespace).find(({ path: at }) => inside.startsWith(at) || `${inside}/` === at);
    return mount ? { mount, path: inside.slice(mount.path.length) } : null;
  }

  /** The mount at a path, above it or below it; null when the path is free. */
  overlapping(namespace: string, path: string): AuthMount | null {
    return this.list(namespace).find((mount) => mount.path.startsWith(path) || path.startsWith(mount.path)) ?? null;
  }
}

export const knownAuthType = (name: string): AuthType | undefined => AUTH_TYPES.find((type) => type === name);
