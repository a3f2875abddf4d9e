import type {
  DrainNote,
  DrainSpec,
  Eligibility,
  NodeEventGiven,
  NodePage,
  NodePoolFields,
  NodePoolPage,
  NodePoolQuery,
  NodeQuery,
  NodesApi,
  NodeText,
  Written,
} from "../../contracts/node.ts";
import type { Result } from "../../lib/result.ts";
import type { TableIndexes } from "../../platform/durable/blocking/table-indexes.ts";
import type { Drains } from "./drains.ts";
import type { GivenNode } from "./fields.ts";
import type { NodePools } from "./node-pools.ts";
import type { Nodes } from "./nodes.ts";

/** RPC methods of `ClusterRegistry` about nodes, their drains and pools. */
export class NodeMethods implements NodesApi {
  readonly #nodes: Nodes;
  readonly #drains: Drains;
  readonly #pools: NodePools;
  readonly #indexes: TableIndexes;

  constructor(nodes: Nodes, drains: Drains, pools: NodePools, indexes: TableIndexes) {
    this.#nodes = nodes;
    this.#drains = drains;
    this.#pools = pools;
    this.#indexes = indexes;
  }

  nodes(query: NodeQuery): NodePage & { readonly index: number } {
    return { ...this.#nodes.page(query), index: this.#indexes.of("Node") };
  }

  readNode(id: string): (NodeText & { readonly index: number }) | null {
    const found = this.#nodes.read(id);
    return found && { ...found, index: this.#indexes.of("Node") };
  }

  registerNode(id: string, given: GivenNode, heard?: number): Promise<Result<Written>> {
    return this.#nodes.register(id, given, heard);
  }

  nodeConnected(id: string, heard?: number): Promise<Result<Written>> {
    return this.#nodes.connected(id, heard);
  }

  nodeLost(id: string, heard?: number): Promise<Result<Written>> {
    return this.#nodes.lost(id, heard);
  }

  addNodeEvents(id: string, events: readonly NodeEventGiven[]): Promise<Result<Written>> {
    return this.#nodes.addEvents(id, events);
  }

  setNodeEligibility(id: string, eligibility: Eligibility): Promise<Result<Written>> {
    return this.#nodes.setEligibility(id, eligibility);
  }

  drainNode(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>> {
    return this.#drains.start(id, spec, note);
  }

  stopDraining(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>> {
    return this.#drains.stop(id, markEligible, note);
  }

  nodePools(query: NodePoolQuery): NodePoolPage & { readonly index: number } {
    return { ...this.#pools.page(query), index: this.#indexes.of("NodePool") };
  }

  readNodePool(name: string): string | null {
    return this.#pools.read(name);
  }

  putNodePool(pool: NodePoolFields): Promise<Result<Written>> {
    return this.#pools.put(pool);
  }

  deleteNodePool(name: string): Promise<Result<Written>> {
    return this.#pools.delete(name);
  }

  purgeNode(id: string, force: boolean): Promise<Result<Written>> {
    return this.#nodes.purge(id, force);
  }
}
