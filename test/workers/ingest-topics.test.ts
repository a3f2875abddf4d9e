import { afterEach, describe, expect, it } from "vitest";
import { EVENT_TYPES } from "../../src/cluster/reports/event-types.ts";
import { eventsOf } from "./access.ts";
import { put } from "./client.ts";
import {
  allocation,
  deployment,
  evaluation,
  gone,
  job,
  node,
  nodePool,
  report,
  send,
  service,
  uuid,
} from "./reports.ts";
import { closeAll, openStream } from "./streams.ts";

afterEach(closeAll);

const [a1, e2, d3] = [uuid(1), uuid(2), uuid(3)];

describe("an event of topic", () => {
  // Proves: C.payload.Allocation, C.payload.Deployment, C.payload.Evaluation, C.payload.Job
  it.each([
    ["Job", job(), "web", null],
    ["Allocation", allocation({ DeploymentID: d3 }), a1, ["web", d3]],
    ["Allocation", allocation(), a1, ["web", ""]],
    ["Evaluation", evaluation({ DeploymentID: d3 }), e2, ["web", d3]],
    ["Evaluation", evaluation(), e2, ["web", ""]],
    ["Deployment", deployment(), d3, ["web"]],
    ["Service", service(), "_nomad-task-1", ["web", "http"]],
  ])(
    "%s has the object's key, filter keys and namespace, and the object under its name",
    async (topic, given, key, keys) => {
      const Index = await report({ ...given, Namespace: "prod", Key: "liar", FilterKeys: ["liar"], Index: 99 });
      const object = { ...(given.Payload[topic] as object), Namespace: "prod", CreateIndex: Index, ModifyIndex: Index };
      expect(await eventsOf(topic)).toEqual([]);
      const stream = await openStream(`?namespace=prod&topic=${topic}`);
      expect(await stream.nextLine()).toEqual({
        Index,
        Events: [
          {
            Topic: topic,
            Type: given.Type,
            Key: key,
            Namespace: "prod",
            FilterKeys: keys,
            Index,
            Payload: { [topic]: object },
          },
        ],
      });
    },
  );

  it("Variable has its path and metadata, never values, for tokens with list on the path", async () => {
    const metadata = { Namespace: "default", Path: "app/db", CreateTime: 1, ModifyTime: 2 };
    const variable = {
      Topic: "Variable",
      Type: "VariableUpdated",
      Namespace: "default",
      Payload: { Metadata: metadata },
    };
    const Index = await report(variable);
    const indexes = { CreateIndex: Index, ModifyIndex: Index };
    expect(await eventsOf("Variable")).toMatchObject([
      {
        Type: "VariableUpdated",
        Key: "app/db",
        Namespace: "default",
        Payload: { Metadata: { ...metadata, ...indexes }, Deleted: false },
      },
    ]);
    await report(gone(variable));
    expect((await eventsOf("Variable")).at(-1)?.Payload).toMatchObject({ Deleted: true, Metadata: { Path: "app/db" } });
    const secret = { ...metadata, Items: { password: "hunter2" } };
    const refused = await send({ ...variable, Payload: { Metadata: secret } });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("values stay at the scheduler")]);
    const rule = 'namespace "default" { variables { path "app/*" { capabilities = ["list"] } } }';
    await put("/v1/acl/policy/listed", { Name: "listed", Rules: rule });
    const { SecretID: token } = (await put("/v1/acl/token", { Name: "t", Type: "client", Policies: ["listed"] })).body;
    await report({ ...variable, Payload: { Metadata: { ...metadata, Path: "other/x" } } });
    await report({ ...variable, Payload: { Metadata: { ...metadata, Path: "app/end" } } });
    const stream = await openStream("?topic=Variable&index=1", { token });
    const keys: string[] = [];
    while (keys.at(-1) !== "app/end")
      keys.push(...(await stream.nextLine()).Events.map(({ Key }: { Key: string }) => Key));
    expect(keys.filter((key) => key !== "app/db")).toEqual(["app/end"]);
  });

  it("NodePool has its name and no namespace", async () => {
    const Index = await report(nodePool());
    expect(await eventsOf("NodePool")).toEqual([
      {
        Topic: "NodePool",
        Type: "NodePoolUpserted",
        Key: "gpu",
        Namespace: "",
        FilterKeys: null,
        Index,
        Payload: { NodePool: { Name: "gpu", CreateIndex: Index, ModifyIndex: Index } },
      },
    ]);
  });

  it("Node is a life-cycle event, and its upstream type is translated", async () => {
    await report(node());
    await report({ ...node({ Status: "ready" }), Type: "NodeStreamEvent" });
    expect((await eventsOf("Node")).map(({ Type, Key, Payload }) => [Type, Key, Payload.Node.Name])).toEqual([
      ["NodeRegistration", uuid(9), "n1"],
      ["NodeEvent", uuid(9), "n1"],
    ]);
  });

  // Proves: C.payload.Allocation.no-job
  it("Allocation has only the version of its job", async () => {
    const Index = await report(allocation({ Job: { ID: "web", Version: 3, Type: "batch", TaskGroups: null } }));
    const [{ Payload }] = await eventsOf("Allocation");
    expect(Payload.Allocation).toEqual({
      ...(allocation().Payload["Allocation"] as object),
      Namespace: "default",
      JobVersion: 3,
      JobType: "batch",
      CreateIndex: Index,
      ModifyIndex: Index,
    });
  });

  it("Allocation has Timeout and TimeoutReason only after a timeout", async () => {
    const timed = allocation({ ClientStatus: "complete" });
    await report({ ...timed, Payload: { ...timed.Payload, Timeout: true, TimeoutReason: "max_run_duration" } });
    await report({ ...timed, Payload: { ...timed.Payload, Timeout: false, TimeoutReason: "" } });
    const ClientDescription = "allocation exceeded max_run_duration";
    await report(allocation({ ClientStatus: "complete", ClientDescription }));
    await report(allocation({ ClientStatus: "failed", ClientDescription }));
    expect((await eventsOf("Allocation")).map(({ Payload: { Allocation, ...rest } }) => rest)).toEqual([
      { Timeout: true, TimeoutReason: "max_run_duration" },
      {},
      { Timeout: true, TimeoutReason: ClientDescription },
      {},
    ]);
  });
});

it("accepts every event type under any topic", async () => {
  await report(...EVENT_TYPES.map((Type) => ({ ...job(), Type })));
  expect((await eventsOf("Job")).map(({ Type }) => Type)).toEqual([...EVENT_TYPES]);
});

describe("the namespace of an event", () => {
  // Proves: C.event.Namespace
  it.each([
    ["its own", { Namespace: "a" }, {}, "?namespace=q", "a"],
    ["its object's", {}, { Namespace: "b" }, "?namespace=q", "b"],
    ["its object's, when its own is empty", { Namespace: "" }, { Namespace: "b" }, "", "b"],
    ["the request's", {}, {}, "?namespace=q", "q"],
    ["default", {}, {}, "", "default"],
  ])("is %s", async (_what, more, object, query, namespace) => {
    expect((await send([job(object, more)], query)).status).toBe(200);
    const stream = await openStream(`?namespace=${namespace}&topic=Job`);
    expect((await stream.nextLine()).Events[0]).toMatchObject({
      Namespace: namespace,
      Payload: { Job: { Namespace: namespace } },
    });
  });
});

describe("the deletion of an object", () => {
  it.each([
    ["Job", job({ Status: "dead", Priority: 50 }), job({ Stop: true }), true],
    ["Allocation", allocation({ Name: "web.cache[0]" }), allocation(), true],
    ["Evaluation", evaluation({ Priority: 7 }), evaluation(), true],
    ["Deployment", deployment({ JobVersion: 4 }), deployment(), true],
  ])("of topic %s has its last state in the event", async (topic, born, last, deleted) => {
    const first = await report(born);
    const second = await report(gone(last));
    const [, { Payload, Index }] = await eventsOf(topic);
    expect([Index, Payload]).toEqual([
      second,
      {
        [topic]: {
          ...(born.Payload[topic] as object),
          ...(last.Payload[topic] as object),
          Namespace: "default",
          CreateIndex: first,
          ModifyIndex: second,
        },
        Deleted: deleted,
      },
    ]);
  });

  it("of a service or a node pool is recognised by the event type", async () => {
    await report(service({ Tags: ["a"] }), nodePool({ Description: "big" }));
    await report({ ...service(), Type: "ServiceDeregistration" }, { ...nodePool(), Type: "NodePoolDeleted" });
    expect((await eventsOf("Service"))[1].Payload).toMatchObject({ Service: { Tags: ["a"] } });
    expect((await eventsOf("NodePool"))[1].Payload).toMatchObject({ NodePool: { Description: "big" } });
    // A repeated report registers them again.
    const Index = await report(service(), nodePool());
    expect((await eventsOf("Service"))[2].Payload.Service).toMatchObject({ CreateIndex: Index });
  });

  it("of an unknown object is published as it was reported", async () => {
    const Index = await report(gone(job({ Priority: 1 })));
    const [{ Payload }] = await eventsOf("Job");
    expect(Payload).toEqual({
      Job: { ID: "web", Priority: 1, Namespace: "default", CreateIndex: Index, ModifyIndex: Index },
      Deleted: true,
    });
  });
});

describe("a request", () => {
  it("is one event line with one event per report, in order", async () => {
    const stream = await openStream("?index=-1");
    await stream.next();
    const Index = await report(job(), evaluation(), deployment(), allocation(), job({ Status: "running" }));
    const line = await stream.nextLine();
    expect(line.Index).toBe(Index);
    expect(line.Events.map(({ Topic, Index: own }) => [Topic, own])).toEqual(
      ["Job", "Evaluation", "Deployment", "Allocation", "Job"].map((topic) => [topic, Index]),
    );
  });

  it("with several reports of one object stores the last one, under one index", async () => {
    const first = await report(job({ Status: "pending" }), job({ Status: "running" }));
    const second = await report(job({ Status: "dead" }), gone(job()), job({ Status: "pending" }));
    const indexes = (await eventsOf("Job")).map(({ Payload: { Job } }) => [
      Job.Status,
      Job.CreateIndex,
      Job.ModifyIndex,
    ]);
    expect(indexes).toEqual([
      ["pending", first, first],
      ["running", first, first],
      ["dead", first, second],
      ["dead", first, second],
      ["pending", second, second],
    ]);
  });
});
