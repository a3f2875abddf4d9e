import * as z from "zod";
import { type GivenNode, givenNode, nodeId } from "./fields.ts";
import { NODE_EVENT_TYPES, type NodeEventType } from "./record.ts";

/** Types of events about nodes that a scheduler may report. */
export const REPORTED_NODE_TYPES = [
  ...NODE_EVENT_TYPES,
  "PlanResult",
  "AllocationUpdated",
  "NodePoolUpserted",
] as const;

/** One reported change of a node, as the Worker has read and checked it. */
export interface NodeReport {
  readonly id: string;
  readonly type: NodeEventType;
  /** The node is gone; `body` is how it was last. */
  readonly deleted: boolean;
  /** What is told of the node, as JSON text: `GivenNode`. */
  readonly body: string;
}

const anything = z.unknown().optional();
const NOT_TAKEN = { SecretID: anything, CreateIndex: anything, ModifyIndex: anything };

/** The object in `Payload.Node`. Secrets and indexes are dropped: the first are nobody's business, the second are ours. */
export const reportedNode = givenNode
  .extend({ ID: nodeId, ...NOT_TAKEN })
  .transform(({ ID, SecretID: _secret, CreateIndex: _create, ModifyIndex: _modify, ...given }) => ({
    id: ID,
    given: given as GivenNode,
  }));

/** @param node as `reportedNode` gave it */
export const nodeReport = (
  type: NodeEventType,
  { id, given }: z.output<typeof reportedNode>,
  deleted: boolean,
): NodeReport => ({ id, type, deleted: deleted || type === "NodeDeregistration", body: JSON.stringify(given) });
