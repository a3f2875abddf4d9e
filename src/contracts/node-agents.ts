import type { JoinRequest, NodeReport } from "@sallyport/agent-protocol";
import type { Result } from "../lib/result.ts";
import type * as schemas from "../wire/agent.ts";
import type { Wire } from "../wire/infer.ts";
import type { NodeVolumesChange } from "./node.ts";
import type { Page, PageQuery, Written } from "./rows.ts";

export interface NewJoinToken {
  readonly pool: string;
  readonly name: string | null;
  readonly ttlSeconds: number;
}

export type JoinTokenView = Wire<typeof schemas.JoinToken>;
export type AgentView = Wire<typeof schemas.Agent>;

/** The registered identity that a connection is checked against. */
export interface AgentIdentity {
  /** The base64 of its raw Ed25519 key. */
  readonly publicKey: string;
  /** The required audience of its tokens. */
  readonly service: string;
  readonly pool: string;
  /** The only name it may report; null = any. */
  readonly boundName: string | null;
}

/** The state of an agent as its session reports it. */
export interface AgentChange {
  /** Increases per change of a node; older changes are ignored. */
  readonly seq: number;
  /** Start of the connection (ms since 1970); null while disconnected. */
  readonly connectedSince: number | null;
  /** Time of the last message (ms since 1970); null before the first. */
  readonly seen: number | null;
  readonly version: string;
  /**
   * The node report; absent when the registry has it. `HostVolumes` lists all volumes when the registry may not know the
   * node.
   */
  readonly report?: { readonly node: Omit<NodeReport, "HostVolumes"> & Partial<Pick<NodeReport, "HostVolumes">> };
  /** Changed volumes that the registry does not have yet. */
  readonly volumes?: NodeVolumesChange;
}

/** The methods of `ClusterRegistry` about agents and their enrolment. */
export interface AgentsApi {
  createJoinToken(wanted: NewJoinToken): { secret: string; token: JoinTokenView };
  joinTokens(query: PageQuery): Page<JoinTokenView>;
  deleteJoinToken(accessor: string): Result<null>;
  /** Registers an agent's key: see `Enrolment.join`. @returns the node id */
  joinAgent(request: JoinRequest, service: string): Result<string>;
  agentIdentity(nodeId: string): AgentIdentity | null;
  agent(nodeId: string): AgentView | null;
  agents(query: PageQuery): Page<AgentView>;
  removeAgent(nodeId: string): Promise<Result<Written>>;
  /** Stores the state of an agent from its session: see `Agents.changed`. */
  agentNews(nodeId: string, change: AgentChange): Promise<Result<null>>;
  /** Alias of `agentNews` for sessions of the previous release. */
  agentChanged(nodeId: string, change: AgentChange): Promise<Result<null>>;
}
