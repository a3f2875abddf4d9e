import type { AgentsApi } from "../contracts/node-agents.ts";
import type { MethodTable } from "../platform/durable/rpc-methods.ts";
import type { Agents } from "./agents.ts";
import type { Enrolment } from "./enrolment.ts";

interface AgentParts {
  readonly agents: Agents;
  readonly enrolment: Enrolment;
}

/** RPC methods of `ClusterRegistry` about agents and their enrolment. */
export const agentMethods: MethodTable<AgentsApi, AgentParts> = {
  createJoinToken: ({ agents }, wanted) => agents.createToken(wanted),
  joinTokens: ({ enrolment }, cut) => enrolment.tokens(cut),
  deleteJoinToken: ({ agents }, accessor) => agents.deleteToken(accessor),
  joinAgent: ({ agents }, request, service) => agents.join(request, service),
  agentIdentity: ({ enrolment }, nodeId) => enrolment.identity(nodeId),
  agent: ({ enrolment }, nodeId) => enrolment.agent(nodeId),
  agents: ({ enrolment }, cut) => enrolment.agents(cut),
  removeAgent: ({ agents }, nodeId) => agents.remove(nodeId),
  // Calls to a new name fail at the previous release and are retried, so both names stay for one release.
  agentNews: ({ agents }, nodeId, change) => agents.changed(nodeId, change),
  agentChanged: ({ agents }, nodeId, change) => agents.changed(nodeId, change),
};
