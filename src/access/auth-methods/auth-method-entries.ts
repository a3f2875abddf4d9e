import type { LockedNames } from "../../contracts/approle.ts";
import type { AuthEntryName, LockoutConfig } from "../../contracts/auth.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import type { AuthEntries } from "./auth-entries.ts";
import { type AuthMountTable, DEFAULT_LOCKOUT } from "./auth-mounts.ts";
import type { LoginLockouts } from "./login-lockouts.ts";

/** A mount holds its roles and users in one object with all others; these bounds keep a tenant from filling it. */
const MAX_ENTRIES = 10_000;
const MAX_ENTRY_CHARACTERS = 128 * 1024;

/** Entries of auth methods, and the names that are locked after failed logins. */
export class AuthMethodEntries {
  constructor(
    private readonly mounts: AuthMountTable,
    private readonly entries: AuthEntries,
    private readonly lockouts: LoginLockouts,
    private readonly namespaces: NamespaceTree,
    private readonly commit: ObjectContext["commit"],
  ) {}

  /** @throws Sealed */
  entry(name: AuthEntryName): string | null {
    return this.entries.get(name);
  }

  /** See `AuthApi.putAuthEntry`. @throws Sealed */
  putEntry(name: AuthEntryName, value: string, before?: string | null): Result<null> {
    if (!this.mounts.byUuid(name.mount)) return refuse("missing", "the auth method was disabled");
    if (before !== undefined && this.entries.get(name) !== before) {
      return refuse("conflict", `the ${name.kind} was changed at the same time`);
    }
    if (value.length > MAX_ENTRY_CHARACTERS) {
      return refuse("too-large", `${name.kind}: at most ${MAX_ENTRY_CHARACTERS} characters`);
    }
    if (!this.entries.has(name) && this.entries.names(name.mount, name.kind).length >= MAX_ENTRIES) {
      return refuse("invalid", `${name.kind}: an auth method holds at most ${MAX_ENTRIES}`);
    }
    this.commit(() => this.entries.put(name, value));
    return ok(null);
  }

  deleteEntry(name: AuthEntryName): Result<null> {
    if (this.entries.has(name)) this.commit(() => this.entries.delete(name));
    return ok(null);
  }

  entryNames(mount: string, kind: string): string[] {
    return this.entries.names(mount, kind);
  }

  /** @throws Sealed */
  attempt(name: AuthEntryName, alias: string): Result<string | null> {
    return this.isLocked(name.mount, alias, Date.now())
      ? refuse("denied", "permission denied")
      : ok(this.entries.get(name));
  }

  /** Whether a name is locked after repeated failures. */
  isLocked(mount: string, alias: string, now: number): boolean {
    return this.lockouts.isLocked(mount, alias, this.#lockoutOf(mount), now);
  }

  /**
   * Counts a failed login.
   * @param exists whether the mount has a user or role of this name
   * @returns whether the name was locked before, by failures since the login began; then this one does not count
   */
  failed(mount: string, alias: string, exists: boolean): boolean {
    const now = Date.now();
    if (this.isLocked(mount, alias, now)) return true;
    this.lockouts.failed(mount, alias, exists, this.#lockoutOf(mount), now);
    return false;
  }

  /** Locked names of the auth mounts of a namespace and its descendants. */
  locked(namespace: string, now: number): LockedNames[] {
    return this.mounts
      .every()
      .filter((mount) => mount.namespace.startsWith(namespace))
      .map(({ uuid, accessor, namespace: at }) => ({
        namespace: at,
        namespaceId: this.namespaces.idOf(at) ?? "",
        accessor,
        names: this.lockouts.locked(uuid, this.#lockoutOf(uuid), now),
      }))
      .filter(({ names }) => names.length > 0)
      .sort((a, b) => (a.namespace + a.accessor < b.namespace + b.accessor ? -1 : 1));
  }

  unlock(namespace: string, accessor: string, name: string): Result<null> {
    const mount = this.mounts.byAccessor(accessor);
    if (mount?.namespace !== namespace)
      return refuse("invalid", "mount_accessor: no such auth method in this namespace");
    this.lockouts.clear(mount.uuid, name);
    return ok(null);
  }

  #lockoutOf(mount: string): LockoutConfig {
    return this.mounts.byUuid(mount)?.config.user_lockout_config ?? DEFAULT_LOCKOUT;
  }
}
