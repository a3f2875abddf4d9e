import type { LockedNames } from "../contracts/approle.ts";
import type {
  AuthEntryName,
  AuthMount,
  AuthMountBody,
  AuthPlace,
  AuthTuneBody,
  LockoutConfig,
} from "../contracts/auth.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import type { ApproleStore } from "./approle-store.ts";
import type { AuthEntries } from "./auth-entries.ts";
import {
  type AuthMountTable,
  authConfigWith,
  authPath,
  DEFAULT_LOCKOUT,
  knownAuthType,
  newAuthConfig,
} from "./auth-mounts.ts";
import type { Entities } from "./entities.ts";
import type { LoginLockouts } from "./login-lockouts.ts";
import { type NamespaceTree, namespacePath } from "./namespaces.ts";
import { SYSTEM_MAX_TTL } from "./token.ts";
import type { TokenStore } from "./token-store.ts";

interface Dependencies {
  readonly mounts: AuthMountTable;
  readonly entries: AuthEntries;
  readonly approles: ApproleStore;
  readonly entities: Entities;
  readonly lockouts: LoginLockouts;
  readonly namespaces: NamespaceTree;
  readonly tokens: TokenStore;
  commit<T>(change: () => T): T;
}

/** A mount holds its roles and users in one object with all others; these bounds keep a tenant from filling it. */
const MAX_ENTRIES = 10_000;
const MAX_ENTRY_CHARACTERS = 128 * 1024;

/** Enables, tunes and disables auth methods, and keeps their entries. */
export class AuthMethods {
  readonly #deps: Dependencies;

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  list(namespace: string): AuthMount[] {
    return this.#deps.mounts.list(namespace);
  }

  read(namespace: string, path: string): Result<AuthMount> {
    const named = authPath(path);
    const mount = named.ok ? this.#deps.mounts.get(namespace, named.value) : null;
    return mount ? ok(mount) : refuse("invalid", `No auth engine at ${path.replace(/\/*$/, "/")}`);
  }

  enable(namespace: string, path: string, body: AuthMountBody): Result<AuthMount> {
    const { mounts, namespaces, commit } = this.#deps;
    const admitted = namespaces.admit(namespace);
    if (!admitted.ok) return admitted;
    const named = authPath(path);
    if (!named.ok) return named;
    const type = knownAuthType(body.type);
    if (!type) return refuse("invalid", `plugin not found in the catalog: ${body.type.slice(0, 64)}`);
    const config = newAuthConfig(body.config ?? {});
    const refused = refusedTtls(config);
    if (refused) return refused;
    const taken = mounts.overlapping(namespace, named.value);
    if (taken) return refuse("invalid", `path is already in use at auth/${taken.path}`);
    const { description, local, seal_wrap, options } = body;
    const mount = { namespace, path: named.value, type, description, local, seal_wrap, options: options ?? {}, config };
    return ok(commit(() => mounts.insert(mount, Date.now())));
  }

  tune(namespace: string, path: string, { description, options, ...config }: AuthTuneBody): Result<AuthMount> {
    const mount = this.read(namespace, path);
    if (!mount.ok) return mount;
    const changed: AuthMount = {
      ...mount.value,
      description: description ?? mount.value.description,
      options: { ...mount.value.options, ...options },
      config: authConfigWith(mount.value.config, config),
    };
    const refused = refusedTtls(changed.config);
    if (refused) return refused;
    this.#deps.commit(() => this.#deps.mounts.update(changed));
    return ok(changed);
  }

  /** Removes a mount with its entries and aliases, and ends the tokens of its logins. */
  disable(namespace: string, path: string): void {
    const { mounts, entries, approles, entities, tokens, lockouts, commit } = this.#deps;
    const mount = this.read(namespace, path);
    if (!mount.ok) return;
    const { uuid, accessor } = mount.value;
    commit(() => {
      mounts.delete(uuid);
      entries.deleteMount(uuid);
      approles.deleteMount(uuid);
      entities.deleteAliasesOf(accessor);
      tokens.endLogins(uuid, Date.now());
    });
    lockouts.forget(uuid);
  }

  /** The auth mount of a request's path; null for other paths. */
  locate(header: string, path: string): AuthPlace | null {
    const { namespaces, mounts } = this.#deps;
    const asked = namespacePath(header);
    if (!asked.ok || !namespaces.has(asked.value)) return null;
    const at = namespaces.split(asked.value, path);
    return mounts.resolve(at.namespace, at.path);
  }

  /** @throws Sealed */
  entry(name: AuthEntryName): Result<string | null> {
    return ok(this.#deps.entries.get(name));
  }

  /** See `AuthApi.putAuthEntry`. @throws Sealed */
  putEntry(name: AuthEntryName, value: string, before?: string | null): Result<null> {
    const { mounts, entries, commit } = this.#deps;
    if (!mounts.byUuid(name.mount)) return refuse("missing", "the auth method was disabled");
    if (before !== undefined && entries.get(name) !== before) {
      return refuse("conflict", `the ${name.kind} was changed at the same time`);
    }
    if (value.length > MAX_ENTRY_CHARACTERS) {
      return refuse("too-large", `${name.kind}: at most ${MAX_ENTRY_CHARACTERS} characters`);
    }
    if (!entries.has(name) && entries.names(name.mount, name.kind).length >= MAX_ENTRIES) {
      return refuse("invalid", `${name.kind}: an auth method holds at most ${MAX_ENTRIES}`);
    }
    commit(() => entries.put(name, value));
    return ok(null);
  }

  deleteEntry(name: AuthEntryName): Result<null> {
    if (this.#deps.entries.has(name)) this.#deps.commit(() => this.#deps.entries.delete(name));
    return ok(null);
  }

  entryNames(mount: string, kind: string): string[] {
    return this.#deps.entries.names(mount, kind);
  }

  /** @throws Sealed */
  attempt(name: AuthEntryName, alias: string): Result<string | null> {
    return this.isLocked(name.mount, alias, Date.now())
      ? refuse("denied", "permission denied")
      : ok(this.#deps.entries.get(name));
  }

  /** Whether a name is locked after repeated failures. */
  isLocked(mount: string, alias: string, now: number): boolean {
    return this.#deps.lockouts.isLocked(mount, alias, this.#lockoutOf(mount), now);
  }

  /**
   * Counts a failed login.
   * @param exists whether the mount has a user or role of this name
   * @returns whether the name was locked before, by failures since the login began; then this one does not count
   */
  failed(mount: string, alias: string, exists: boolean): boolean {
    const now = Date.now();
    if (this.isLocked(mount, alias, now)) return true;
    this.#deps.lockouts.failed(mount, alias, exists, this.#lockoutOf(mount), now);
    return false;
  }

  /** Locked names of the auth mounts of a namespace and its descendants. */
  locked(namespace: string, now: number): LockedNames[] {
    const { mounts, namespaces, lockouts } = this.#deps;
    return mounts
      .every()
      .filter((mount) => mount.namespace.startsWith(namespace))
      .map(({ uuid, accessor, namespace: at }) => ({
        ...{ namespace: at, namespaceId: namespaces.idOf(at) ?? "", accessor },
        names: lockouts.locked(uuid, this.#lockoutOf(uuid), now),
      }))
      .filter(({ names }) => names.length > 0)
      .sort((a, b) => (a.namespace + a.accessor < b.namespace + b.accessor ? -1 : 1));
  }

  unlock(namespace: string, accessor: string, name: string): Result<null> {
    const mount = this.#deps.mounts.byAccessor(accessor);
    if (mount?.namespace !== namespace)
      return refuse("invalid", "mount_accessor: no such auth method in this namespace");
    this.#deps.lockouts.clear(mount.uuid, name);
    return ok(null);
  }

  #lockoutOf(mount: string): LockoutConfig {
    return this.#deps.mounts.byUuid(mount)?.config.user_lockout_config ?? DEFAULT_LOCKOUT;
  }
}

/** The refusal of lease times that contradict each other; null when there is none. */
function refusedTtls({ default_lease_ttl: usual, max_lease_ttl: most }: AuthMount["config"]): Refusal | null {
  const limit = most || SYSTEM_MAX_TTL;
  return usual > limit ? refuse("invalid", "given default lease TTL greater than given max lease TTL") : null;
}
