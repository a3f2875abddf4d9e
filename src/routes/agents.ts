import { CLOSE, joinRequest, SUBPROTOCOL } from "@sallyport/agent-protocol";
import * as z from "zod";
import { POOL_NAME } from "../cluster/nodes/fields.ts";
import type { ClusterRights } from "../contracts/cluster-rights.ts";
import type { ConnectRequest } from "../contracts/node-session.ts";
import type { Page, PageQuery } from "../contracts/rows.ts";
import { readConnectToken, verifyConnectToken } from "../node-agents/connect-token.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { badRequest, notFound, RequestError, unwrap } from "../platform/http/errors.ts";
import { asDuration, caseless, duration } from "../platform/http/fields.ts";
import { unmatched } from "../platform/http/methods.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { allowsNode } from "../rights/cluster-rights.ts";
import { accessControl, clusterRegistry, nodeSession } from "../rpc/stubs.ts";
import { verbsOfReserved } from "./agent-self.ts";
import { type Listing, list } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, type Call, cluster, open } from "./server/route.ts";

/** Node agents: enrolment, connections and permissions (docs/guides/agent.md). */

const MAX_TTL = 3_600;

const NewToken = caseless(
  z.object({
    NodePool: z
      .string()
      .regex(POOL_NAME, "NodePool: must be 1 to 128 letters, digits, - or _")
      .refine((pool) => pool !== "all", 'NodePool: no node can be in the pool "all" alone')
      .default("default"),
    Name: z.string().max(128).default(""),
    TTL: asDuration(
      duration().refine((seconds) => seconds >= 1 && seconds <= MAX_TTL, "must be from 1s to 1h"),
    ).default(MAX_TTL),
  }),
);

const reads = (rights: ClusterRights): boolean => allowsNode(rights, "read");
const writes = (rights: ClusterRights): boolean => allowsNode(rights, "write");

async function createToken(call: AuthorisedCall, { NodePool, Name, TTL }: z.output<typeof NewToken>) {
  const wanted = { pool: NodePool, name: Name === "" ? null : Name, ttlSeconds: TTL };
  const { secret, token } = await clusterRegistry(call.env).createJoinToken(wanted);
  recordAction("join-token-created", { accessor: token.AccessorID, pool: NodePool, by: call.grant.identity.accessor });
  return clusterJson(call, { ...token, Token: secret });
}

/** Reads one of the registry's lists. */
const listing = <Row>(page: (cut: PageQuery) => Promise<Page<Row>>, token: (row: Row) => string): Listing<Row> => ({
  fetch: async (from, limit, reverse) => ({ ...(await page({ from, limit, reverse })), index: 1 }),
  token,
  stub: (row) => row,
});

/** The node in the path. @throws RequestError 404 or 405 for a reserved word */
function nodeOf(call: AuthorisedCall<"node">): string {
  const node = call.params.node;
  const verbs = verbsOfReserved(node);
  if (verbs) throw unmatched("cluster", "", verbs);
  return node;
}

async function readAgent(call: AuthorisedCall<"node">): Promise<Response> {
  const id = nodeOf(call);
  const agent = await clusterRegistry(call.env).agent(id);
  if (!agent) throw notFound("agent not found");
  const { seen, inFlight, queued } = await nodeSession(call.env, id).state();
  const LastSeen = seen === null ? null : new Date(seen).toISOString();
  return clusterJson(call, { ...agent, LastSeen, Operations: { InFlight: inFlight, Queued: queued } });
}

/**
 * An authentication failure in a form that agents parse; it contains the server time, so that agents can correct their
 * clock.
 */
const unauthorized = (message: string): RequestError =>
  new RequestError(401, message, { "WWW-Authenticate": "Bearer", Date: new Date().toUTCString() });

async function connect({ env, request: { headers } }: Call): Promise<Response> {
  if (headers.get("Upgrade")?.toLowerCase() !== "websocket")
    throw new RequestError(426, "Upgrade: must be websocket", { Upgrade: "websocket" });
  const protocols = (headers.get("Sec-WebSocket-Protocol") ?? "").split(",").map((each) => each.trim());
  if (!protocols.includes(SUBPROTOCOL)) throw badRequest(`Sec-WebSocket-Protocol: must offer ${SUBPROTOCOL}`);
  const token = readConnectToken(headers.get("Authorization"));
  if (!token.ok) throw unauthorized(token.message);
  const { nodeId, jti, issued } = token.value;
  const identity = await clusterRegistry(env).agentIdentity(nodeId);
  // The key is unknown: only a close code stops the agent from reconnecting.
  if (!identity) return removed();
  const proven = await verifyConnectToken(token.value, identity, Date.now());
  if (!proven.ok) throw unauthorized(proven.message);
  const asked: ConnectRequest = { jti, issued, pool: identity.pool, boundName: identity.boundName };
  const url = `https://node-session/?${new URLSearchParams({ asked: JSON.stringify(asked) })}`;
  const opened = await objectStub(env, env.NODE_SESSION, nodeId).fetch(url, { headers: { Upgrade: "websocket" } });
  if (opened.status === 401) throw unauthorized(await opened.text());
  if (opened.status === 101) return opened;
  throw new RequestError(opened.status, await opened.text(), {
    "Retry-After": opened.headers.get("Retry-After") ?? "1",
  });
}

const upgraded = (webSocket: WebSocket): Response =>
  new Response(null, { status: 101, webSocket, headers: { "Sec-WebSocket-Protocol": SUBPROTOCOL } });

function removed(): Response {
  const { 0: client, 1: socket } = new WebSocketPair();
  socket.accept();
  socket.close(CLOSE.revoked, "this service knows no agent of that node: it was removed, or never joined here");
  return upgraded(client);
}

export const agentRoutes = [
  cluster("POST /agent/tokens", { rights: writes, fresh: true, body: NewToken }, createToken),
  cluster("GET /agent/tokens", { rights: writes, fresh: true }, (call) =>
    list(
      call,
      listing(
        (cut) => clusterRegistry(call.env).joinTokens(cut),
        ({ AccessorID }) => AccessorID,
      ),
    ),
  ),
  cluster("DELETE /agent/token/:accessor", { rights: writes, fresh: true }, async (call) => {
    unwrap(await clusterRegistry(call.env).deleteJoinToken(call.params.accessor));
    return clusterEmpty();
  }),
  open(
    "POST /agent/join",
    {
      // Agents may be newer than the service.
      body: joinRequest.loose(),
    },
    async (call, request) => {
      // Identifies the deployment, independent of the address used.
      const { clusterId } = await accessControl(call.env).status();
      const node = unwrap(await clusterRegistry(call.env).joinAgent(request, clusterId));
      recordAction("agent-joined", { node });
      return clusterJson(call, { NodeID: node, Service: clusterId });
    },
  ),
  open("GET /agent/connect", connect),
  cluster("GET /agents", { rights: reads }, (call) =>
    list(
      call,
      listing(
        (cut) => clusterRegistry(call.env).agents(cut),
        ({ NodeID }) => NodeID,
      ),
    ),
  ),
  cluster("GET /agent/:node", { rights: reads }, readAgent),
  cluster("DELETE /agent/:node", { rights: writes, fresh: true }, async (call) => {
    const node = nodeOf(call);
    const { index } = unwrap(await clusterRegistry(call.env).removeAgent(node));
    recordAction("agent-removed", { node, by: call.grant.identity.accessor });
    return clusterEmpty({ index });
  }),
];
