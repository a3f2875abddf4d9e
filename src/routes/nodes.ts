import * as z from "zod";
import { nodeFields } from "../cluster/nodes/filter-fields.ts";
import { HEX_PREFIX_RULE, hexRange } from "../cluster/reports/hex-prefix.ts";
import { LEGACY_NODE_FIELDS, nodeVersion } from "../compat/node-names.ts";
import type { Node, NodeQuery } from "../contracts/node.ts";
import type { Written } from "../contracts/rows.ts";
import { parseLossless } from "../lib/json.ts";
import type { Result } from "../lib/result.ts";
import { badRequest, notFound, sentence, unwrap } from "../platform/http/errors.ts";
import { caseless } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNode } from "../rights/cluster-rights.ts";
import { clusterRegistry, nodeSession } from "../rpc/stubs.ts";
import { ELIGIBILITIES } from "../wire/node-words.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import { blockingRead, ForceQuery } from "./server/cluster-reads.ts";
import { type Listing, readList } from "./server/listing.ts";
import { clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, type ClusterRoute, cluster } from "./server/route.ts";

/** Nodes (https://developer.hashicorp.com/nomad/api-docs/nodes). */

const idOf = (call: AuthorisedCall<"id">): string => call.params.id.toLowerCase();

/** A node as returned by reads. */
type ShownNode = Node & { readonly CreateIndex: number; readonly ModifyIndex: number };

const fieldFlag = (field: string) =>
  query.goFlag(sentence(`Failed to parse node list fields: ${field}: must be true or false`));

export const NodesQuery = z.object({ prefix: query.text(), os: fieldFlag("os"), resources: fieldFlag("resources") });

/** A list of nodes. @throws RequestError 400 with the parameter */
export function readNodes(
  call: AuthorisedCall & Asked<typeof NodesQuery>,
  only: Pick<NodeQuery, "pool"> = {},
): Promise<Reading> {
  const { prefix, os, resources } = call.asked;
  const range = hexRange(prefix);
  if (!range) throw badRequest(`prefix: ${HEX_PREFIX_RULE}`);
  const listing: Listing<ShownNode> = {
    fetch: async (from, limit, reverse) => {
      const page = await clusterRegistry(call.env).nodes({ ...only, from, limit, reverse, range });
      return { ...page, rows: page.rows.map(({ body }) => parseLossless(body) as ShownNode) };
    },
    token: ({ ID }) => ID,
    stub: (node) => stubOf(node, call.dialect, os, resources),
    fields: nodeFields,
  };
  return readList(call, listing);
}

const stubOf = (node: ShownNode, dialect: AuthorisedCall["dialect"], os: boolean, resources: boolean) => ({
  Address: hostOf(node.HTTPAddr),
  ...(os && { Attributes: { "os.name": node.Attributes["os.name"] ?? "" } }),
  CreateIndex: node.CreateIndex,
  Datacenter: node.Datacenter,
  Drain: node.Drain,
  Drivers: node.Drivers,
  HostVolumes: node.HostVolumes,
  ID: node.ID,
  LastDrain: node.LastDrain,
  ModifyIndex: node.ModifyIndex,
  Name: node.Name,
  NodeClass: node.NodeClass,
  NodePool: node.NodePool,
  ...(resources && { NodeResources: node.NodeResources, ReservedResources: node.ReservedResources }),
  SchedulingEligibility: node.SchedulingEligibility,
  Status: node.Status,
  StatusDescription: node.StatusDescription,
  Version: nodeVersion(node.Attributes, dialect),
});

/** The host of `host:port`; IPv6 addresses are in brackets there. */
const hostOf = (address: string): string => address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");

async function readNode(call: AuthorisedCall<"id">): Promise<Reading> {
  const found = await clusterRegistry(call.env).readNode(idOf(call));
  if (!found) return nothing("node not found");
  const node = parseLossless(found.body) as Record<string, unknown>;
  if (call.dialect === "upstream") for (const field of LEGACY_NODE_FIELDS) delete node[field];
  return { index: found.modifyIndex, respond: () => clusterJson(call, node, { index: found.modifyIndex }) };
}

/** Answer of every node write. Without a scheduler, no evaluations are created. */
function written(call: AuthorisedCall, result: Result<Written>): Response {
  const { index } = unwrap(result);
  const body = { EvalCreateIndex: 0, EvalIDs: [], Index: index ?? 0, NodeModifyIndex: index ?? 0 };
  return clusterJson(call, body, { index });
}

/** A body may repeat the node's id, which must equal the path's. */
const NodeID = z.string().optional();

function checkId(call: AuthorisedCall<"id">, { NodeID: given }: { readonly NodeID?: string | undefined }): void {
  if (given && given.toLowerCase() !== idOf(call)) throw badRequest("NodeID: does not match the request path");
}

const MAX_INT64 = 2n ** 63n - 1n;

/** Nanoseconds as decimal text; numbers beyond 2^53 keep all digits. */
const nanoseconds = z.unknown().transform((value, context) => {
  const text = isRaw(value) ? value.rawJSON : typeof value === "number" ? String(value) : value === null ? "0" : "";
  if (/^-?\d{1,19}$/.test(text) && BigInt(text) <= MAX_INT64 && BigInt(text) >= -MAX_INT64) return text;
  context.addIssue({ code: "custom", message: "must be an integer: nanoseconds, 0 for none, negative for at once" });
  return z.NEVER;
});

const isRaw = (value: unknown): value is { readonly rawJSON: string } =>
  typeof value === "object" && value !== null && "rawJSON" in value && typeof value.rawJSON === "string";

const DrainBody = caseless(
  z.object({
    NodeID,
    DrainSpec: caseless(
      z.object({ Deadline: nanoseconds.default("0"), IgnoreSystemJobs: z.boolean().nullish() }),
    ).nullish(),
    MarkEligible: z.boolean().default(false),
    Meta: z.record(z.string().max(256), z.string().max(4096)).optional(),
  }),
);

async function drain(call: AuthorisedCall<"id">, body: z.output<typeof DrainBody>): Promise<Response> {
  checkId(call, body);
  const note = { accessor: call.grant.identity.accessor, meta: body.Meta ?? null };
  const registry = clusterRegistry(call.env);
  const spec = body.DrainSpec;
  if (!spec) return written(call, await registry.stopDraining(idOf(call), body.MarkEligible, note));
  const terms = { deadline: spec.Deadline, ignoreSystemJobs: spec.IgnoreSystemJobs ?? false };
  return written(call, await registry.drainNode(idOf(call), terms, note));
}

const EligibilityBody = caseless(z.object({ NodeID, Eligibility: z.string().default("") }));

async function setEligibility(call: AuthorisedCall<"id">, body: z.output<typeof EligibilityBody>): Promise<Response> {
  checkId(call, body);
  const wanted = ELIGIBILITIES.find((each) => each === body.Eligibility);
  if (!wanted) throw badRequest(`invalid scheduling eligibility ${JSON.stringify(body.Eligibility.slice(0, 64))}`);
  return written(call, await clusterRegistry(call.env).setNodeEligibility(idOf(call), wanted));
}

async function purge(call: AuthorisedCall<"id"> & Asked<typeof ForceQuery>): Promise<Response> {
  const { force: forced } = call.asked;
  const result = await clusterRegistry(call.env).purgeNode(idOf(call), forced);
  const answer = written(call, result);
  // If this fails, the agent's next message restores the node.
  if (forced)
    call.exec.waitUntil(
      nodeSession(call.env, idOf(call))
        .purged()
        .catch(() => undefined),
    );
  return answer;
}

async function evaluate(call: AuthorisedCall<"id">): Promise<Response> {
  const found = await clusterRegistry(call.env).readNode(idOf(call));
  if (!found) throw notFound("node not found");
  return written(call, { ok: true, value: { index: found.modifyIndex } });
}

const READ: ClusterRoute["rights"] = (rights) => allowsNode(rights, "read");
const WRITE: ClusterRoute["rights"] = (rights) => allowsNode(rights, "write");

export const nodeRoutes = [
  cluster("GET /nodes", { rights: READ, query: NodesQuery }, blockingRead(["Node"], readNodes)),
  cluster("GET /node/:id", { rights: READ }, blockingRead(["Node"], readNode)),
  cluster("POST /node/:id/drain", { rights: WRITE, fresh: true, body: DrainBody, exact: true }, drain),
  cluster("POST /node/:id/eligibility", { rights: WRITE, fresh: true, body: EligibilityBody }, setEligibility),
  cluster("POST /node/:id/purge", { rights: WRITE, fresh: true, query: ForceQuery }, purge),
  cluster("POST /node/:id/evaluate", { rights: WRITE }, evaluate),
];
