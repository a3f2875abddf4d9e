/*
 * The states of an operation, in one vocabulary for host volumes, CSI plugins and the sessions of agents.
 *
 *   queued --sent--> running --result--> done | failed
 *     |                | deadline          ^
 *     | too long       v                   | result, or given up
 *     v             unknown ---------------+
 *   failed             ^ |
 *                      +-+ the node is asked again
 */

export const OPERATION_STATES = ["queued", "running", "unknown", "done", "failed"] as const;

/**
 * `queued`: stored, not sent. `running`: sent, without an outcome. `unknown`: it may have happened, or may still happen.
 * `done`, `failed`: completed.
 */
export type OperationState = (typeof OPERATION_STATES)[number];

/** Whether an operation has no outcome yet. */
export const isOpen = (state: OperationState): boolean => state !== "done" && state !== "failed";

/** Whether a node may have begun an operation that has no outcome yet. */
export const isStarted = (state: OperationState): boolean => state === "running" || state === "unknown";
