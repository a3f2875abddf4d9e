import { afterEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf } from "./access.ts";
import { get, put } from "./client.ts";
import { allocation, deployment, evaluation, gone, job, node, report, send, service, uuid } from "./reports.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const full = (topic: string, more = "") => `?full=true&topic=${topic}${more}`;

describe("a full list", () => {
  it.each([
    ["Job", job, (at: number) => `job-${at}`, "JobDeregistered", null],
    ["Allocation", allocation, uuid, "AllocationUpdated", ["web", ""]],
    ["Evaluation", evaluation, uuid, "EvaluationUpdated", ["web", ""]],
    ["Deployment", deployment, uuid, "DeploymentStatusUpdate", ["web"]],
    ["Service", service, (at: number) => `service-${at}`, "ServiceDeregistration", ["web", "http"]],
  ] as const)("of topic %s deletes omitted objects, with events", async (topic, event, id, type, keys) => {
    await report(...[1, 2, 3].map((at) => event({ ID: id(at), Note: `n${at}` })));
    const taken = await send([event({ ID: id(2), Note: "again" })], full(topic, "&source=eu&source_index=1"));
    expect([taken.status, taken.body]).toEqual([200, { Index: expect.any(Number), Applied: true }]);
    const told = (await eventsOf(topic)).filter(({ Index }) => Index === taken.body.Index);
    expect(told.map(({ Key, Type, FilterKeys, Payload }) => [Key, Type, FilterKeys, Payload.Deleted])).toEqual([
      [id(2), expect.any(String), keys, undefined],
      [id(1), type, keys, true],
      [id(3), type, keys, true],
    ]);
    expect(told[1].Payload[topic]).toMatchObject({ ID: id(1), Note: "n1", ModifyIndex: taken.body.Index });
    const again = await send([event({ ID: id(2), Note: "again" })], full(topic, "&source=eu&source_index=1"));
    expect(again.body).toEqual({ Index: taken.body.Index, Applied: false });
  });

  it("does not affect other topics and namespaces", async () => {
    await report(job(), job({ ID: "elsewhere", Namespace: "prod" }), evaluation(), allocation());
    await send([], full("Job"));
    expect((await get("/v1/jobs?namespace=*")).body.map(({ ID }: { ID: string }) => ID)).toEqual(["elsewhere"]);
    expect((await get("/v1/evaluations")).body).toHaveLength(1);
    await send([], full("Job", "&namespace=prod"));
    expect((await get("/v1/jobs?namespace=*")).body).toEqual([]);
    expect((await get("/v1/allocations")).body).toHaveLength(1);
  });

  it("completes a drain together with the omitted allocation", async () => {
    await report(node({ Status: "ready" }), job(), allocation());
    await put(`/v1/node/${uuid(9)}/drain`, { DrainSpec: { Deadline: 0 } });
    expect((await get(`/v1/node/${uuid(9)}`)).body.Drain).toBe(true);
    await send([], full("Allocation"));
    expect((await get(`/v1/node/${uuid(9)}`)).body.Drain).toBe(false);
  });

  it("deletes nothing twice, also when it reports a deletion itself", async () => {
    await report(job({ ID: "a" }), job({ ID: "b" }));
    const { Index } = (await send([gone(job({ ID: "a" })), job({ ID: "b" })], full("Job"))).body;
    const told = (await eventsOf("Job")).filter((event) => event.Index === Index);
    expect(told.map(({ Key, Payload }) => [Key, Payload.Deleted])).toEqual([
      ["a", true],
      ["b", undefined],
    ]);
  });

  it("deletes thousands of objects, and later reports create them again", async () => {
    const jobs = Array.from({ length: 1_200 }, (_, at) => job({ ID: `job-${at}`, Padding: "x".repeat(2_000) }));
    await report(...jobs);
    await send([jobs[0]], full("Job"));
    const told = await eventsOf("Job");
    expect(told.filter(({ Payload }) => Payload.Deleted)).toHaveLength(1_199);
    expect((await get("/v1/jobs")).body.map(({ ID }: { ID: string }) => ID)).toEqual(["job-0"]);
    const Index = await report(job({ ID: "job-1" }));
    expect((await get("/v1/job/job-1")).body.CreateIndex).toBe(Index);
  });

  itRows([
    [
      full("Node"),
      [node()],
      "topic: must be one of Job, Allocation, Evaluation, Deployment, Service, Variable with full=true",
    ],
    [full("NodePool"), [], "topic: must be one of Job"],
    ["?full=true", [job()], "topic: must be one of Job"],
    ["?full=yes&topic=Job", [job()], "full: must be true or false"],
    [full("Job"), [job(), allocation()], "event 2: full: must be of topic Job and namespace default"],
    [full("Job"), [job({ Namespace: "prod" })], "event 1: full: must be of topic Job and namespace default"],
    [full("Job"), { Index: 7, Events: [] }, "full: must not be given with a line of a stream"],
    [full("Job"), {}, "full: must not be given with a line of a stream"],
  ])("%s is refused without a deletion", async (query, body, message) => {
    await report(job({ ID: "there" }));
    const refused = await send(body, query);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(message)]);
    expect((await get("/v1/jobs")).body).toHaveLength(1);
  });
});
