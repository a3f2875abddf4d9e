import * as z from "zod";
import { AllocationStub, createdAndModified, reportedObject } from "../../wire/shapes.ts";
import { bare, group, type Operation, type Parameters, type QueryParameters, text } from "../operation.ts";
import { list, namespace, namespaces, prefix, waiting } from "../parameters.ts";

const Job = reportedObject("Job", { ID: z.string(), Namespace: z.string() });
const Allocation = reportedObject("Allocation", { ID: z.string(), Namespace: z.string() });
const Evaluation = reportedObject("Evaluation", { ID: z.string(), Namespace: z.string() });
const Deployment = reportedObject("Deployment", { ID: z.string(), Namespace: z.string() });

const count = z.int().min(0);
const JobSummary = z
  .object({
    JobID: z.string(),
    Namespace: z.string(),
    ...createdAndModified,
    Summary: z
      .record(
        z.string(),
        z.object({
          Queued: count,
          Starting: count,
          Running: count,
          Complete: count,
          Failed: count,
          Lost: count,
          Unknown: count,
        }),
      )
      .describe("By task group: what its reported allocations are doing."),
    Children: z
      .object({ Pending: count, Running: count, Dead: count })
      .nullable()
      .describe("Jobs made from this one, when it is periodic or takes parameters."),
  })
  .meta({ id: "JobSummary", description: "Allocation counts of a job, as reported." });

const JobScale = z
  .object({
    JobID: z.string(),
    Namespace: z.string(),
    JobStopped: z.boolean(),
    JobCreateIndex: z.number(),
    JobModifyIndex: z.number(),
    TaskGroups: z.record(
      z.string(),
      z.object({
        Desired: count,
        Placed: count,
        Running: count,
        Healthy: count,
        Unhealthy: count,
        Events: z.null(),
      }),
    ),
  })
  .meta({ id: "JobScale", description: "The counts of a job's groups, without canaries and ended allocations." });

export const JobStub = z
  .object({
    ID: z.string(),
    ParentID: z.string(),
    Namespace: z.string(),
    NodePool: z.string(),
    Type: z.string(),
    Status: z.string(),
    StatusDescription: z.string(),
    Name: z.string(),
    Datacenters: z.array(z.string()).nullable(),
    Multiregion: z.unknown(),
    Priority: z.number(),
    Version: z.number(),
    SubmitTime: z.number().nullable(),
    ...createdAndModified,
    JobModifyIndex: z.number(),
    Periodic: z.boolean(),
    ParameterizedJob: z.boolean(),
    Stop: z.boolean(),
    JobSummary,
    Meta: z.record(z.string(), z.string()).nullable().optional().describe("With `meta=true` only."),
  })
  .meta({ id: "JobStub", description: "List view of a job." });

const Service = reportedObject("Service", { ID: z.string(), Namespace: z.string() });
const ServiceNames = z
  .object({
    Namespace: z.string(),
    Services: z.array(z.object({ ServiceName: z.string(), Tags: z.array(z.string()) })),
  })
  .meta({ id: "ServiceNames", description: "The services of a namespace, each with the tags of its registrations." });

const stubFields: QueryParameters = {
  resources: "Shows `AllocatedResources`.",
  task_states: "Shows `TaskStates`.",
};
const hexPrefix: Parameters = {
  prefix: text("Only ids that begin with these bytes: hexadecimal digits, an even number of them."),
};

const READ = "namespace:read-job";

const listed = (id: string, summary: string, answer: z.ZodType, query: QueryParameters, right = READ): Operation => ({
  id,
  summary,
  right,
  query: { ...namespaces, ...query, ...list },
  answers: bare("Objects visible to the caller.", z.array(answer)),
});
const one = (id: string, summary: string, answer: z.ZodType): Operation => ({
  id,
  summary,
  right: READ,
  query: { ...namespace, ...waiting },
  answers: bare("The object as reported, with local indexes.", answer),
});

export const reported = group(
  "Reported",
  { id: "The object's id." },
  {
    "GET /jobs": listed("listJobs", "List jobs", JobStub, { ...prefix, meta: "Shows `Meta`." }, "namespace:list-jobs"),
    "GET /job/:id": one("readJob", "Read a job", Job),
    "GET /job/:id/allocations": listed("listAllocationsOfJob", "List the allocations of a job", AllocationStub, {
      ...prefix,
      ...stubFields,
    }),
    "GET /job/:id/evaluations": listed("listEvaluationsOfJob", "List the evaluations of a job", Evaluation, prefix),
    "GET /job/:id/deployments": listed("listDeploymentsOfJob", "List the deployments of a job", Deployment, prefix),
    "GET /job/:id/summary": one("readJobSummary", "Read the summary of a job's allocations", JobSummary),
    "GET /job/:id/versions": one(
      "listVersionsOfJob",
      "List the reported versions of a job, newest first",
      z.object({ Versions: z.array(Job), Diffs: z.null() }),
    ),
    "GET /job/:id/scale": one("readJobScale", "Read the counts of a job's groups", JobScale),
    "GET /job/:id/deployment": one(
      "readNewestDeploymentOfJob",
      "Read the newest deployment of a job",
      Deployment.nullable(),
    ),
    "GET /evaluation/:id/allocations": listed(
      "listAllocationsOfEvaluation",
      "List allocations of an evaluation",
      AllocationStub,
      { ...prefix, ...stubFields },
    ),
    "GET /deployment/allocations/:id": listed(
      "listAllocationsOfDeployment",
      "List the allocations of a deployment",
      AllocationStub,
      { ...prefix, ...stubFields },
    ),
    "GET /allocations": listed("listAllocations", "List allocations", AllocationStub, { ...hexPrefix, ...stubFields }),
    "GET /allocation/:id": one("readAllocation", "Read an allocation", Allocation),
    "GET /node/:id/allocations": {
      ...listed(
        "listAllocationsOfNode",
        "List allocations on a node, in all namespaces",
        Allocation,
        {},
        "node:read; and namespace:read-job for each",
      ),
      path: { id: "The node's id." },
      query: { ...prefix, ...list },
    },
    "GET /evaluations": listed("listEvaluations", "List evaluations", Evaluation, {
      ...hexPrefix,
      job: "Only of this job; not with `filter`.",
      status: "Only in this status; not with `filter`.",
    }),
    "GET /evaluation/:id": {
      ...one("readEvaluation", "Read an evaluation", Evaluation),
      query: { ...namespace, related: "Shows linked evaluations as `RelatedEvals`.", ...waiting },
    },
    "GET /services": {
      id: "listServices",
      summary: "List the names of services",
      right: READ,
      query: { ...namespaces, ...waiting },
      answers: bare("The namespaces with services visible to the caller.", z.array(ServiceNames)),
    },
    "GET /service/:name": {
      ...listed("listRegistrationsOfService", "List the registrations of a service", Service, {
        ...prefix,
        choose: "`<number>|<key>`: that many registrations, the same for the same key.",
      }),
      path: { name: "The service's name." },
    },
    "GET /allocation/:id/services": listed(
      "listServicesOfAllocation",
      "List the service registrations of an allocation",
      Service,
      prefix,
    ),
    "GET /deployments": listed("listDeployments", "List deployments", Deployment, hexPrefix),
    "GET /deployment/:id": one("readDeployment", "Read a deployment", Deployment),
  },
);
