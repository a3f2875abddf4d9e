import * as z from "zod";
import { completeJob, JOB_SUMMARY_TABLES, jobScale, jobSummary } from "../cluster/reports/job-shapes.ts";
import { allocationStub, jobStub } from "../cluster/reports/list-views.ts";
import type { Fields } from "../cluster/reports/topics/topic.ts";
import { parseLossless } from "../lib/json.ts";
import * as query from "../platform/http/query-fields.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { AllocationsQuery, allocationFields } from "./allocations.ts";
import { nothing, type Reading } from "./server/blocking.ts";
import {
  blockingRead,
  inNamespace,
  listReported,
  mayList,
  namespaceOf,
  type ReportedList,
  readOne,
} from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Jobs as reported by schedulers, and their sub-resources. */

const mayReadJob = inNamespace("read-job");

const idOf = (call: AuthorisedCall<"id">): string => call.params.id;

const ofJob = (call: AuthorisedCall<"id">, list: Pick<ReportedList, "topic" | "stub">): Promise<Response> =>
  listReported(call, { ...list, job: idOf(call), right: "read-job" });

/** The counts of a job's allocations. */
async function readSummary(call: AuthorisedCall<"id">): Promise<Reading> {
  const { found, index } = await clusterRegistry(call.env).jobSummary(namespaceOf(call), idOf(call));
  if (!found) return nothing("job not found", index);
  const job = parseLossless(found.job.body) as Fields;
  return { index, respond: () => clusterJson(call, jobSummary(job, found.counts), { index }) };
}

/** The kept versions of a job, newest first. */
async function readVersions(call: AuthorisedCall<"id">): Promise<Reading> {
  const { versions, index } = await clusterRegistry(call.env).jobVersions(namespaceOf(call), idOf(call));
  if (!versions) return nothing("job versions not found", index);
  const Versions = versions.map((text) => completeJob(parseLossless(text) as Fields));
  return { index, respond: () => clusterJson(call, { Versions, Diffs: null }, { index }) };
}

/** The counts of a job's groups. */
async function readScale(call: AuthorisedCall<"id">): Promise<Reading> {
  const { found, index } = await clusterRegistry(call.env).jobScale(namespaceOf(call), idOf(call));
  if (!found) return nothing("job not found", index);
  const job = parseLossless(found.job.body) as Fields;
  return { index, respond: () => clusterJson(call, jobScale(job, found.groups), { index }) };
}

/** The job's newest deployment; null without one, as upstream. */
async function readNewestDeployment(call: AuthorisedCall<"id">): Promise<Reading> {
  const { rows, index } = await clusterRegistry(call.env).reported({
    topic: "Deployment",
    namespace: namespaceOf(call),
    job: idOf(call),
    from: "",
    limit: 1,
    reverse: true,
  });
  const newest = rows[0] ? parseLossless(rows[0].body) : null;
  return { index, respond: () => clusterJson(call, newest, { index }) };
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
  cluster("GET /job/:id/summary", { rights: mayReadJob }, blockingRead(JOB_SUMMARY_TABLES, readSummary)),
  cluster("GET /job/:id/versions", { rights: mayReadJob }, blockingRead(["Job"], readVersions)),
  cluster(
    "GET /job/:id/scale",
    { rights: (rights, call) => mayReadJob(rights, call) || inNamespace("read-job-scaling")(rights, call) },
    blockingRead(JOB_SUMMARY_TABLES, readScale),
  ),
  cluster("GET /job/:id/deployment", { rights: mayReadJob }, blockingRead(["Deployment"], readNewestDeployment)),
];
