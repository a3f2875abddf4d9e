import { allowsNamespace } from "../access/cluster-rights.ts";
import { listReported, mayList, namespaceOf, type ReportedList, readOne, truth } from "../cluster/reads.ts";
import { allocationStub, jobStub } from "../cluster/stubs.ts";
import { type AuthorisedCall, cluster } from "../http/route.ts";
import { allocationFields } from "./allocations.ts";

/** Jobs as schedulers report them, and what belongs to one. */

const mayReadJob = (rights: AuthorisedCall["grant"]["cluster"], call: AuthorisedCall): boolean =>
  allowsNamespace(rights, namespaceOf(call), "read-job");

const idOf = (call: AuthorisedCall): string => call.params["id"] ?? "";

const ofJob = (call: AuthorisedCall, list: Pick<ReportedList, "topic" | "stub">): Promise<Response> =>
  listReported(call, { ...list, job: idOf(call), right: "read-job" });

export const jobRoutes = [
  cluster({
    verb: "GET",
    path: "/jobs",
    rights: mayList("list-jobs"),
    handle: async (call) => {
      const meta = truth(call, "meta", false);
      return listReported(call, { topic: "Job", right: "list-jobs", stub: (job) => jobStub(job, meta) });
    },
  }),
  cluster({
    verb: "GET",
    path: "/job/:id",
    rights: mayReadJob,
    handle: (call) =>
      readOne(call, { topic: "Job", id: idOf(call), right: "read-job", named: true, missing: "job not found" }),
  }),
  cluster({
    verb: "GET",
    path: "/job/:id/allocations",
    rights: mayReadJob,
    handle: async (call) => {
      const fields = allocationFields(call);
      return ofJob(call, { topic: "Allocation", stub: (allocation) => allocationStub(allocation, fields) });
    },
  }),
  cluster({
    verb: "GET",
    path: "/job/:id/evaluations",
    rights: mayReadJob,
    handle: (call) => ofJob(call, { topic: "Evaluation" }),
  }),
  cluster({
    verb: "GET",
    path: "/job/:id/deployments",
    rights: mayReadJob,
    handle: (call) => ofJob(call, { topic: "Deployment" }),
  }),
];
