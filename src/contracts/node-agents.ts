import type { NodeReport } from "@sallyport/agent-protocol";
import type { NodeVolumesChange } from "./node.ts";
export interface NewJoinToken {
  readonly pool: string;
  readonly name: string | null;
  readonly ttlSeconds: number;
}

/** A join token as the API shows it: never its secret. */
export interface JoinTokenView {
  readonly AccessorID: string;
  readonly NodePool: string;
  /** The one name that a node may join under; empty: any. */
  readonly Name: string;
  readonly CreateTime: string;
  readonly ExpirationTime: string;
  /** The node that has joined by it; empty while it is unused. */
  readonly NodeID: string;
}

/** Which page of a list is wanted: at most `limit` rows from the id `from` on, from the beginning when it is empty. */
export interface Cut {
  readonly from: string;
  readonly limit: number;
  readonly reverse: boolean;
}

/** `next` is where the following page begins. */
export interface EnrolmentPage<View> {
  readonly rows: readonly View[];
  readonly next: string | null;
}

/** What a connection needs to know of the agent that asks for it. */
export interface AgentIdentity {
  /** The base64 of its raw Ed25519 key. */
  readonly publicKey: string;
  /** The audience its tokens must name. */
  readonly service: string;
  readonly pool: string;
  /** The one name it may report, or null: any. */
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
  /** When it was last heard of before its connection was lost; null while it is connected and before the first time. */
  readonly LastSeen: string | null;
  readonly CreateTime: string;
}

/** How its session sees an agent, at change number `seq`. */
export interface AgentChange {
  /** Grows with each change of one node: an older one that arrives late changes nothing. */
  readonly seq: number;
  /** Since when it is connected, ms since 1970; null while it is not. */
  readonly connectedSince: number | null;
  /** When it was last heard of, ms since 1970; null before the first time. */
  readonly seen: number | null;
  readonly version: string;
  /**
   * What it reports of its node; absent when the registry has that already. `HostVolumes` is there when the registry may know
   * nothing of the node, and names all of them.
   */
  readonly report?: { readonly node: Omit<NodeReport, "HostVolumes"> & Partial<Pick<NodeReport, "HostVolumes">> };
  /** What the registry has not heard of the volumes. */
  readonly volumes?: NodeVolumesChange;
}
