import type { NamespaceContent } from "../platform/durable/ended-namespaces.ts";

const quoted = JSON.stringify;

/**
 * Content of the cluster API that blocks the deletion of a namespace. Terminal objects do not count; they are deleted
 * with it.
 */
export const CLUSTER_CONTENT: readonly NamespaceContent[] = [
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
