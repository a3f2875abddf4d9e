import type { JoinRequest } from "@sallyport/agent-protocol";
import type { Written } from "../contracts/node.ts";
import type {
  AgentChange,
  AgentIdentity,
  AgentsApi,
  AgentView,
  Cut,
  EnrolmentPage,
  JoinTokenView,
  NewJoinToken,
} from "../contracts/node-agents.ts";
import type { Result } from "../lib/result.ts";
import type { Agents } from "./agents.ts";
import type { Enrolment } from "./enrolment.ts";

/** RPC methods of `ClusterRegistry` about agents and their enrolment. */
export class AgentMethods implements AgentsApi {
  readonly #agents: Agents;
  readonly #enrolment: Enrolment;

  constructor(agents: Agents, enrolment: Enrolment) {
    this.#agents = agents;
    this.#enrolment = enrolment;
  }

  createJoinToken(wanted: NewJoinToken): { secret: string; token: JoinTokenView } {
    return this.#agents.createToken(wanted);
  }

  joinTokens(cut: Cut): EnrolmentPage<JoinTokenView> {
    return this.#enrolment.tokens(cut);
  }

  deleteJoinToken(accessor: string): Result<null> {
    return this.#agents.deleteToken(accessor);
  }

  joinAgent(request: JoinRequest, service: string): Result<string> {
    return this.#agents.join(request, service);
  }

  agentIdentity(nodeId: string): AgentIdentity | null {
    return this.#enrolment.identity(nodeId);
  }

  agent(nodeId: string): AgentView | null {
    return this.#enrolment.agent(nodeId);
  }

  agents(cut: Cut): EnrolmentPage<AgentView> {
    return this.#enrolment.agents(cut);
  }

  removeAgent(nodeId: string): Promise<Result<Written>> {
    return this.#agents.remove(nodeId);
  }

  agentNews(nodeId: string, change: AgentChange): Promise<Result<null>> {
    return this.#agents.changed(nodeId, change);
  }

  /** Calls to a new name fail at the previous release and are retried, so both names stay for one release. */
  agentChanged(nodeId: string, change: AgentChange): Promise<Result<null>> {
    return this.#agents.changed(nodeId, change);
  }
}
