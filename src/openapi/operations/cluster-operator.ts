import * as z from "zod";
import { CONTEXTS, FUZZY_CONTEXTS } from "../../cluster/search.ts";
import { anything, index } from "../../wire/shapes.ts";
import { bare, group, plain } from "../operation.ts";
import { namespaces } from "../parameters.ts";

const found = { Index: index, LastContact: z.literal(0), KnownLeader: z.literal(true), NextToken: z.literal("") };
const truncations = (contexts: readonly [string, ...string[]]) => z.partialRecord(z.enum(contexts), z.boolean());

const server = {
  ID: z.string(),
  Name: z.string(),
  Address: z.string(),
  Leader: z.boolean(),
  Voter: z.boolean(),
  Version: z.string(),
};

export const clusterOperator = group(
  "Nodes",
  {},
  {
    "GET /operator/raft/configuration": {
      id: "readRaftConfiguration",
      summary: "List servers (this service)",
      answers: plain(
        "The one server.",
        z.object({
          Index: index,
          Servers: z.array(
            z.object({
              ID: z.string(),
              Node: z.string(),
              Address: z.string(),
              Leader: z.boolean(),
              Voter: z.boolean(),
              RaftProtocol: z.string(),
            }),
          ),
        }),
      ),
    },
    "GET /operator/autopilot/configuration": {
      id: "readAutopilotConfiguration",
      summary: "Read the autopilot configuration (upstream's defaults, without effect)",
      right: "operator:read",
      answers: plain("The configuration.", z.record(z.string(), anything)),
    },
    "GET /operator/autopilot/health": {
      id: "readAutopilotHealth",
      summary: "Read the health of servers (this service)",
      right: "operator:read",
      answers: plain(
        "The health.",
        z.object({
          Healthy: z.boolean(),
          FailureTolerance: z.int(),
          Leader: z.string(),
          Voters: z.array(z.string()),
          Servers: z.array(
            z.object({
              ...server,
              SerfStatus: z.string(),
              LastContact: z.string(),
              LastTerm: z.int(),
              LastIndex: z.int(),
              Healthy: z.boolean(),
              StableSince: z.string(),
            }),
          ),
        }),
      ),
    },
    "GET /operator/scheduler/configuration": {
      id: "readSchedulerConfiguration",
      summary: "Read the scheduler configuration (no scheduler)",
      right: "operator:read",
      answers: plain("The configuration.", z.looseObject({ SchedulerConfig: z.record(z.string(), anything) })),
    },
    "POST /system/gc": { id: "collectGarbage", summary: "Collect garbage (no-op)", method: "put" },
    "POST /system/reconcile/summaries": {
      id: "reconcileSummaries",
      summary: "Reconcile job summaries (no-op)",
      method: "put",
    },
    "POST /search": {
      id: "search",
      summary: "Search objects by id prefix",
      description: "At most 20 of each context. Contexts without a right are left out; 403 when none is left.",
      right: "a right to list any of the contexts",
      query: namespaces,
      body: { fields: { Prefix: "The beginning of an id.", Context: "Where to search; `all` by default." } },
      answers: bare(
        "Ids by context.",
        z.object({
          Matches: z.partialRecord(z.enum(CONTEXTS), z.array(z.string())),
          Truncations: truncations(CONTEXTS),
          ...found,
        }),
      ),
    },
    "POST /search/fuzzy": {
      id: "searchFuzzy",
      summary: "Search objects by name (fuzzy)",
      description:
        "At most 20 of each context, among the first 2,000 objects. Evaluations and deployments match by the prefix of their id.",
      right: "a right to list any of the contexts",
      query: namespaces,
      body: { fields: { Text: "At least 2 characters.", Context: "Where to search; `all` by default." } },
      answers: bare(
        "Names by context, each with the place of its object.",
        z.object({
          Matches: z.partialRecord(
            z.enum(FUZZY_CONTEXTS),
            z.array(z.object({ ID: z.string(), Scope: z.array(z.string()).optional() })),
          ),
          Truncations: truncations(FUZZY_CONTEXTS),
          ...found,
        }),
      ),
    },
  },
);
