import { expect } from "vitest";
import sample from "../../seeds/40-cluster.json";
import { itRows } from "../support/rows.ts";
import { get } from "./client.ts";
import { allocation, deployment, evaluation, job, node, nodePool, report, send, service, uuid } from "./reports.ts";

/**
 * Fields that Nomad's Go client and command line dereference without a nil check, in every reported object. From the
 * pointer fields of `api` and their uses in `api` and `command` of Nomad 2.0.
 */
const JOB = [
  "Region",
  "Namespace",
  "ID",
  "Name",
  "Type",
  "Priority",
  "AllAtOnce",
  "NodePool",
  "Stop",
  "ParentID",
  "Status",
  "StatusDescription",
  "Stable",
  "Version",
  "SubmitTime",
  "CreateIndex",
  "ModifyIndex",
  "JobModifyIndex",
  "TaskGroups.*.Name",
  "TaskGroups.*.Count",
  "TaskGroups.*.Tasks.*.Name",
  "TaskGroups.*.ReschedulePolicy?.Attempts",
  "TaskGroups.*.ReschedulePolicy?.Interval",
  "Periodic?.Enabled",
  "Periodic?.SpecType",
  "Periodic?.Spec",
  "Periodic?.TimeZone",
  "Periodic?.ProhibitOverlap",
];
const RESOURCES = ["CPU", "MemoryMB", "DiskMB"];
const ALLOCATION = [
  ...JOB.map((field) => `Job.${field}`),
  ...RESOURCES.map((field) => `Resources.${field}`),
  ...RESOURCES.map((field) => `TaskResources?.*.${field}`),
  "Metrics.NodesEvaluated",
  "Metrics.NodesFiltered",
  "Metrics.NodesExhausted",
  "Metrics.AllocationTime",
  "Metrics.CoalescedFailures",
  "RescheduleTracker?.Events?.*",
];
const NODE = [
  "NodeResources.Cpu",
  "NodeResources.Memory",
  "NodeResources.Disk",
  "ReservedResources.Cpu",
  "ReservedResources.Memory",
  "ReservedResources.Disk",
  "Drivers?.*",
  "HostVolumes?.*",
  "Events.*",
];

/** The places of null and missing values of a field; `*` is each element, `?` may be absent. */
function absent(value: unknown, [name = "", ...rest]: readonly string[], at = ""): string[] {
  if (name === "*") {
    const parts = Object.entries((value ?? {}) as object);
    return parts.flatMap(([key, part]) =>
      rest.length === 0 ? lacking(part, `${at}.${key}`) : absent(part, rest, `${at}.${key}`),
    );
  }
  const field = name.replace("?", "");
  const found = (value as Record<string, unknown>)[field] ?? null;
  if (found === null) return name.endsWith("?") ? [] : [`${at}.${field}`];
  return rest.length === 0 ? [] : absent(found, rest, `${at}.${field}`);
}
const lacking = (value: unknown, at: string): string[] => (value === null ? [at] : []);

const READS: readonly (readonly [path: string, fields: readonly string[]])[] = [
  ["/v1/job/ID", JOB],
  ["/v1/job/ID/versions", JOB.map((field) => `Versions.*.${field}`)],
  ["/v1/jobs?namespace=*", ["*.JobSummary.Summary", "*.Priority", "*.Name"]],
  ["/v1/allocation/ALLOC", ALLOCATION],
  ["/v1/node/NODE/allocations", ALLOCATION.map((field) => `*.${field}`)],
  ["/v1/job/ID/scale", ["TaskGroups.*.Desired", "TaskGroups.*.Placed"]],
  ["/v1/job/ID/summary", ["Summary.*.Running"]],
  ["/v1/node/NODE", NODE],
  ["/v1/nodes?resources=true", ["*.NodeResources.Cpu", "*.ReservedResources.Cpu", "*.Drivers?.*"]],
  ["/v1/evaluations", ["*.ID"]],
  ["/v1/deployments", ["*.TaskGroups?.*"]],
];

interface Cluster {
  readonly job: string;
  readonly allocation: string;
  readonly node: string;
}

async function lackingIn({ job: id, allocation: alloc, node: at }: Cluster): Promise<string[]> {
  const found: string[] = [];
  for (const [path, fields] of READS) {
    const { status, body } = await get(path.replace("ID", id).replace("ALLOC", alloc).replace("NODE", at));
    expect([path, status]).toEqual([path, 200]);
    for (const field of fields) found.push(...absent(body, field.split("."), path));
  }
  return found;
}

const REPORTED: Cluster = { job: "web", allocation: uuid(1), node: uuid(9) };
const all = (...events: readonly unknown[]) => [
  node(),
  job(),
  evaluation(),
  deployment(),
  service(),
  nodePool(),
  ...events,
];

itRows<readonly [string, readonly unknown[]]>([
  ["with the fewest fields", all(allocation())],
  [
    "with null in optional fields",
    all(allocation({ Job: null, Resources: null, Metrics: null, AllocatedResources: null })),
  ],
  [
    "with parts that lack fields",
    [
      ...all(allocation({ Resources: {}, Metrics: {}, TaskResources: { a: { CPU: 1, MemoryMB: 1, DiskMB: 0 } } })),
      job({
        Periodic: {},
        Reschedule: {},
        TaskGroups: [{ Name: "cache", ReschedulePolicy: {}, Tasks: [{ Name: "redis", Resources: { CPU: 5 } }] }],
      }),
    ],
  ],
  [
    "with allocated resources",
    all(allocation({ AllocatedResources: { Tasks: { redis: { Cpu: { CpuShares: 7 } } }, Shared: {} } })),
  ],
  ["of an allocation whose job is unknown", all(allocation({ ID: uuid(8), JobID: "none" }), allocation())],
])("has every field that clients dereference in reports %s", async (_what, events) => {
  await report(...events);
  expect(await lackingIn(REPORTED)).toEqual([]);
});

itRows(["the sample data"])("has every field that clients dereference in %s", async () => {
  for (const { path, body } of sample.requests) await send(body, path.slice(path.indexOf("?")));
  const ids = { job: "shop", allocation: "0e9d5c14-8b7a-4f62-a3d1-5c6b7e8f9a20" };
  expect(await lackingIn({ ...ids, node: "6c1f7a0e-52b4-4d0e-9a41-0d8f3b7c2e10" })).toEqual([]);
  const { Resources, TaskResources } = (await get(`/v1/allocation/${ids.allocation}`)).body;
  expect(Resources).toMatchObject({ CPU: 500, MemoryMB: 256 });
  expect(TaskResources.frontend).toMatchObject({ CPU: 500, MemoryMB: 256 });
});

itRows([
  [
    { AllocatedResources: { Tasks: { a: { Cpu: { CpuShares: 7 }, Memory: { MemoryMB: 9 } } }, Shared: { DiskMB: 3 } } },
    [7, 9, 3],
  ],
  [{ Resources: { CPU: 1, MemoryMB: 2, DiskMB: 4 } }, [1, 2, 4]],
])("has the resources of an allocation from %j", async (given, expected) => {
  await report(node(), allocation(given));
  const { Resources } = (await get(`/v1/allocation/${uuid(1)}`)).body;
  expect([Resources.CPU, Resources.MemoryMB, Resources.DiskMB]).toEqual(expected);
});
