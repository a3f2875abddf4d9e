import type { AuthMount, Login } from "../../contracts/auth.ts";
import { isWithinNetworks } from "../../lib/networks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { LeaseCountQuotas } from "../system/lease-count-quotas.ts";
import type { AuthEntries } from "./auth-entries.ts";
import { type AuthMountTable, DEFAULT_LOCKOUT } from "./auth-mounts.ts";
import type { LoginLockouts } from "./login-lockouts.ts";
import type { UsedLoginStates } from "./used-login-states.ts";

/** Checks of a verified login against what has changed since its verification began. */
export class LoginChecks {
  constructor(
    private readonly mounts: AuthMountTable,
    private readonly entries: AuthEntries,
    private readonly lockouts: LoginLockouts,
    private readonly usedStates: UsedLoginStates,
    private readonly leaseQuotas: LeaseCountQuotas,
  ) {}

  /** @returns the mount of the login. @throws Sealed */
  admit(login: Login, now: number): Result<AuthMount> {
    const mount = this.mounts.byUuid(login.entry.mount);
    // Either may have been removed since the credentials were verified.
    if (!mount || !this.entries.has(login.entry) || !this.#isCurrent(login)) {
      return refuse("denied", "permission denied");
    }
    const { settings, alias, once } = login;
    // Failures since the login began may have locked the name: guesses at the same time are not answered.
    const lockout = mount.config.user_lockout_config ?? DEFAULT_LOCKOUT;
    if (alias && this.lockouts.isLocked(mount.uuid, alias.name, lockout, now)) {
      return refuse("denied", "permission denied");
    }
    if (once && !this.usedStates.isUnused(mount.uuid, once.id, once.expires, now)) {
      return refuse("invalid", "Vault login failed. Expired or missing OAuth state.");
    }
    if (!isWithinNetworks(login.address, settings.token_bound_cidrs)) {
      return refuse("denied", "permission denied: the address is outside the bound networks");
    }
    const lease = { namespace: mount.namespace, path: login.path, role: login.entry.name };
    const counted = this.leaseQuotas.admit(lease);
    return counted.ok ? ok(mount) : counted;
  }

  /** Clears the failures of the name. */
  passed({ entry, alias }: Login): void {
    if (alias) this.lockouts.clear(entry.mount, alias.name);
  }

  /** Records the id of a login that is accepted once. Runs inside the transaction that issues the token. */
  useUp({ entry, once }: Login, now: number): void {
    if (once) this.usedStates.add(entry.mount, once.id, once.expires, now);
  }

  /** Whether the entries that a login was verified with are still the same. @throws Sealed */
  #isCurrent({ entry: { mount }, seen = [] }: Login): boolean {
    return seen.every(({ kind, name, text }) => this.entries.get({ mount, kind, name }) === text);
  }
}
