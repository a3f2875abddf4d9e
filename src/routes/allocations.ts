import * as z from "zod";
import { type AllocationFields, allocationStub } from "../cluster/reports/list-views.ts";
import { textOf } from "../cluster/reports/topics/topic.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespaceAny, allowsNode } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { inNamespace, listReported, mayList, namespaceOf, readOne } from "./server/cluster-reads.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Allocations as reported by schedulers. */

/** Optional fields of a list of allocations. */
export const AllocationsQuery = z.object({
  resources: query.goFlag(undefined, { bare: true }),
  task_states: query.goFlag(undefined, { bare: true, usual: true }),
});

export const allocationFields = ({ asked }: Asked<typeof AllocationsQuery>): AllocationFields => ({
  resources: asked.resources,
  taskStates: asked.task_states,
});

/** Allocations of a job created by an evaluation or a deployment; empty when it is unknown. */
async function madeBy(
  call: AuthorisedCall<"id"> & Asked<typeof AllocationsQuery>,
  topic: "Evaluation" | "Deployment",
): Promise<Response> {
  const [id, field] = [call.params.id, topic === "Evaluation" ? "EvalID" : "DeploymentID"];
  const { object } = await clusterRegistry(call.env).readReported(topic, id, namespaceOf(call), true);
  const fields = allocationFields(call);
  return listReported(call, {
    topic: "Allocation",
    job: object?.jobId ?? "",
    right: "read-job",
    wanted: (allocation) => textOf(allocation, field) === id,
    stub: (allocation) => allocationStub(allocation, fields),
  });
}

const mayReadJobs = inNamespace("read-job");

export const allocationRoutes = [
  cluster("GET /allocations", { rights: mayList("read-job"), query: AllocationsQuery }, async (call) => {
    const fields = allocationFields(call);
    const stub = (allocation: Parameters<typeof allocationStub>[0]) => allocationStub(allocation, fields);
    return listReported(call, { topic: "Allocation", right: "read-job", hexPrefix: true, stub });
  }),
  cluster("GET /allocation/:id", { rights: (rights) => allowsNamespaceAny(rights, ["read-job"]) }, (call) =>
    readOne(call, {
      topic: "Allocation",
      id: call.params.id,
      right: "read-job",
      missing: "alloc not found",
    }),
  ),
  cluster("GET /node/:id/allocations", { rights: (rights) => allowsNode(rights, "read") }, (call) =>
    listReported(call, { topic: "Allocation", node: call.params.id, right: "read-job" }),
  ),
  cluster("GET /evaluation/:id/allocations", { rights: mayReadJobs, query: AllocationsQuery }, (call) =>
    madeBy(call, "Evaluation"),
  ),
  cluster("GET /deployment/allocations/:id", { rights: mayReadJobs, query: AllocationsQuery }, (call) =>
    madeBy(call, "Deployment"),
  ),
];
