import type { LockoutConfig } from "../../contracts/auth.ts";

/**
 * Bound of one table of names, against callers with ever new ones; the oldest are dropped. A mount has no more users or
 * roles than this, so that the failures of an existing name are never dropped.
 */
const MAX_NAMES = 10_000;

interface Failures {
  count: number;
  /** Time of the last failure, ms since 1970. */
  at: number;
}

type Names = Map<string, Failures>;

/**
 * Failed logins by auth mount and name. A name with too many failures is locked for a while
 * (https://developer.hashicorp.com/vault/docs/concepts/user-lockout). Names without a user or role are counted too, so
 * that a lock does not reveal which names exist. They have a table of their own: a flood of them drops no other failures.
 * Held in memory: a restart of the object clears it.
 */
export class LoginLockouts {
  readonly #known = new Map<string, Names>();
  readonly #unknown: Names = new Map();

  isLocked(mount: string, name: string, config: LockoutConfig, now: number): boolean {
    if (config.lockout_disable || config.lockout_threshold === 0) return false;
    const failures = this.#known.get(mount)?.get(name) ?? this.#unknown.get(keyOf(mount, name));
    return (
      failures !== undefined &&
      failures.count >= config.lockout_threshold &&
      now < failures.at + config.lockout_duration * 1000
    );
  }

  /** @param exists whether the mount has a user or role of this name */
  failed(mount: string, name: string, exists: boolean, config: LockoutConfig, now: number): void {
    if (exists) {
      const names: Names = this.#known.get(mount) ?? new Map();
      this.#known.set(mount, names);
      count(names, name, config, now);
    } else {
      count(this.#unknown, keyOf(mount, name), config, now);
    }
  }

  clear(mount: string, name: string): void {
    this.#known.get(mount)?.delete(name);
    this.#unknown.delete(keyOf(mount, name));
  }

  /** Forgets a mount that is gone. */
  forget(mount: string): void {
    this.#known.delete(mount);
  }

  /** Locked names of a mount. */
  locked(mount: string, config: LockoutConfig, now: number): string[] {
    const prefix = keyOf(mount, "");
    const unknown = [...this.#unknown.keys()].filter((key) => key.startsWith(prefix));
    const names = new Set([
      ...(this.#known.get(mount)?.keys() ?? []),
      ...unknown.map((key) => key.slice(prefix.length)),
    ]);
    return [...names].filter((name) => this.isLocked(mount, name, config, now)).sort();
  }
}

function count(names: Names, name: string, config: LockoutConfig, now: number): void {
  const before = names.get(name);
  const isRecent = before !== undefined && now < before.at + config.lockout_counter_reset_duration * 1000;
  names.delete(name);
  const [oldest] = names.keys();
  if (names.size >= MAX_NAMES && oldest !== undefined) names.delete(oldest);
  names.set(name, { count: (isRecent ? before.count : 0) + 1, at: now });
}

const keyOf = (mount: string, name: string): string => `${mount} ${name}`;
