import type { JoinRequest } from "@sallyport/agent-protocol";
import type { NodeVolumesChange, Written } from "../contracts/node.ts";
import type { AgentChange, JoinTokenView, NewJoinToken } from "../contracts/node-agents.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import type { Enrolment } from "./enrolment.ts";

/** The nodes of the registry, as their agents change them. `heard`: the number of the agent's message, applied once. */
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

interface Host {
  readonly enrolment: Enrolment;
  readonly nodes: NodeRegistry;
  commit<T>(change: () => T): T;
  /** Promises that a node's session sends its agent away; inside a transaction. */
  promiseRevocation(nodeId: string): void;
  /** Ends what a node was asked for: nobody will hear of it any more; inside a transaction. */
  abandon(nodeId: string): void;
  /** Resolves when the session has been told. Never rejects. */
  revoked(nodeId: string): Promise<void>;
}

/** What agents are to the cluster: who may be one, and what their sessions tell of their nodes. */
export class Agents {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  createToken(wanted: NewJoinToken): { secret: string; token: JoinTokenView } {
    const { commit, enrolment } = this.#host;
    return commit(() => enrolment.createToken(wanted, Date.now()));
  }

  deleteToken(accessor: string): Result<null> {
    const { commit, enrolment } = this.#host;
    return commit(() => enrolment.deleteToken(accessor)) ? ok(null) : refuse("missing", "join token not found");
  }

  join(request: JoinRequest, service: string): Result<string> {
    const { commit, enrolment } = this.#host;
    return commit(() => enrolment.join(request, service, Date.now()));
  }

  /**
   * Takes an agent's key away and sends it away; its node is lost, and stays known until it is purged.
   * @returns the index of the line that tells of its node; null when that was never known
   */
  async remove(nodeId: string): Promise<Result<Written>> {
    const { commit, enrolment, nodes, promiseRevocation, abandon, revoked } = this.#host;
    const isRemoved = commit(() => {
      if (!enrolment.remove(nodeId)) return false;
      promiseRevocation(nodeId);
      abandon(nodeId);
      return true;
    });
    if (!isRemoved) return refuse("missing", "agent not found");
    const [, lost] = await Promise.all([revoked(nodeId), nodes.lost(nodeId)]);
    return lost.ok ? lost : ok({ index: null });
  }

  /**
   * Takes in how an agent's session sees it. Idempotent, and in order by `seq`.
   * @returns a refusal when the report cannot be the node's; `missing` when the node is not known and no report came along
   */
  async changed(nodeId: string, change: AgentChange): Promise<Result<null>> {
    const { commit, enrolment, nodes } = this.#host;
    if (!commit(() => enrolment.note(nodeId, change))) return ok(null);
    // Two words about a node, each of which it hears once.
    const [first, second] = [change.seq * 2, change.seq * 2 + 1];
    const { report, volumes } = change;
    const registered = report
      ? await nodes.register(nodeId, report.node, first, volumes)
      : volumes && (await nodes.volumesChanged(nodeId, volumes, first));
    if (registered) {
      if (!registered.ok) return registered;
      // It may have been removed meanwhile, and then it is not to become ready.
      if (!enrolment.identity(nodeId)) return ok(null);
    }
    const told = await (change.connectedSince === null ? nodes.lost(nodeId, second) : nodes.connected(nodeId, second));
    return told.ok ? ok(null) : told;
  }
}
