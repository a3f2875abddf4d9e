import type { JoinRequest } from "@sallyport/agent-protocol";
import type { NodeVolumesChange } from "../contracts/node.ts";
import type { AgentChange, JoinTokenView, NewJoinToken } from "../contracts/node-agents.ts";
import type { Written } from "../contracts/rows.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import type { Enrolment } from "./enrolment.ts";

/** The node registry as agents change it. `heard` is the number of the agent's message, which is applied once. */
interface NodeRegistry {
  register(
    id: string,
    node: NonNullable<AgentChange["report"]>["node"],
    heard: number,
    volumes?: NodeVolumesChange,
  ): Promise<Result<Written>>;
  volumesChanged(id: string, change: NodeVolumesChange, heard: number): Promise<Result<Written>>;
  connected(id: string, heard: number): Promise<Result<Written>>;
  lost(id: string, heard?: number): Promise<Result<Written>>;
}

/** Operations that end with a node's agent. */
interface NodeOperations {
  /** Fails the operations of a node; inside a transaction. */
  abandon(nodeId: string): void;
}

/** The outbox topic that revokes a node's session; one lane a node. */
const REVOCATION = "revocation";

/** Agents of the cluster: enrolment, removal, and the session changes that update their nodes. */
export class Agents {
  constructor(
    private readonly enrolment: Enrolment,
    private readonly nodes: NodeRegistry,
    private readonly outbox: Outbox,
    private readonly volumes: NodeOperations,
    private readonly commit: <T>(change: () => T) => T,
  ) {}

  createToken(wanted: NewJoinToken): { secret: string; token: JoinTokenView } {
    return this.commit(() => this.enrolment.createToken(wanted, Date.now()));
  }

  deleteToken(accessor: string): Result<null> {
    return this.commit(() => this.enrolment.deleteToken(accessor))
      ? ok(null)
      : refuse("missing", "join token not found");
  }

  join(request: JoinRequest, service: string): Result<string> {
    return this.commit(() => this.enrolment.join(request, service, Date.now()));
  }

  /**
   * Revokes an agent's key and connection. Its node is marked disconnected and remains until it is purged.
   * @returns the index of the node's event line; null when the node was never registered
   */
  async remove(nodeId: string): Promise<Result<Written>> {
    const isRemoved = this.commit(() => {
      if (!this.enrolment.remove(nodeId)) return false;
      this.outbox.enlist(REVOCATION, nodeId, null);
      this.volumes.abandon(nodeId);
      return true;
    });
    if (!isRemoved) return refuse("missing", "agent not found");
    const [, lost] = await Promise.all([this.outbox.drain(REVOCATION, nodeId), this.nodes.lost(nodeId)]);
    return lost.ok ? lost : ok({ index: null });
  }

  /**
   * Applies a change of an agent's session. Idempotent and ordered by `seq`.
   * @returns a refusal when the report is invalid for the node; `missing` when the node is unknown and no report is
   *   included
   */
  async changed(nodeId: string, change: AgentChange): Promise<Result<null>> {
    if (!this.commit(() => this.enrolment.recordChange(nodeId, change))) return ok(null);
    // A change yields up to two node messages; each needs its own number.
    const [first, second] = [change.seq * 2, change.seq * 2 + 1];
    const { report, volumes } = change;
    const registered = report
      ? await this.nodes.register(nodeId, report.node, first, volumes)
      : volumes && (await this.nodes.volumesChanged(nodeId, volumes, first));
    if (registered) {
      if (!registered.ok) return registered;
      // A node whose agent was removed meanwhile must not become ready.
      if (!this.enrolment.identity(nodeId)) return ok(null);
    }
    const applied = await (change.connectedSince === null
      ? this.nodes.lost(nodeId, second)
      : this.nodes.connected(nodeId, second));
    return applied.ok ? ok(null) : applied;
  }
}
