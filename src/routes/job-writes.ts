import type { NamespaceRight } from "../contracts/cluster-rights.ts";
import { allowsNamespaceAny, allowsNode } from "../rights/cluster-rights.ts";
import { inNamespace } from "./server/cluster-reads.ts";
import { type ClusterRoute, cluster } from "./server/route.ts";
import { refuses } from "./server/unsent.ts";

/**
 * Writes of jobs and calls of node agents that upstream has and this service has not: it shows what a scheduler reports
 * (docs/guides/reports.md). Authorized as upstream, then refused with 501.
 */

const NO_SCHEDULER =
  "jobs cannot be registered or changed here: run them with a scheduler, which reports them with PUT /v1/cluster/objects (docs/guides/reports.md)";
const NO_STATS = "statistics of a client are not offered: its agent reports its resources with the node";

/** A route of a part that the service does not have. */
export const refused = (
  verb: ClusterRoute["verb"],
  path: string,
  rights: ClusterRoute["rights"],
  because: string,
): ClusterRoute => cluster(`${verb} ${path}`, { rights, refuses: true }, refuses(501, because));

const job = (verb: ClusterRoute["verb"], path: string, right: NamespaceRight): ClusterRoute =>
  refused(verb, path, inNamespace(right), NO_SCHEDULER);

export const jobWriteRoutes = [
  job("POST", "/jobs", "submit-job"),
  job("POST", "/jobs/parse", "parse-job"),
  job("POST", "/validate/job", "read-job"),
  job("POST", "/job/:id", "submit-job"),
  job("DELETE", "/job/:id", "submit-job"),
  job("POST", "/job/:id/plan", "submit-job"),
  job("POST", "/job/:id/evaluate", "read-job"),
  job("POST", "/job/:id/dispatch", "dispatch-job"),
  job("POST", "/job/:id/periodic/force", "submit-job"),
  job("POST", "/job/:id/revert", "submit-job"),
  job("POST", "/job/:id/stable", "submit-job"),
  job("POST", "/job/:id/scale", "scale-job"),
  refused(
    "POST",
    "/allocation/:id/stop",
    (rights) => allowsNamespaceAny(rights, ["alloc-lifecycle"]),
    "allocations cannot be stopped here: ask the scheduler that reports them",
  ),
  refused("GET", "/client/stats", (rights) => allowsNode(rights, "read"), NO_STATS),
];
