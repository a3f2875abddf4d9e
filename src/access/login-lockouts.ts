import type { LockoutConfig } from "../contracts/auth.ts";

/** Bound of the memory against callers with ever new names; the oldest are dropped. */
const MAX_NAMES = 10_000;

interface Failures {
  count: number;
  /** Time of the last failure, ms since 1970. */
  at: number;
}

/**
 * Failed logins by auth mount and name. A name with too many failures is locked for a while
 * (https://developer.hashicorp.com/vault/docs/concepts/user-lockout). Held in memory, as upstream does: a restart of the
 * object clears it.
 */
export class LoginLockouts {
  readonly #failures = new Map<string, Failures>();

  isLocked(mount: string, name: string, config: LockoutConfig, now: number): boolean {
    if (config.lockout_disable || config.lockout_threshold === 0) return false;
    const failures = this.#failures.get(keyOf(mount, name));
    return (
      failures !== undefined &&
      failures.count >= config.lockout_threshold &&
      now < failures.at + config.lockout_duration * 1000
    );
  }

  failed(mount: string, name: string, config: LockoutConfig, now: number): void {
    const key = keyOf(mount, name);
    const before = this.#failures.get(key);
    const isRecent = before !== undefined && now < before.at + config.lockout_counter_reset_duration * 1000;
    this.#failures.delete(key);
    if (this.#failures.size >= MAX_NAMES) {
      const [oldest] = this.#failures.keys();
      if (oldest !== undefined) this.#failures.delete(oldest);
    }
    this.#failures.set(key, { count: (isRecent ? before.count : 0) + 1, at: now });
  }

  clear(mount: string, name: string): void {
    this.#failures.delete(keyOf(mount, name));
  }

  /** Locked names of a mount. */
  locked(mount: string, config: LockoutConfig, now: number): string[] {
    const prefix = keyOf(mount, "");
    return [...this.#failures.keys()]
      .filter((key) => key.startsWith(prefix))
      .map((key) => key.slice(prefix.length))
      .filter((name) => this.isLocked(mount, name, config, now))
      .sort();
  }
}

const keyOf = (mount: string, name: string): string => `${mount} ${name}`;
