import * as z from "zod";
import { NODE_EVENT_TYPES, type NodeEventType } from "../../contracts/node.ts";
import type { NodeReport } from "../../contracts/reports.ts";
import { type GivenNode, givenNode, nodeId } from "./fields.ts";

/** Event types that a scheduler may report about nodes. */
export const REPORTED_NODE_TYPES = [
  ...NODE_EVENT_TYPES,
  "PlanResult",
  "AllocationUpdated",
  "NodePoolUpserted",
] as const;

const anything = z.unknown().optional();
const NOT_TAKEN = { SecretID: anything, CreateIndex: anything, ModifyIndex: anything };

/** The object in `Payload.Node`, without secrets and indexes. */
export const reportedNode = givenNode
  .extend({ ID: nodeId, ...NOT_TAKEN })
  .transform(({ ID, SecretID: _secret, CreateIndex: _create, ModifyIndex: _modify, ...given }) => ({
    id: ID,
    given: given as GivenNode,
  }));

/** @param node output of `reportedNode` */
export const nodeReport = (
  type: NodeEventType,
  { id, given }: z.output<typeof reportedNode>,
  deleted: boolean,
): NodeReport => ({ id, type, deleted: deleted || type === "NodeDeregistration", body: JSON.stringify(given) });
