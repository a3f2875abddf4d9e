import { leaderOf, members, type Reached, self } from "../compat/orchestrator.ts";
import type { ClusterRights } from "../contracts/cluster-rights.ts";
import type { Verb } from "../platform/http/target.ts";
import { RELEASE } from "../platform/version.ts";
import { allowsAgent, allowsNode } from "../rights/cluster-rights.ts";
import { eventLog } from "../rpc/stubs.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, type Call, type ClusterRoute, cluster, open } from "./server/route.ts";
import { refuses } from "./server/unsent.ts";

/**
 * Requests that upstream clients send to their agent, including regions and the leader: here the service itself
 * answers.
 */

const REGION = "global";
const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 };

/** The single server: the one that received the request. */
export function reached({ request }: Pick<Call, "request">): Reached {
  const { hostname, port, protocol } = new URL(request.url);
  return {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? (DEFAULT_PORTS[protocol] ?? 443) : Number(port),
  };
}

const reads = (rights: ClusterRights): boolean => allowsAgent(rights, "read");

/** A route that shows what the service is. */
export const read = (
  path: string,
  rights: ClusterRoute["rights"],
  answer: (call: AuthorisedCall) => unknown,
): ClusterRoute => cluster(`GET ${path}`, { rights }, async (call) => clusterJson(call, await answer(call)));

/** Agent operations that do not apply to a service without its own servers. */
const refused = (verb: "GET" | "POST", path: string, because: string): ClusterRoute =>
  cluster(
    `${verb} ${path}`,
    { refuses: true, rights: (rights) => allowsAgent(rights, verb === "GET" ? "read" : "write") },
    refuses(400, because),
  );

/** Words of agent paths that upstream has and this service has not. */
const ABSENT: ReadonlySet<string> = new Set("host keyring pprof".split(" "));

/** Words in the place of a node's id in agent paths, which have routes of their own. */
const RESERVED: ReadonlySet<string> = new Set(
  "self members servers schedulers monitor join force-leave reload health connect tokens token".split(" "),
);

/** The verbs of a reserved word in the place of a node's id; undefined for a node. */
export const verbsOfReserved = (node: string): readonly Verb[] | undefined =>
  RESERVED.has(node) ? ["POST"] : ABSENT.has(node) ? [] : undefined;

export const agentSelfRoutes = [
  read("/agent/self", reads, async (call) => self(reached(call), RELEASE, await eventLog(call.env).newest())),
  read(
    "/agent/members",
    (rights) => allowsNode(rights, "read"),
    (call) => members(reached(call)),
  ),
  read("/agent/servers", reads, (call) => [leaderOf(reached(call))]),
  read("/agent/schedulers", reads, () => ({ server_id: "sallyport.global", schedulers: [] })),
  read("/agent/schedulers/config", reads, () => ({ num_schedulers: 0, enabled_schedulers: [] })),
  refused(
    "GET",
    "/agent/monitor",
    "monitor: the service's log is its operator's; see the event stream at /v1/event/stream",
  ),
  refused("POST", "/agent/force-leave", "force-leave: there are no servers that could leave"),
  refused("POST", "/agent/reload", "reload: settings belong to the deployment, and take effect when it is deployed"),
  refused("POST", "/agent/servers", "servers: the list of servers cannot be changed"),
  open("GET /status/leader", async (call) => clusterJson(call, leaderOf(reached(call)))),
  open("GET /status/peers", async (call) => clusterJson(call, [leaderOf(reached(call))])),
  open("GET /regions", async (call) => clusterJson(call, [REGION])),
];
