/** Reads the tables of CSI volumes for namespaces and node sessions. */

/** A volume that keeps a namespace from being deleted. */
export const CSI_VOLUME_IN_NAMESPACE = "SELECT id AS name FROM csi_volumes WHERE namespace = ? LIMIT 1";

/** A volume under creation, which keeps a namespace from being deleted. */
export const NEW_CSI_VOLUME_IN_NAMESPACE = `SELECT volume_id AS name FROM csi_operations WHERE namespace = ?
  AND method = 'csi.controller.create' AND state IN ('queued', 'running') LIMIT 1`;

/** Nodes with a running operation. */
export const NODES_WITH_CSI_OPERATIONS = "SELECT DISTINCT node_id AS name FROM csi_operations WHERE state = 'running'";
