import { allowsNamespaceAny, allowsNode } from "../access/cluster-rights.ts";
import { listReported, mayList, readOne, truth } from "../cluster/reads.ts";
import { type AllocationFields, allocationStub } from "../cluster/stubs.ts";
import { type AuthorisedCall, cluster } from "../http/route.ts";

/** Allocations as schedulers report them. */

/** What a list of allocations is asked to show of each. */
export const allocationFields = (call: Pick<AuthorisedCall, "query">): AllocationFields => ({
  resources: truth(call, "resources", false),
  taskStates: truth(call, "task_states", true),
});

export const allocationRoutes = [
  cluster({
    verb: "GET",
    path: "/allocations",
    rights: mayList("read-job"),
    handle: async (call) => {
      const fields = allocationFields(call);
      const stub = (allocation: Parameters<typeof allocationStub>[0]) => allocationStub(allocation, fields);
      return listReported(call, { topic: "Allocation", right: "read-job", hexPrefix: true, stub });
    },
  }),
  cluster({
    verb: "GET",
    path: "/allocation/:id",
    rights: (rights) => allowsNamespaceAny(rights, ["read-job"]),
    handle: (call) =>
      readOne(call, {
        ...{ topic: "Allocation", id: call.params["id"] ?? "" },
        ...{ right: "read-job", missing: "alloc not found" },
      }),
  }),
  cluster({
    verb: "GET",
    path: "/node/:id/allocations",
    rights: (rights) => allowsNode(rights, "read"),
    handle: (call) => listReported(call, { topic: "Allocation", node: call.params["id"] ?? "", right: "read-job" }),
  }),
];
