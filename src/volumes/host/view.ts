/** Reads the tables of host volumes for namespaces and node sessions. */

/** A volume that keeps a namespace from being deleted. */
export const HOST_VOLUME_IN_NAMESPACE = "SELECT id AS name FROM host_volumes WHERE namespace = ? LIMIT 1";

/** Nodes with a running operation. */
export const NODES_WITH_HOST_OPERATIONS =
  "SELECT DISTINCT node_id AS name FROM volume_operations WHERE state = 'running'";
