import * as z from "zod";
import type { NodePool } from "../cluster/nodes/node-pools.ts";
import { jobSummary } from "../cluster/reports/job-shapes.ts";
import { jobStub } from "../cluster/reports/list-views.ts";
import { textOf } from "../cluster/reports/topics/topic.ts";
import type { Written } from "../contracts/rows.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { parseGoDuration } from "../lib/go-duration.ts";
import { parseLossless } from "../lib/json.ts";
import type { Result } from "../lib/result.ts";
import { badRequest, denied, notFound, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNode, allowsNodePool } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { NodesQuery, readNodes } from "./nodes.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import { blockingRead, listReported, mayList } from "./server/cluster-reads.ts";
import { type Listing, readList } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

const nameOf = (call: AuthorisedCall<"name">): string => call.params.name;

const mayRead = (call: AuthorisedCall, name: string): boolean => allowsNodePool(call.grant.cluster, name, "read");

const poolFields = kind.record<NodePool>({
  Name: kind.string,
  Description: kind.string,
  Meta: kind.map(kind.string),
  NodeIdentityTTL: kind.integer,
  SchedulerConfiguration: kind.struct({
    MemoryOversubscriptionEnabled: kind.boolean,
    SchedulerAlgorithm: kind.string,
  }),
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

const PoolsQuery = z.object({ prefix: query.text() });

/** Node pools that the caller may read. */
function readPools(call: AuthorisedCall & Asked<typeof PoolsQuery>): Promise<Reading> {
  const { prefix } = call.asked;
  const listing: Listing<NodePool> = {
    fetch: async (from, limit) => {
      const page = await clusterRegistry(call.env).nodePools({ from, limit, prefix });
      return { ...page, rows: page.rows.map((text) => parseLossless(text) as NodePool) };
    },
    token: ({ Name }) => Name,
    stub: (pool) => pool,
    fields: poolFields,
    visible: ({ Name }) => mayRead(call, Name),
  };
  return readList(call, listing);
}

async function readPool(call: AuthorisedCall<"name">): Promise<Reading> {
  const found = await clusterRegistry(call.env).readNodePool(nameOf(call));
  if (found === null) return nothing("node pool not found");
  const pool = parseLossless(found) as NodePool;
  return { index: pool.ModifyIndex, respond: () => clusterJson(call, pool, { index: pool.ModifyIndex }) };
}

/** Nodes of a pool; `all` contains every node. */
async function readPoolNodes(call: AuthorisedCall<"name"> & Asked<typeof NodesQuery>): Promise<Reading> {
  const name = nameOf(call);
  if ((await clusterRegistry(call.env).readNodePool(name)) === null) throw notFound("node pool not found");
  return readNodes(call, name === "all" ? {} : { pool: name });
}

/** Jobs of a pool in the requested namespaces. */
const listJobs = (call: AuthorisedCall<"name">): Promise<Response> =>
  listReported(call, {
    topic: "Job",
    right: "list-jobs",
    wanted: (job) => (textOf(job, "NodePool") || "default") === nameOf(call),
    stub: (job, counts) => jobStub(job, jobSummary(job, counts), false),
  });

const MAX_DESCRIPTION = 256;
const MAX_META = 16 * 1024;
const NS_PER_MS = 1_000_000;
const MAX_INT64 = 2 ** 63 - 1;

/** A duration as nanoseconds, or as text like `24h`. */
const identityTtl = z
  .union([z.number(), z.string()], "must be a duration")
  .transform((value, context) => {
    const ms = value === "" ? 0 : typeof value === "string" ? parseGoDuration(value) : value / NS_PER_MS;
    const ns = ms === null ? -1 : Math.round(ms * NS_PER_MS);
    if (ns >= 0 && ns < MAX_INT64) return ns;
    context.addIssue({ code: "custom", message: "must be a duration" });
    return z.NEVER;
  })
  .default(0);

const PoolBody = caseless(
  z.object({
    Name: z.string().optional(),
    Description: z.string().max(MAX_DESCRIPTION).default(""),
    Meta: z
      .record(z.string(), z.string())
      .refine((meta) => JSON.stringify(meta).length <= MAX_META, `at most ${MAX_META} characters in all`)
      .nullish(),
    NodeIdentityTTL: identityTtl,
    SchedulerConfiguration: caseless(
      z.object({
        SchedulerAlgorithm: z.enum(["", "binpack", "spread"], "must be binpack or spread").default(""),
        MemoryOversubscriptionEnabled: z.boolean().nullish(),
      }),
    ).nullish(),
    ...echoed("Hash", "CreateIndex", "ModifyIndex"),
  }),
);

/** Upstream's rule for names of pools. */
const POOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;

async function put(call: AuthorisedCall<never, "name">, body: z.output<typeof PoolBody>): Promise<Response> {
  const Name = call.params.name ?? body.Name ?? "";
  if (!allowsNodePool(call.grant.cluster, Name, "write")) throw denied();
  if (body.Name !== undefined && body.Name !== Name) throw badRequest("Name: must be the name in the path");
  if (!POOL_NAME.test(Name)) throw badRequest(`Name: must match ${POOL_NAME.source}`);
  const { SchedulerConfiguration: scheduler } = body;
  const pool = {
    Name,
    Description: body.Description,
    Meta: body.Meta ?? null,
    NodeIdentityTTL: body.NodeIdentityTTL,
    SchedulerConfiguration: scheduler
      ? { ...scheduler, MemoryOversubscriptionEnabled: scheduler.MemoryOversubscriptionEnabled ?? null }
      : null,
  };
  return written(await clusterRegistry(call.env).putNodePool(pool));
}

const written = (result: Result<Written>): Response => clusterEmpty({ index: unwrap(result).index ?? 0 });

export const nodePoolRoutes = [
  cluster("GET /node/pools", { rights: "any", query: PoolsQuery }, blockingRead(["NodePool"], readPools)),
  cluster(
    "GET /node/pool/:name",
    { rights: (_rights, call) => mayRead(call, nameOf(call)) },
    blockingRead(["NodePool"], readPool),
  ),
  cluster(
    "GET /node/pool/:name/nodes",
    { rights: (rights, call) => allowsNode(rights, "read") && mayRead(call, nameOf(call)), query: NodesQuery },
    blockingRead(["Node"], readPoolNodes),
  ),
  cluster(
    "GET /node/pool/:name/jobs",
    { rights: (rights, call) => mayRead(call, nameOf(call)) && mayList("list-jobs")(rights, call) },
    async (call) => {
      if ((await clusterRegistry(call.env).readNodePool(nameOf(call))) === null) throw notFound("node pool not found");
      return listJobs(call);
    },
  ),
  // The name is in the body: the handler authorizes.
  cluster("POST /node/pools", { rights: "any", fresh: true, body: PoolBody }, put),
  cluster(
    "POST /node/pool/:name",
    { rights: (rights, call) => allowsNodePool(rights, nameOf(call), "write"), fresh: true, body: PoolBody },
    put,
  ),
  cluster(
    "DELETE /node/pool/:name",
    { rights: (rights, call) => allowsNodePool(rights, nameOf(call), "delete"), fresh: true },
    async (call) => written(await clusterRegistry(call.env).deleteNodePool(nameOf(call))),
  ),
];
