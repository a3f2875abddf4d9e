import { allowsNamespaceAny } from "../rights/cluster-rights.ts";
import { listReported, mayList, readOne } from "./server/cluster-reads.ts";
import { cluster } from "./server/route.ts";

/** Deployments as reported by schedulers. */

export const deploymentRoutes = [
  cluster("GET /deployments", { rights: mayList("read-job") }, (call) =>
    listReported(call, { topic: "Deployment", right: "read-job", hexPrefix: true }),
  ),
  cluster("GET /deployment/:id", { rights: (rights) => allowsNamespaceAny(rights, ["read-job"]) }, (call) =>
    readOne(call, {
      topic: "Deployment",
      id: call.params.id,
      right: "read-job",
      missing: "deployment not found",
    }),
  ),
];
