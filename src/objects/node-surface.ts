import type { JoinRequest } from "@sallyport/agent-protocol";
import type { GivenNode } from "../cluster/nodes/fields.ts";
import type {
  DrainNote,
  DrainSpec,
  Eligibility,
  NodeEventGiven,
  NodePage,
  NodePoolPage,
  NodePoolQuery,
  NodeQuery,
  NodeText,
  Written,
} from "../contracts/node.ts";
import type {
  AgentChange,
  AgentIdentity,
  AgentView,
  Cut,
  EnrolmentPage,
  JoinTokenView,
  NewJoinToken,
} from "../contracts/node-agents.ts";
import type { Result } from "../lib/result.ts";
import { HostVolumeSurface } from "./host-volume-surface.ts";
import type { NodeParts } from "./node-parts.ts";

/** Node and agent surface of `ClusterRegistry`; its components decide. */
export abstract class NodeSurface extends HostVolumeSurface {
  protected abstract readonly members: NodeParts;

  /** One page of nodes, and the index of their table. */
  nodes(query: NodeQuery): NodePage & { readonly index: number } {
    return { ...this.members.nodes.page(query), index: this.indexOf("Node") };
  }

  readNode(id: string): (NodeText & { readonly index: number }) | null {
    const found = this.members.nodes.read(id);
    return found && { ...found, index: this.indexOf("Node") };
  }

  /** Fingerprint of a node by its agent, full or partial: see `Nodes.register`. */
  registerNode(id: string, given: GivenNode, heard?: number): Promise<Result<Written>> {
    return this.members.nodes.register(id, given, heard);
  }

  /** A node's agent connected: the node is ready. */
  nodeConnected(id: string, heard?: number): Promise<Result<Written>> {
    return this.members.nodes.connected(id, heard);
  }

  /** A node's agent is lost: the node is disconnected, and down unless the agent returns in time. */
  nodeLost(id: string, heard?: number): Promise<Result<Written>> {
    return this.members.nodes.lost(id, heard);
  }

  addNodeEvents(id: string, events: readonly NodeEventGiven[]): Promise<Result<Written>> {
    return this.members.nodes.addEvents(id, events);
  }

  setNodeEligibility(id: string, eligibility: Eligibility): Promise<Result<Written>> {
    return this.members.nodes.setEligibility(id, eligibility);
  }

  drainNode(id: string, spec: DrainSpec, note: DrainNote): Promise<Result<Written>> {
    return this.members.drains.start(id, spec, note);
  }

  stopDraining(id: string, markEligible: boolean, note: DrainNote): Promise<Result<Written>> {
    return this.members.drains.stop(id, markEligible, note);
  }

  /** One page of node pools, and the index of their table. */
  nodePools(query: NodePoolQuery): NodePoolPage & { readonly index: number } {
    return { ...this.members.pools.page(query), index: this.indexOf("NodePool") };
  }

  /** A pool as JSON text, or null. */
  readNodePool(name: string): string | null {
    return this.members.pools.read(name);
  }

  purgeNode(id: string, force: boolean): Promise<Result<Written>> {
    return this.members.nodes.purge(id, force);
  }

  // ---- agents ----

  createJoinToken(wanted: NewJoinToken): { secret: string; token: JoinTokenView } {
    return this.members.agents.createToken(wanted);
  }

  joinTokens(cut: Cut): EnrolmentPage<JoinTokenView> {
    return this.members.enrolment.tokens(cut);
  }

  deleteJoinToken(accessor: string): Result<null> {
    return this.members.agents.deleteToken(accessor);
  }

  /** Enrols an agent's key: see `Enrolment.join`. @returns the node's id */
  joinAgent(request: JoinRequest, service: string): Result<string> {
    return this.members.agents.join(request, service);
  }

  agentIdentity(nodeId: string): AgentIdentity | null {
    return this.members.enrolment.identity(nodeId);
  }

  agent(nodeId: string): AgentView | null {
    return this.members.enrolment.agent(nodeId);
  }

  agents(cut: Cut): EnrolmentPage<AgentView> {
    return this.members.enrolment.agents(cut);
  }

  removeAgent(nodeId: string): Promise<Result<Written>> {
    return this.members.agents.remove(nodeId);
  }

  /** State reports of a node's session: see `Agents.changed`. */
  agentNews(nodeId: string, change: AgentChange): Promise<Result<null>> {
    return this.members.agents.changed(nodeId, change);
  }

  /** Like `agentNews`, for sessions of the previous release: calls to a new method fail there and are retried. */
  agentChanged(nodeId: string, change: AgentChange): Promise<Result<null>> {
    return this.members.agents.changed(nodeId, change);
  }
}
