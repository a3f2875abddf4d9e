import { MAX_VOLUMES } from "@sallyport/agent-protocol";
import { isInPool, type NodeView, type VolumeNode } from "../../cluster/nodes/view.ts";
import type { Constraint, HostVolumeRequest, Search } from "../../contracts/host-volumes.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { constraintsMet } from "../constraint.ts";
import type { HostVolumeStore } from "./volume-store.ts";

export const SEARCH_BEGIN: Search = { from: "", hadVolume: 0, infeasible: {} };

/** Nodes examined per call. */
const NODES_A_TURN = 200;

const MAX_REASON_CHARACTERS = 200;
const NO_ROOM = `with ${MAX_VOLUMES} volumes already`;

const quoted = JSON.stringify;

/** Compiles a volume's constraints. @returns the first reason why a node is infeasible; null when it is feasible */
export function obstacleOf({ pluginId, constraints }: Pick<HostVolumeRequest, "pluginId" | "constraints">) {
  const attribute = { LTarget: `\${attr.plugins.host_volume.${pluginId}.version}`, Operand: "is_set", RTarget: "" };
  const hasPlugin = constraintsMet([attribute]);
  const rules = constraints.map((constraint) => ({ text: textOf(constraint), isMet: constraintsMet([constraint]) }));
  return (node: VolumeNode): string | null => {
    if (!node.hasAgent) return "without an agent of this service";
    if (!hasPlugin(node)) return `without the plugin ${quoted(pluginId)}`;
    const broken = rules.find(({ isMet }) => !isMet(node));
    return broken ? `outside the constraint ${broken.text}` : null;
  };
}

/** A constraint in the syntax of job files: the operand between its sides. */
const textOf = ({ LTarget, Operand, RTarget }: Constraint): string =>
  [LTarget, Operand || "=", RTarget]
    .filter((part) => part !== "")
    .join(" ")
    .slice(0, MAX_REASON_CHARACTERS);

/** A node reports all its volumes in one message, which bounds their number. */
export const hasCapacity = (volumes: HostVolumeStore, { id }: Pick<VolumeNode, "id">): boolean =>
  volumes.countOn(id) < MAX_VOLUMES;

/** The node named by a request, if it accepts operations now (docs/internals/wire/volumes.md). */
export function nodeNamed(nodes: NodeView, request: HostVolumeRequest, subject: string): Result<VolumeNode> {
  const against = `validating volume ${quoted(subject)} against state failed`;
  const node = nodes.find(request.nodeId);
  if (!node) return refuse("missing", `${against}: node ${quoted(request.nodeId)} does not exist`);
  if (request.nodePool !== "" && !isInPool(node, request.nodePool))
    return refuse("invalid", `${against}: node ID ${quoted(node.id)} is not in pool ${quoted(request.nodePool)}`);
  return node.status === "ready" && node.hasAgent ? ok(node) : unreachable(node);
}

export const unreachable = ({ id, status, hasAgent }: VolumeNode) =>
  refuse("unavailable", hasAgent ? `node ${id} is ${status}` : `node ${id} has no agent of this service`);

/**
 * Searches for a feasible node, one page of the node list per call. Order by id makes retries of a request find the
 * same node.
 * @returns the node, or the position to continue from
 */
export function search(
  nodes: NodeView,
  volumes: HostVolumeStore,
  request: HostVolumeRequest,
  { from, ...counts }: Search,
): Result<VolumeNode | Search> {
  const { name, nodePool } = request;
  if (!nodes.poolExists(nodePool)) {
    const against = `validating volume ${quoted(name)} against state failed`;
    return refuse("missing", `${against}: node pool ${quoted(nodePool)} does not exist`);
  }
  const obstacleAt = obstacleOf(request);
  const infeasible: Record<string, number> = { ...counts.infeasible };
  let { hadVolume } = counts;
  let [looked, last] = [0, ""];
  for (const node of nodes.placeable(nodePool, from, NODES_A_TURN)) {
    looked += 1;
    last = node.id;
    if (volumes.holder(node.id, name) !== null || node.hasName(name)) hadVolume += 1;
    else {
      const because = obstacleAt(node) ?? (hasCapacity(volumes, node) ? null : NO_ROOM);
      if (because === null) return ok(node);
      infeasible[because] = (infeasible[because] ?? 0) + 1;
    }
  }
  // Ids have equal length, so this position sorts directly after the last id.
  if (looked === NODES_A_TURN) return ok({ from: `${last} `, hadVolume, infeasible });
  return refuse("conflict", notPlaced(name, hadVolume, infeasible, nodes.awayCount(nodePool)));
}

/** Begins with Nomad's words, which clients match; the reasons follow. */
function notPlaced(name: string, hadVolume: number, infeasible: Search["infeasible"], away: number): string {
  const reasons = Object.entries({ ...infeasible, ...(away > 0 && { "not ready or not eligible": away }) });
  const total = reasons.reduce((sum, [, count]) => sum + count, 0);
  const counts = `${hadVolume} nodes had existing volume, 0 nodes filtered by node pool governance, ${total} nodes were infeasible`;
  const because = reasons.map(([reason, count]) => `${count} of them ${reason}`).join(", ");
  return `could not place volume ${quoted(name)}: no node meets constraints: ${counts}${because && ` (${because})`}`;
}
