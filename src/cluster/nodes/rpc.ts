import type { NodesApi } from "../../contracts/node.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { MethodTable } from "../../platform/durable/rpc-methods.ts";
import type { Drains } from "./drains.ts";
import type { NodePools } from "./node-pools.ts";
import type { Nodes } from "./nodes.ts";

interface NodeParts {
  readonly nodes: Nodes;
  readonly drains: Drains;
  readonly pools: NodePools;
  readonly indexes: TableIndexes;
}

/** RPC methods of `ClusterRegistry` about nodes, their drains and pools. */
export const nodeMethods: MethodTable<NodesApi, NodeParts> = {
  nodes: ({ nodes, indexes }, query) => ({ ...nodes.page(query), index: indexes.of("Node") }),
  readNode: ({ nodes, indexes }, id) => {
    const found = nodes.read(id);
    return found && { ...found, index: indexes.of("Node") };
  },
  registerNode: ({ nodes }, id, given, heard) => nodes.register(id, given, heard),
  nodeConnected: ({ nodes }, id, heard) => nodes.connected(id, heard),
  nodeLost: ({ nodes }, id, heard) => nodes.lost(id, heard),
  addNodeEvents: ({ nodes }, id, events) => nodes.addEvents(id, events),
  setNodeEligibility: ({ nodes }, id, eligibility) => nodes.setEligibility(id, eligibility),
  drainNode: ({ drains }, id, spec, note) => drains.start(id, spec, note),
  stopDraining: ({ drains }, id, markEligible, note) => drains.stop(id, markEligible, note),
  nodePools: ({ pools, indexes }, query) => ({ ...pools.page(query), index: indexes.of("NodePool") }),
  readNodePool: ({ pools }, name) => pools.read(name),
  putNodePool: ({ pools }, pool) => pools.put(pool),
  deleteNodePool: ({ pools }, name) => pools.delete(name),
  purgeNode: ({ nodes }, id, force) => nodes.purge(id, force),
};
