import { ok, type Result, refuse } from "../result.ts";

const quoted = JSON.stringify;

/** Requests end long before: an identity that ended earlier needs no row. */
const KEPT_MS = 24 * 3_600_000;

/** Content of areas C and D by namespace: a query that answers one name, and the refusal that it causes. */
const CONTENT: readonly { readonly one: string; readonly because: (namespace: string, name: string) => string }[] = [
  {
    one: `SELECT id AS name FROM reported WHERE topic = 'Job' AND namespace = ?
      AND ifnull(json_extract(body, '$.Status'), '') <> 'dead' LIMIT 1`,
    because: (namespace) => `namespace ${quoted(namespace)} has non-terminal jobs in regions: [global]`,
  },
  {
    one: "SELECT id AS name FROM reported WHERE topic = 'Allocation' AND namespace = ? AND terminal = 0 LIMIT 1",
    because: (namespace) => `namespace ${quoted(namespace)} has non-terminal jobs in regions: [global]`,
  },
  {
    one: "SELECT id AS name FROM host_volumes WHERE namespace = ? LIMIT 1",
    because: (namespace, name) => contains(namespace, "host volume", name),
  },
  {
    one: "SELECT id AS name FROM csi_volumes WHERE namespace = ? LIMIT 1",
    because: (namespace, name) => contains(namespace, "CSI volume", name),
  },
  {
    one: `SELECT volume_id AS name FROM csi_operations WHERE namespace = ? AND method = 'csi.controller.create'
      AND state IN ('queued', 'running') LIMIT 1`,
    because: (namespace, name) => contains(namespace, "CSI volume", name),
  },
  {
    one: "SELECT id AS name FROM volume_claims WHERE namespace = ? LIMIT 1",
    because: (namespace, name) => contains(namespace, "volume claim", name),
  },
];

const contains = (namespace: string, what: string, name: string): string =>
  `namespace ${quoted(namespace)} contains at least one ${what} ${quoted(name)}. ` +
  `All ${what}s must be deleted in namespace before it can be deleted`;

/**
 * The end of a flat namespace, as the owner of its volumes sees it. A namespace with content is not ended; one that is ended
 * admits no content, also not from a request that was authorised before. Keyed by identity: a later namespace of the same
 * name is another one.
 */
export class EndedNamespaces {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Ends a namespace unless it has content, inside the caller's transaction. Idempotent. */
  end(id: string, name: string, now: number): Result<null> {
    if (this.#has(id)) return ok(null);
    for (const { one, because } of CONTENT) {
      const [found] = this.#sql.exec<{ name: string }>(one, name).toArray();
      if (found) return refuse("in-use", because(name, found.name));
    }
    this.#sql.exec("DELETE FROM ended_namespaces WHERE at < ?", now - KEPT_MS);
    this.#sql.exec("INSERT INTO ended_namespaces VALUES (?, ?)", id, now);
    return ok(null);
  }

  /** Refuses content for namespaces that have ended. */
  admit(ids: readonly string[]): Result<null> {
    return ids.some((id) => this.#has(id))
      ? refuse("invalid", "volume validation failed: the namespace was deleted meanwhile")
      : ok(null);
  }

  #has(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM ended_namespaces WHERE id = ?", id).toArray().length > 0;
  }
}
