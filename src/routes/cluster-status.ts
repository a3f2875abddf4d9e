import { clusterJson } from "../http/respond.ts";
import { type Call, open } from "../http/route.ts";

/** What clients of areas C and D ask before they begin: whether there is a leader, and which regions (contract: clients 2.4). */

const REGION = "global";

/** There is one server: the one that was reached. */
const addressOf = ({ request }: Pick<Call, "request">): string => new URL(request.url).host;

export const clusterStatusRoutes = [
  open({ verb: "GET", path: "/status/leader", handle: async (call) => clusterJson(call, addressOf(call)) }),
  open({ verb: "GET", path: "/status/peers", handle: async (call) => clusterJson(call, [addressOf(call)]) }),
  open({ verb: "GET", path: "/regions", handle: async (call) => clusterJson(call, [REGION]) }),
];
