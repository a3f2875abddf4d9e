import * as z from "zod";
import { completeJob, JOB_SUMMARY_TABLES, jobScale, jobSummary } from "../cluster/reports/job-shapes.ts";
import { allocationStub, jobStub } from "../cluster/reports/list-views.ts";
import type { Fields } from "../cluster/reports/topics/topic.ts";
import { parseLossless } from "../lib/json.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { AllocationsQuery, allocationFields } from "./allocations.ts";
import { blocking, nothing, type Reading } from "./server/blocking.ts";
import { listReported, mayList, namespaceOf, type ReportedList, readOne } from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Jobs as reported by schedulers, and their sub-resources. */

const mayReadJob = (rights: AuthorisedCall["grant"]["cluster"], call: AuthorisedCall): boolean =>
  allowsNamespace(rights, namespaceOf(call), "read-job");

const idOf = (call: AuthorisedCall<"id">): string => call.params.id;

const ofJob = (call: AuthorisedCall<"id">, list: Pick<ReportedList, "topic" | "stub">): Promise<Response> =>
  listReported(call, { ...list, job: idOf(call), right: "read-job" });

/** The counts of a job's allocations; supports blocking queries on both. */
function readSummary(call: AuthorisedCall<"id">): Promise<Response> {
  const registry = clusterRegistry(call.env);
  const read = async (): Promise<Reading> => {
    const { found, index } = await registry.jobSummary(namespaceOf(call), idOf(call));
    if (!found) return nothing("job not found", index);
    const job = parseLossless(found.job.body) as Fields;
    return { index, respond: () => clusterJson(call, jobSummary(job, found.counts), { index }) };
  };
  return blocking(call, read, (since, waitMs) => registry.changed(JOB_SUMMARY_TABLES, since, waitMs));
}

/** The kept versions of a job, newest first; supports blocking queries. */
function readVersions(call: AuthorisedCall<"id">): Promise<Response> {
  const registry = clusterRegistry(call.env);
  const read = async (): Promise<Reading> => {
    const { versions, index } = await registry.jobVersions(namespaceOf(call), idOf(call));
    if (!versions) return nothing("job versions not found", index);
    const Versions = versions.map((text) => completeJob(parseLossless(text) as Fields));
    return { index, respond: () => clusterJson(call, { Versions, Diffs: null }, { index }) };
  };
  return blocking(call, read, (since, waitMs) => registry.changed(["Job"], since, waitMs));
}

/** The counts of a job's groups; supports blocking queries. */
function readScale(call: AuthorisedCall<"id">): Promise<Response> {
  const registry = clusterRegistry(call.env);
  const read = async (): Promise<Reading> => {
    const { found, index } = await registry.jobScale(namespaceOf(call), idOf(call));
    if (!found) return nothing("job not found", index);
    const job = parseLossless(found.job.body) as Fields;
    return { index, respond: () => clusterJson(call, jobScale(job, found.groups), { index }) };
  };
  return blocking(call, read, (since, waitMs) => registry.changed(JOB_SUMMARY_TABLES, since, waitMs));
}

/** The job's newest deployment; null without one, as upstream. */
function readNewestDeployment(call: AuthorisedCall<"id">): Promise<Response> {
  const registry = clusterRegistry(call.env);
  const read = async (): Promise<Reading> => {
    const { rows, index } = await registry.reported({
      topic: "Deployment",
      namespace: namespaceOf(call),
      job: idOf(call),
      from: "",
      limit: 1,
      reverse: true,
    });
    const newest = rows[0] ? parseLossless(rows[0].body) : null;
    return { index, respond: () => clusterJson(call, newest, { index }) };
  };
  return blocking(call, read, (since, waitMs) => registry.changed(["Deployment"], since, waitMs));
}

export const jobRoutes = [
  cluster(
    "GET /jobs",
    { rights: mayList("list-jobs"), query: z.object({ meta: query.goFlag(undefined, { bare: true }) }) },
    async (call) => {
      const { meta } = call.asked;
      return listReported(call, {
        topic: "Job",
        right: "list-jobs",
        stub: (job, counts) => jobStub(job, jobSummary(job, counts), meta),
      });
    },
  ),
  cluster("GET /job/:id", { rights: mayReadJob }, (call) =>
    readOne(call, { topic: "Job", id: idOf(call), right: "read-job", named: true, missing: "job not found" }),
  ),
  cluster("GET /job/:id/allocations", { rights: mayReadJob, query: AllocationsQuery }, async (call) => {
    const fields = allocationFields(call);
    return ofJob(call, { topic: "Allocation", stub: (allocation) => allocationStub(allocation, fields) });
  }),
  cluster("GET /job/:id/evaluations", { rights: mayReadJob }, (call) => ofJob(call, { topic: "Evaluation" })),
  cluster("GET /job/:id/deployments", { rights: mayReadJob }, (call) => ofJob(call, { topic: "Deployment" })),
  cluster("GET /job/:id/summary", { rights: mayReadJob }, readSummary),
  cluster("GET /job/:id/versions", { rights: mayReadJob }, readVersions),
  cluster(
    "GET /job/:id/scale",
    {
      rights: (rights, call) =>
        mayReadJob(rights, call) || allowsNamespace(rights, namespaceOf(call), "read-job-scaling"),
    },
    readScale,
  ),
  cluster("GET /job/:id/deployment", { rights: mayReadJob }, readNewestDeployment),
];
