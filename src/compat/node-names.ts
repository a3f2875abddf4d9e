/** The attribute that holds the version of what runs on a node, by whoever tells of it. */
export const VERSION_ATTRIBUTES = ["agent.version", "nomad.version"] as const;

/** What the Node object of the interface document has and the upstream one no longer has. */
export const LEGACY_NODE_FIELDS = ["Resources", "Reserved"] as const;
