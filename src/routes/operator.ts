import { serverOf } from "../compat/orchestrator.ts";
import type { ClusterRights } from "../contracts/cluster-rights.ts";
import { allowsOperator } from "../rights/cluster-rights.ts";
import { reached, read } from "./agent-self.ts";
import { refused } from "./job-writes.ts";
import { clusterEmpty } from "./server/respond.ts";
import { type AuthorisedCall, type ClusterRoute, cluster } from "./server/route.ts";

/**
 * The operator API of upstream (https://developer.hashicorp.com/nomad/api-docs/operator), for a service that has one
 * server and no scheduler: reads describe it, and writes answer 501.
 */

const readsOperator = (rights: ClusterRights): boolean => allowsOperator(rights, "read");
const writesOperator = (rights: ClusterRights): boolean => allowsOperator(rights, "write");

const NO_RAFT = "there are no Raft servers: the platform replicates the state";
const NO_SCHEDULER = "nothing is scheduled here: a scheduler reports its objects with PUT /v1/cluster/objects";
/** Upstream's text. */
const ENTERPRISE_ONLY = "Nomad Enterprise only endpoint";

const DEFAULT_AUTOPILOT = {
  CleanupDeadServers: false,
  LastContactThreshold: "200ms",
  MaxTrailingLogs: 250,
  MinQuorum: 0,
  ServerStabilizationTime: "10s",
  EnableRedundancyZones: false,
  DisableUpgradeMigration: false,
  EnableCustomUpgrades: false,
  CreateIndex: 0,
  ModifyIndex: 0,
};

const SCHEDULER = {
  SchedulerConfig: {
    SchedulerAlgorithm: "binpack",
    MemoryOversubscriptionEnabled: false,
    RejectJobRegistration: true,
    PauseEvalBroker: true,
    PreemptionConfig: {
      SystemSchedulerEnabled: false,
      SysBatchSchedulerEnabled: false,
      BatchSchedulerEnabled: false,
      ServiceSchedulerEnabled: false,
    },
    CreateIndex: 0,
    ModifyIndex: 0,
  },
  Index: 0,
  LastContact: 0,
  KnownLeader: true,
  NextToken: "",
};

const withoutProtocol = ({ RaftProtocol: _protocol, ...server }: ReturnType<typeof serverOf>) => server;

const health = (call: AuthorisedCall) => ({
  Healthy: true,
  FailureTolerance: 0,
  Leader: serverOf(reached(call)).ID,
  Voters: [serverOf(reached(call)).ID],
  Servers: [
    {
      ...withoutProtocol(serverOf(reached(call))),
      SerfStatus: "alive",
      LastContact: "0s",
      LastTerm: 0,
      LastIndex: 0,
      Healthy: true,
      StableSince: "0001-01-01T00:00:00Z",
    },
  ],
});

const raft = (call: AuthorisedCall) => {
  const { ID, Name, Address, Leader, Voter, RaftProtocol } = serverOf(reached(call));
  return { Index: 0, Servers: [{ ID, Node: Name, Address, Leader, Voter, RaftProtocol }] };
};

/** Garbage collection and summaries follow from each report: there is nothing to start. */
const nothingToDo = (path: string): ClusterRoute =>
  cluster(`POST ${path}`, { rights: "management" }, async () => clusterEmpty());

export const operatorRoutes = [
  read("/operator/raft/configuration", "management", raft),
  refused("DELETE", "/operator/raft/peer", "management", NO_RAFT),
  read("/operator/autopilot/configuration", readsOperator, () => DEFAULT_AUTOPILOT),
  refused("POST", "/operator/autopilot/configuration", writesOperator, NO_RAFT),
  read("/operator/autopilot/health", readsOperator, health),
  read("/operator/scheduler/configuration", readsOperator, () => SCHEDULER),
  refused("POST", "/operator/scheduler/configuration", writesOperator, NO_SCHEDULER),
  refused("GET", "/operator/license", readsOperator, ENTERPRISE_ONLY),
  nothingToDo("/system/gc"),
  nothingToDo("/system/reconcile/summaries"),
];
