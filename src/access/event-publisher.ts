import type { EventPublisher } from "../publishing/event-publisher.ts";

/** The table of each kind of row with indexes, and the condition that names a row. */
const INDEXED = {
  token: { table: "tokens", condition: "accessor = ?" },
  policy: { table: "policies", condition: "namespace = ? AND name = ?" },
  clusterRole: { table: "cluster_roles", condition: "id = ?" },
  clusterAuthMethod: { table: "cluster_auth_methods", condition: "name = ?" },
  bindingRule: { table: "binding_rules", condition: "id = ?" },
  clusterNamespace: { table: "cluster_namespaces", condition: "name = ?" },
} as const;

/** A row whose indexes are filled in after the event log has assigned them: its key, by its kind. */
export type IndexBackfill =
  | { [Kind in Exclude<keyof typeof INDEXED, "policy">]: Record<Kind, string> }[Exclude<keyof typeof INDEXED, "policy">]
  | { policy: [namespace: string, name: string] };

export type AccessPublisher = EventPublisher<IndexBackfill>;

/** Writes the index of a change to its row, which was created by it if the row has no index. */
export function setIndex(sql: SqlStorage, backfill: IndexBackfill, index: number): void {
  for (const [kind, key] of Object.entries(backfill) as [keyof typeof INDEXED, string | string[]][]) {
    const { table, condition } = INDEXED[kind];
    const change = `UPDATE ${table} SET create_index = ifnull(create_index, ?), modify_index = ? WHERE ${condition}`;
    sql.exec(change, index, index, ...[key].flat());
  }
}
