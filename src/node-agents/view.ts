/** Nodes with an agent, for the inventory of their sessions. */
export const NODES_WITH_AGENTS = "SELECT node_id AS name FROM agents";
