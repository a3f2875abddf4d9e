import type { JoinRequest, NodeReport } from "@sallyport/agent-protocol";
import type { Result } from "../lib/result.ts";
import type { NodeVolumesChange } from "./node.ts";
import type { Page, PageQuery, Written } from "./rows.ts";

export interface NewJoinToken {
  readonly pool: string;
  readonly name: string | null;
  readonly ttlSeconds: number;
}

/** A join token as the API shows it: never its secret. */
export interface JoinTokenView {
  readonly AccessorID: string;
  readonly NodePool: string;
  /** The only node name that may join; empty = any. */
  readonly Name: string;
  readonly CreateTime: string;
  readonly ExpirationTime: string;
  /** The node that joined with this token; empty while unused. */
  readonly NodeID: string;
}

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

/** An agent as the API shows it. */
export interface AgentView {
  readonly NodeID: string;
  readonly Name: string;
  readonly NodePool: string;
  readonly Version: string;
  readonly Connected: boolean;
  readonly ConnectedSince: string | null;
  /** Time of the last message of a lost connection; null while connected and before the first. */
  readonly LastSeen: string | null;
  readonly CreateTime: string;
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
