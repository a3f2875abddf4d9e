import type { NewEvent } from "../../contracts/event.ts";
import { type ClusterNamespace, type JobSettings, NAMESPACE_NAME } from "../../contracts/namespaces.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { upperBound } from "../../lib/text-range.ts";
import { clusterRegistry } from "../../rpc/stubs.ts";
import { clusterEvent } from "../cluster-acl/cluster-acl.ts";
import type { AccessPublisher } from "../event-publisher.ts";
import { column, firstRow } from "../rows.ts";
import type { DeletableNamespaces, NamespaceDeletions } from "./namespace-deletions.ts";

interface ClusterNamespaceRow extends Record<string, SqlStorageValue> {
  name: string;
  id: string;
  description: string;
  meta: string | null;
  job_settings: string | null;
  create_index: number | null;
  modify_index: number | null;
}

/** The flat namespaces of the cluster API, one row each. `default` always exists. */
export class ClusterNamespaces implements DeletableNamespaces {
  readonly kind = "cluster";

  constructor(
    private readonly env: Env,
    private readonly sql: SqlStorage,
    private readonly publisher: AccessPublisher,
    private readonly deletions: NamespaceDeletions,
  ) {}

  list(prefix: string): ClusterNamespace[] {
    return this.sql
      .exec<ClusterNamespaceRow>(
        "SELECT * FROM cluster_namespaces WHERE name >= ? AND name < ? ORDER BY name",
        prefix,
        upperBound(prefix),
      )
      .toArray()
      .map(clusterNamespace);
  }

  names(): string[] {
    return column(this.sql, "SELECT name FROM cluster_namespaces");
  }

  read(name: string): Result<ClusterNamespace> {
    const row = this.#row(name);
    // Upstream's wording.
    return row ? ok(clusterNamespace(row)) : refuse("missing", "Namespace not found");
  }

  async put(
    name: string,
    description: string,
    meta: Record<string, string> | null,
    jobs: JobSettings,
  ): Promise<Result<ClusterNamespace>> {
    if (!NAMESPACE_NAME.test(name)) {
      return refuse(
        "invalid",
        `invalid name ${JSON.stringify(name.slice(0, 130))}. Must match regex ${NAMESPACE_NAME.source}`,
      );
    }
    if (description.length > 256) return refuse("invalid", "description longer than 256");
    if (this.deletions.has("cluster", name)) return refuse("conflict", `namespace ${quoted(name)} is being deleted`);
    this.publisher.commit(() => {
      this.sql.exec(
        `INSERT INTO cluster_namespaces (name, id, description, meta, job_settings) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET description = excluded.description, meta = excluded.meta,
           job_settings = excluded.job_settings, modify_index = NULL`,
        name,
        crypto.randomUUID(),
        description,
        meta === null ? null : JSON.stringify(meta),
        Object.keys(jobs).length === 0 ? null : JSON.stringify(jobs),
      );
      const written = this.#row(name);
      this.publisher.emit(
        written ? [namespaceEvent("NamespaceUpserted", { ...clusterNamespace(written), ModifyIndex: null })] : [],
        [{ clusterNamespace: name }],
      );
    });
    await this.publisher.published();
    return this.read(name);
  }

  /** Id of a namespace, unique over its lifetime: a later one of the same name has another. */
  identity(name: string): Result<string> {
    const row = this.#row(name);
    return row ? ok(row.id) : missing(name);
  }

  /**
   * Index of the creation of a namespace; 0 for an unknown name. Earlier events under its name belong to a former
   * namespace.
   */
  since(name: string): number {
    return this.#row(name)?.create_index ?? 0;
  }

  /** Deletes a namespace without volumes and running jobs. */
  async delete(name: string): Promise<Result<null>> {
    if (name === "default") return refuse("invalid", `namespace "default" can not be deleted`);
    if (!this.#row(name)) return missing(name);
    const ended = await this.deletions.end(this, name);
    await this.publisher.delivered();
    return ended;
  }

  /** Asks the owner of the namespace's volumes and reports to close it. Idempotent. */
  async close(name: string): Promise<Result<null>> {
    const id = this.identity(name);
    return id.ok ? clusterRegistry(this.env).endNamespace(id.value, name) : ok(null);
  }

  /** Deletes the row and publishes its end, inside the caller's transaction. */
  complete(name: string): void {
    const row = this.#row(name);
    if (row) this.publisher.emit([namespaceEvent("NamespaceDeleted", clusterNamespace(row))]);
    this.sql.exec("DELETE FROM cluster_namespaces WHERE name = ?", name);
  }

  #row(name: string): ClusterNamespaceRow | null {
    return firstRow(this.sql, "SELECT * FROM cluster_namespaces WHERE name = ?", name);
  }
}

const quoted = (name: string): string => JSON.stringify(name.slice(0, 130));
const missing = (name: string) => refuse("missing", `namespace ${quoted(name)} not found`);

/** An event of the topic `Namespace`, which belongs to the namespace: its readers need a capability there. */
const namespaceEvent = (type: string, namespace: ClusterNamespace): NewEvent => ({
  ...clusterEvent("Namespace", type, namespace.Name, "", namespace),
  Namespace: namespace.Name,
});

const clusterNamespace = (row: ClusterNamespaceRow): ClusterNamespace => ({
  Name: row.name,
  Description: row.description,
  Quota: "",
  Capabilities: null,
  NodePoolConfiguration: null,
  ...(row.job_settings !== null && (JSON.parse(row.job_settings) as JobSettings)),
  Meta: row.meta === null ? null : (JSON.parse(row.meta) as Record<string, string>),
  CreateIndex: row.create_index,
  ModifyIndex: row.modify_index,
});
