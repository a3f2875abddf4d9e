import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { Migration } from "./migrations.ts";

/** A step of the schema of an owner of content. */
export const ENDED_NAMESPACES: Migration =
  "CREATE TABLE ended_namespaces (id TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID";

/** Requests end long before that: older rows can be deleted. */
const RETENTION_MS = 24 * 3_600_000;

/** One kind of content by namespace: a query that returns one name, and the refusal that it causes. */
export interface NamespaceContent {
  readonly one: string;
  readonly because: (namespace: string, name: string) => string;
}

/**
 * Deletion of a namespace on the side of an owner of its content. A namespace with content is not deleted; a deleted
 * one admits no content, also not from a request authorised earlier. Keyed by identity: a later namespace of the same
 * name is a different one.
 */
export class EndedNamespaces {
  /** @param refusal returned for content of a deleted namespace */
  constructor(
    private readonly sql: SqlStorage,
    private readonly content: readonly NamespaceContent[],
    private readonly refusal: Refusal,
  ) {}

  /** Deletes a namespace unless it has content, inside the caller's transaction. Idempotent. */
  end(id: string, name: string, now: number): Result<null> {
    if (this.#has(id)) return ok(null);
    for (const { one, because } of this.content) {
      const [found] = this.sql.exec<{ name: string }>(one, name).toArray();
      if (found) return refuse("in-use", because(name, found.name));
    }
    this.sql.exec("DELETE FROM ended_namespaces WHERE at < ?", now - RETENTION_MS);
    this.sql.exec("INSERT INTO ended_namespaces VALUES (?, ?)", id, now);
    return ok(null);
  }

  /** Refuses content for deleted namespaces. */
  admit(ids: readonly string[]): Result<null> {
    return ids.some((id) => this.#has(id)) ? this.refusal : ok(null);
  }

  #has(id: string): boolean {
    return this.sql.exec("SELECT 1 FROM ended_namespaces WHERE id = ?", id).toArray().length > 0;
  }
}
