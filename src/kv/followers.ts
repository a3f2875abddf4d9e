import type { SurveyedSecret, SurveyPage } from "../contracts/kv-store.ts";
import { upperBound } from "../lib/text-range.ts";
import { Memo } from "../platform/durable/memo.ts";

/**
 * Sync destinations with rules about secrets of this mount, and what rules read of secrets: names and metadata. Owned by
 * `KvStore`. Without followers a change costs one look-up in memory. Methods that write are called inside the object's
 * transaction.
 */
export class Followers {
  readonly #rows: Memo<readonly { readonly destination: string; readonly prefix: string }[]>;

  constructor(private readonly sql: SqlStorage) {
    this.#rows = new Memo(() =>
      sql.exec<{ destination: string; prefix: string }>("SELECT destination, prefix FROM followers").toArray(),
    );
  }

  /** Drops the cached rows after a rollback. */
  forget(): void {
    this.#rows.forget();
  }

  /** Replaces the prefixes of a destination. */
  set(destination: string, prefixes: readonly string[]): void {
    this.sql.exec("DELETE FROM followers WHERE destination = ?", destination);
    for (const prefix of prefixes) this.sql.exec("INSERT OR IGNORE INTO followers VALUES (?, ?)", destination, prefix);
    this.#rows.forget();
  }

  /** The destinations whose rules may match a path; all for null. */
  of(path: string | null): string[] {
    const rows = this.#rows.get();
    if (rows.length === 0) return [];
    const found = rows.filter(({ prefix }) => path === null || path.startsWith(prefix));
    return [...new Set(found.map(({ destination }) => destination))];
  }

  /** One page of the secrets whose paths begin with `prefix`, sorted, with or without living versions. */
  survey(prefix: string, after: string, limit: number): SurveyPage {
    const candidates = this.sql
      .exec<{ path: string; customMetadata: string | null }>(
        `SELECT path, custom_metadata AS customMetadata FROM secrets
         WHERE path > ? AND path >= ? AND path < ? AND current_version > 0 ORDER BY path LIMIT ?`,
        after,
        prefix,
        upperBound(prefix),
        limit,
      )
      .toArray();
    return { gone: false, candidates, next: candidates.length < limit ? null : (candidates.at(-1)?.path ?? null) };
  }

  /** The given secrets; null for those without a version. */
  surveyOf(paths: readonly string[]): (SurveyedSecret | null)[] {
    return paths.map(
      (path) =>
        this.sql
          .exec<{ path: string; customMetadata: string | null }>(
            "SELECT path, custom_metadata AS customMetadata FROM secrets WHERE path = ? AND current_version > 0",
            path,
          )
          .toArray()[0] ?? null,
    );
  }
}
