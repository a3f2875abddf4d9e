import { ack, cancel, done, fp, hello, req, res, SUBPROTOCOL, welcome } from "@sallyport/agent-protocol";
import * as z from "zod";
import { Agent, JoinToken } from "../../wire/agent.ts";
import { Drivers, HostVolumes, LastDrain, Node, NodeResources, ReservedResources } from "../../wire/node.ts";
import { ELIGIBILITIES, STATUSES } from "../../wire/node-words.ts";
import { createdAndModified, index, texts } from "../../wire/shapes.ts";
import { bare, group, type Operation, type QueryParameters, required, word } from "../operation.ts";
import { filter, list, namespaces, page, prefix, reverse, waiting } from "../parameters.ts";
import { JobStub } from "./reported.ts";

const open = z.record(z.string(), z.unknown());

const NodeStub = z
  .object({
    Address: z.string(),
    Attributes: texts.optional().describe("With `os=true`: the operating system's name."),
    Datacenter: z.string(),
    Drain: z.boolean(),
    Drivers,
    HostVolumes: HostVolumes.nullable(),
    ID: z.string(),
    LastDrain: LastDrain.nullable(),
    Name: z.string(),
    NodeClass: z.string(),
    NodePool: z.string(),
    NodeResources: NodeResources.optional().describe("With `resources=true` only."),
    ReservedResources: ReservedResources.optional(),
    SchedulingEligibility: z.enum(ELIGIBILITIES),
    Status: z.enum(STATUSES),
    StatusDescription: z.string(),
    Version: z.string(),
    ...createdAndModified,
  })
  .meta({ id: "NodeStub", description: "List view of a node." });

const Pool = z
  .looseObject({
    Name: z.string(),
    Description: z.string(),
    Hash: z.string(),
    Meta: texts.nullable(),
    NodeIdentityTTL: z.int().describe("Nanoseconds."),
    SchedulerConfiguration: open.nullable(),
    ...createdAndModified,
  })
  .meta({ id: "NodePool" });

const poolFields = {
  Name: "At most 128 letters, digits, `-` and `_`.",
  Description: "At most 256 characters.",
  Meta: "Texts by name.",
  NodeIdentityTTL: "A duration such as `24h`, or nanoseconds. Kept and shown.",
  SchedulerConfiguration: {
    type: ["object", "null"],
    description: "Kept and shown.",
    properties: {
      SchedulerAlgorithm: { type: "string", enum: ["", "binpack", "spread"] },
      MemoryOversubscriptionEnabled: { type: ["boolean", "null"] },
    },
  },
};

const Written = z
  .object({
    EvalCreateIndex: z.literal(0),
    EvalIDs: z.array(z.string()).length(0),
    Index: index,
    NodeModifyIndex: index,
  })
  .meta({ id: "NodeWritten", description: "Never contains evaluations, because the service has no scheduler." });

const hex = "hexadecimal digits, an even number of them";
const nodeList: QueryParameters = {
  prefix: `Only ids that begin with these bytes: ${hex}.`,
  os: "Shows the operating system.",
  resources: "Shows resources.",
  ...list,
};
const [READ, WRITE] = ["node:read", "node:write"];
const changes = (id: string, summary: string, more: Partial<Operation> = {}): Operation => ({
  id,
  summary,
  right: WRITE,
  method: "put",
  answers: bare("The node's new index.", Written),
  errors: [409],
  ...more,
});

export const nodes = group(
  "Nodes",
  { id: "The node's id.", name: "The pool's name.", node: "The node's id.", accessor: "The token's accessor." },
  {
    "GET /nodes": {
      id: "listNodes",
      summary: "List nodes",
      right: READ,
      query: nodeList,
      answers: bare("The nodes.", z.array(NodeStub)),
    },
    "GET /node/:id": {
      id: "readNode",
      summary: "Read a node",
      right: READ,
      query: waiting,
      answers: bare("The node.", Node),
    },
    "POST /node/:id/drain": changes("drainNode", "Start or cancel a drain of a node", {
      body: {
        fields: {
          NodeID: "As in the path.",
          DrainSpec: {
            type: ["object", "null"],
            description: "Settings of the drain; null cancels a drain.",
            properties: {
              Deadline: { type: "integer", description: "Nanoseconds; 0 is none, negative is immediate." },
              IgnoreSystemJobs: { type: "boolean" },
            },
          },
          MarkEligible: "Whether the node takes work again; only with a request that ends a drain.",
          Meta: "Kept with the drain.",
        },
      },
    }),
    "POST /node/:id/eligibility": changes("setNodeEligibility", "Set a node's scheduling eligibility", {
      body: {
        fields: { NodeID: "As in the path.", Eligibility: { type: "string", enum: [...ELIGIBILITIES] } },
        required: ["Eligibility"],
      },
    }),
    "POST /node/:id/purge": changes("purgeNode", "Remove a node", {
      query: { force: "Removes the node even if it is connected or in use." },
    }),
    "POST /node/:id/evaluate": changes("evaluateNode", "Evaluate a node (no-op)"),
    "GET /node/pools": {
      id: "listNodePools",
      summary: "List node pools",
      right: "node_pool:read, for each",
      query: { ...prefix, ...page, ...filter, ...waiting },
      answers: bare("The pools.", z.array(Pool)),
    },
    "GET /node/pool/:name": {
      id: "readNodePool",
      summary: "Read a node pool",
      right: "node_pool:read",
      query: waiting,
      answers: bare("The pool.", Pool),
    },
    "GET /node/pool/:name/nodes": {
      id: "listNodesOfPool",
      summary: "List the nodes of a pool",
      right: "node:read and node_pool:read",
      query: nodeList,
      answers: bare("The nodes.", z.array(NodeStub)),
    },
    "GET /node/pool/:name/jobs": {
      id: "listJobsOfPool",
      summary: "List the jobs of a pool",
      right: "node_pool:read and namespace:list-jobs",
      query: { ...namespaces, ...prefix, ...list },
      answers: bare("The jobs.", z.array(JobStub)),
    },
    "POST /node/pools": {
      id: "writeNodePool",
      summary: "Create or change a node pool",
      right: "node_pool:write",
      body: { fields: poolFields, required: ["Name"] },
    },
    "POST /node/pool/:name": {
      id: "writeNamedNodePool",
      summary: "Create or change a node pool by path",
      right: "node_pool:write",
      body: { fields: { ...poolFields, Name: "As in the path." } },
    },
    "DELETE /node/pool/:name": {
      id: "deleteNodePool",
      summary: "Delete a node pool without nodes and running jobs",
      right: "node_pool:delete",
      errors: [409],
    },
    "POST /agent/tokens": {
      id: "createJoinToken",
      summary: "Create a join token",
      right: WRITE,
      body: {
        fields: {
          Name: "The one name that the node may have; empty is any.",
          TTL: "Its lifetime; default and maximum one hour.",
        },
      },
      answers: bare("The token; its secret is returned only here.", JoinToken.extend({ Token: z.string() })),
    },
    "GET /agent/tokens": {
      id: "listJoinTokens",
      summary: "List join tokens",
      right: WRITE,
      query: { ...page, ...reverse },
      answers: bare("The tokens.", z.array(JoinToken)),
    },
    "DELETE /agent/token/:accessor": {
      id: "deleteJoinToken",
      summary: "Delete a join token",
      right: WRITE,
    },
    "POST /agent/join": {
      id: "joinAgent",
      summary: "Enrol an agent",
      body: { fields: { Token: "The join token.", PublicKey: "Ed25519, raw, in base64.", Name: "The node's name." } },
      answers: bare("The node's id and the service's id.", z.object({ NodeID: z.string(), Service: z.string() })),
      errors: [403, 409],
    },
    "GET /agent/connect": {
      id: "connectAgent",
      summary: "Connect an agent (WebSocket)",
      description:
        "`Authorization: Bearer` carries a token that the agent signs with its key (docs/guides/agent.md). Messages are JSON, one each; their schemas are in `x-sallyport-frames`.",
      headers: {
        Upgrade: required(word("Requests a WebSocket.", "websocket")),
        "Sec-WebSocket-Protocol": required(word("The agent's protocol.", SUBPROTOCOL)),
      },
      answers: {
        101: {
          kind: "socket",
          description: "The connection is open.",
          protocol: SUBPROTOCOL,
          sends: z.union([welcome, req, done, cancel]),
          takes: z.union([hello, ack, res, fp]),
        },
      },
      errors: [401, 426],
    },
    "GET /agents": {
      id: "listAgents",
      summary: "List agents",
      right: READ,
      query: { ...page, ...reverse },
      answers: bare("The agents.", z.array(Agent)),
    },
    "GET /agent/:node": {
      id: "readAgent",
      summary: "Read an agent",
      right: READ,
      answers: bare(
        "The agent.",
        z.object({ ...Agent.shape, Operations: z.object({ InFlight: z.int(), Queued: z.int() }) }),
      ),
    },
    "DELETE /agent/:node": {
      id: "removeAgent",
      summary: "Remove an agent",
      right: WRITE,
    },
  },
);
