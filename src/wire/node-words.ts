/** States of a node, and whether a scheduler may use it. */
export const STATUSES = ["initializing", "ready", "down", "disconnected"] as const;
export const ELIGIBILITIES = ["eligible", "ineligible"] as const;
