import { backoff } from "../../lib/backoff.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { Memo } from "../../platform/durable/memo.ts";
import type { EngineStates } from "../engines/engine-type.ts";

type Secret = EngineStates["secret"];

/** Back-off of a failed replacement, as upstream's first retry. */
const RETRY = { base: 10_000, cap: 3_600_000 };
/** A replacement whose Worker never reports begins again after this time. */
const SILENT_MS = 10 * 60_000;

/**
 * The credentials that one engine keeps with its static roles, a sealed row each, and the time of the next replacement.
 * Written by `JobOutcomes` and `RoleChanges`, inside the object's transaction.
 */
export class KeptCredentials {
  readonly #next: Memo<number | null>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    private readonly scope: string,
  ) {
    this.#next = new Memo(
      () => sql.exec<{ at: number | null }>("SELECT min(due) AS at FROM kept_credentials").one().at,
    );
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#next.forget();
  }

  /** @param secret absent: the stored one stays */
  put(role: string, { subject, secret, due }: { subject: string; secret?: Secret; due: number }): void {
    this.#next.forget();
    if (secret === undefined) {
      this.sql.exec(
        "UPDATE kept_credentials SET subject = ?, due = ?, failures = 0 WHERE role = ?",
        subject,
        due,
        role,
      );
      return;
    }
    const sealed = this.keys.seal(JSON.stringify(secret), this.#context(role));
    this.sql.exec(
      `INSERT INTO kept_credentials (role, subject, sealed, due) VALUES (?, ?, ?, ?)
       ON CONFLICT (role) DO UPDATE SET subject = excluded.subject, sealed = excluded.sealed, due = excluded.due,
         failures = 0`,
      role,
      subject,
      sealed,
      due,
    );
  }

  /** @throws Sealed */
  find(role: string): Secret | null {
    const [row] = this.sql
      .exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM kept_credentials WHERE role = ?", role)
      .toArray();
    return row ? (JSON.parse(this.keys.openText(row.sealed, this.#context(role))) as Secret) : null;
  }

  /** The role whose credentials a subject has; null without one. */
  roleOf(subject: string): string | null {
    const rows = this.sql.exec<{ role: string }>("SELECT role FROM kept_credentials WHERE subject = ?", subject);
    return rows.toArray()[0]?.role ?? null;
  }

  /** Time of the next replacement, ms since 1970; null without one. */
  nextDue(): number | null {
    return this.#next.get();
  }

  /** The roles whose credentials are due, oldest first. */
  due(now: number, limit: number): string[] {
    if ((this.#next.get() ?? Number.POSITIVE_INFINITY) > now) return [];
    const rows = this.sql.exec<{ role: string }>(
      "SELECT role FROM kept_credentials WHERE due <= ? ORDER BY due LIMIT ?",
      now,
      limit,
    );
    return rows.toArray().map(({ role }) => role);
  }

  /** Schedules another replacement, in case the Worker that performs this one never reports. */
  started(role: string, now: number): void {
    this.#schedule(role, now + SILENT_MS);
  }

  /** Postpones a replacement while the role is being written. */
  postpone(role: string, now: number): void {
    this.#schedule(role, now + RETRY.base);
  }

  /** Schedules the retry of a failed replacement. */
  failed(role: string, now: number): void {
    const rows = this.sql.exec<{ failures: number }>(
      "UPDATE kept_credentials SET failures = failures + 1 WHERE role = ? RETURNING failures",
      role,
    );
    const [row] = rows.toArray();
    if (row) this.#schedule(role, now + backoff(row.failures - 1, RETRY));
  }

  delete(role: string): void {
    this.#next.forget();
    this.sql.exec("DELETE FROM kept_credentials WHERE role = ?", role);
  }

  deleteAll(): void {
    this.#next.forget();
    this.sql.exec("DELETE FROM kept_credentials");
  }

  #schedule(role: string, due: number): void {
    this.#next.forget();
    this.sql.exec("UPDATE kept_credentials SET due = ? WHERE role = ?", due, role);
  }

  #context(role: string): string {
    return `${this.scope} kept ${role}`;
  }
}
