import { expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get } from "./client.ts";
import { allocation, deployment, gone, job, type Reported, report, uuid } from "./reports.ts";

/* Versions of jobs, and the version that an allocation belongs to. */

const version = (Version: number, more: object = {}): Reported =>
  job({ Version, Meta: { v: String(Version) }, ...more });
const versionsOf = async (id = "web") => {
  const { body } = await get(`/v1/job/${id}/versions`);
  return body.Versions.map(({ Version, Meta }: { Version: number; Meta: object }) => [Version, Meta]);
};
const jobOf = async (id = uuid(1)) => {
  const { JobVersion, Job } = (await get(`/v1/allocation/${id}`)).body;
  return [JobVersion, Job.Version, Job.Meta];
};
const listed = async () =>
  (await get("/v1/allocations")).body.map(({ JobVersion }: { JobVersion: number | null }) => JobVersion);

it("keeps every version of a job, each with its own indexes", async () => {
  for (let at = 0; at < 8; at++) await report(version(at));
  // A change of the newest version replaces it.
  await report(version(7, { Status: "running" }));
  expect(await versionsOf()).toEqual([7, 6, 5, 4, 3, 2, 1, 0].map((at) => [at, { v: String(at) }]));
  const { Versions } = (await get("/v1/job/web/versions")).body;
  const indexes = Versions.map(({ ModifyIndex }: { ModifyIndex: number }) => ModifyIndex);
  expect(indexes).toEqual([...new Set<number>(indexes)].sort((a, b) => b - a));
  expect(new Set(Versions.map(({ CreateIndex }: { CreateIndex: number }) => CreateIndex)).size).toBe(1);
});

it("keeps two versions of one request, with the index of its line", async () => {
  const index = await report(version(0), version(1));
  const { Versions } = (await get("/v1/job/web/versions")).body;
  expect(Versions.map((each: { ModifyIndex: number }) => each.ModifyIndex)).toEqual([index, index]);
});

it("has no versions of a deleted job, nor of its successor's past", async () => {
  await report(version(0), version(1));
  await report(gone(version(1)));
  const missing = await get("/v1/job/web/versions");
  expect([missing.status, missing.text]).toEqual([404, "job versions not found"]);
  await report(version(0, { Meta: { v: "again" } }));
  expect(await versionsOf()).toEqual([[0, { v: "again" }]]);
});

itRows<readonly [string, readonly Reported[], number | null]>([
  ["the report", [version(5), allocation({ JobVersion: 2 })], 2],
  ["the embedded job", [version(5), allocation({ Job: { Version: 3 } })], 3],
  [
    "the deployment",
    [version(5), deployment({ JobVersion: 4 }), allocation({ DeploymentID: uuid(3), EvalID: uuid(2) })],
    4,
  ],
  ["the job when the allocation came", [version(0), allocation(), version(1), allocation({ Name: "later" })], 0],
  [
    "the job of the evaluation that placed it again",
    [version(0), allocation(), version(1), allocation({ EvalID: uuid(7) })],
    1,
  ],
  ["nothing, without a job", [allocation({ JobID: "unknown" })], null],
])("has the version of an allocation's job from %s", async (_source, reports, expected) => {
  for (const each of reports) await report(each);
  expect(await listed()).toEqual([expected]);
  expect((await get("/v1/allocations?filter=JobVersion == 4")).body).toHaveLength(expected === 4 ? 1 : 0);
  await report(...reports.map(gone));
});

it("reads an allocation with its job as it was, also after newer versions and the job's deletion", async () => {
  await report(version(0), allocation());
  await report(version(1), allocation({ ID: uuid(4) }));
  expect([await jobOf(), await jobOf(uuid(4))]).toEqual([
    [0, 0, { v: "0" }],
    [1, 1, { v: "1" }],
  ]);
  await report(gone(version(1)));
  expect([await jobOf(), await jobOf(uuid(4))]).toEqual([
    [0, 0, { v: "0" }],
    [1, 1, { v: "1" }],
  ]);
});

it("keeps the job that an allocation embeds, when that version was never reported", async () => {
  await report(version(5), allocation({ Job: { ID: "web", Version: 3, Meta: { v: "3" } } }));
  expect(await jobOf()).toEqual([3, 3, { v: "3" }]);
  expect(await versionsOf()).toEqual([
    [5, { v: "5" }],
    [3, { v: "3" }],
  ]);
});

it("counts a job's groups by its placed allocations", async () => {
  const healthy = (Healthy: boolean, more: object = {}) => ({ DeploymentStatus: { Healthy, ...more } });
  const group = { Name: "cache", Count: 3 };
  await report(
    job({ TaskGroups: [group, { Name: "idle" }], Stop: true }),
    ...[
      healthy(true),
      healthy(false),
      { ClientStatus: "pending" },
      { ClientStatus: "complete" },
      { DesiredStatus: "stop" },
      healthy(true, { Canary: true }),
    ].map((more, at) => allocation({ ID: uuid(20 + at), ...more })),
  );
  const { status, body } = await get("/v1/job/web/scale");
  expect([status, body]).toEqual([
    200,
    {
      JobID: "web",
      Namespace: "default",
      JobStopped: true,
      JobCreateIndex: expect.any(Number),
      JobModifyIndex: expect.any(Number),
      TaskGroups: {
        cache: { Desired: 3, Placed: 3, Running: 2, Healthy: 1, Unhealthy: 1, Events: null },
        idle: { Desired: 1, Placed: 0, Running: 0, Healthy: 0, Unhealthy: 0, Events: null },
      },
    },
  ]);
  expect((await get("/v1/job/none/scale")).status).toBe(404);
});

it("lists a dispatched job as one without parameters, and as no parent", async () => {
  const ParameterizedJob = { MetaRequired: ["a"] };
  await report(
    job({ ID: "make", ParameterizedJob }),
    job({ ID: "make/dispatch-1", ParentID: "make", ParameterizedJob, Dispatched: true }),
  );
  const { body } = await get("/v1/jobs");
  expect(body.map((each: Record<string, unknown>) => [each["ID"], each["ParameterizedJob"]])).toEqual([
    ["make", true],
    ["make/dispatch-1", false],
  ]);
  expect((await get("/v1/job/make%2Fdispatch-1/summary")).body.Children).toBeNull();
});
