import type { NodePool } from "../cluster/nodes/node-pools.ts";
import { allowsNode, allowsNodePool } from "../contracts/cluster-rights.ts";
import { clusterRegistry } from "../contracts/stubs.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { parseLossless } from "../lib/json.ts";
import { notFound } from "../platform/http/errors.ts";
import { nodesChanged, readNodes } from "./nodes.ts";
import { blocking, nothing, type Reading } from "./server/blocking.ts";
import { type Listing, readList } from "./server/listing.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

const nameOf = (call: AuthorisedCall): string => call.params["name"] ?? "";

const mayRead = (call: AuthorisedCall, name: string): boolean => allowsNodePool(call.grant.cluster, name, "read");

const poolsChanged = (call: AuthorisedCall) => (since: number, waitMs: number) =>
  clusterRegistry(call.env).changed(["NodePool"], since, waitMs);

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

/** Node pools that the caller may read. */
function readPools(call: AuthorisedCall): Promise<Reading> {
  const prefix = call.query.get("prefix") ?? "";
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

async function readPool(call: AuthorisedCall): Promise<Reading> {
  const found = await clusterRegistry(call.env).readNodePool(nameOf(call));
  if (found === null) return nothing("node pool not found");
  const pool = parseLossless(found) as NodePool;
  return { index: pool.ModifyIndex, respond: () => clusterJson(call, pool, { index: pool.ModifyIndex }) };
}

/** Nodes of a pool; `all` contains every node. */
async function readPoolNodes(call: AuthorisedCall): Promise<Reading> {
  const name = nameOf(call);
  if ((await clusterRegistry(call.env).readNodePool(name)) === null) throw notFound("node pool not found");
  return readNodes(call, name === "all" ? {} : { pool: name });
}

export const nodePoolRoutes = [
  cluster({
    verb: "GET",
    path: "/node/pools",
    rights: "any",
    handle: (call) => blocking(call, () => readPools(call), poolsChanged(call)),
  }),
  cluster({
    verb: "GET",
    path: "/node/pool/:name",
    rights: (_rights, call) => mayRead(call, nameOf(call)),
    handle: (call) => blocking(call, () => readPool(call), poolsChanged(call)),
  }),
  cluster({
    verb: "GET",
    path: "/node/pool/:name/nodes",
    rights: (rights, call) => allowsNode(rights, "read") && mayRead(call, nameOf(call)),
    handle: (call) => blocking(call, () => readPoolNodes(call), nodesChanged(call)),
  }),
];
