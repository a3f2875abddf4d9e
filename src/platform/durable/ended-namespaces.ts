import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";

/** Requests end long before: an identity that ended earlier needs no row. */
const KEPT_MS = 24 * 3_600_000;

/** One kind of content by namespace: a query that answers one name, and the refusal that it causes. */
export interface NamespaceContent {
  readonly one: string;
  readonly because: (namespace: string, name: string) => string;
}

/**
 * The end of a namespace, as an owner of its content sees it. A namespace with content is not ended; one that is ended admits
 * no content, also not from a request that was authorised before. Keyed by identity: a later namespace of the same name is
 * another one. The owner has the table `ended_namespaces`.
 */
export class EndedNamespaces {
  readonly #sql: SqlStorage;
  readonly #content: readonly NamespaceContent[];
  readonly #refusal: Refusal;

  /** @param refusal answers content of a namespace that has ended */
  constructor(sql: SqlStorage, content: readonly NamespaceContent[], refusal: Refusal) {
    this.#sql = sql;
    this.#content = content;
    this.#refusal = refusal;
  }

  /** Ends a namespace unless it has content, inside the caller's transaction. Idempotent. */
  end(id: string, name: string, now: number): Result<null> {
    if (this.#has(id)) return ok(null);
    for (const { one, because } of this.#content) {
      const [found] = this.#sql.exec<{ name: string }>(one, name).toArray();
      if (found) return refuse("in-use", because(name, found.name));
    }
    this.#sql.exec("DELETE FROM ended_namespaces WHERE at < ?", now - KEPT_MS);
    this.#sql.exec("INSERT INTO ended_namespaces VALUES (?, ?)", id, now);
    return ok(null);
  }

  /** Refuses content for namespaces that have ended. */
  admit(ids: readonly string[]): Result<null> {
    return ids.some((id) => this.#has(id)) ? this.#refusal : ok(null);
  }

  #has(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM ended_namespaces WHERE id = ?", id).toArray().length > 0;
  }
}
