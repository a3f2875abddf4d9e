import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { EventLog } from "../../src/worker.ts";
import { eventsOf } from "./access.ts";
import { get, put, send as request } from "./client.ts";
import { addNode, nodeId } from "./host-volumes.ts";
import { allocation, deployment, evaluation, gone, job, node, registry, report, send, uuid } from "./reports.ts";
import { closeAll, openStream } from "./streams.ts";

afterEach(closeAll);

const keys = async (topic: string) => (await eventsOf(topic)).map(({ Key }) => Key);

describe("several lines of a stream in one request", () => {
  const line = (Index: number, ...Events: object[]) => JSON.stringify({ Index, Events });
  const put = (...lines: string[]) => send(lines.join("\n"), "?source=far");
  const indexes = async () => (await eventsOf("Job")).map(({ Key, Index }) => [Key, Index]);

  it("are one event line each, in order, and idempotent one by one", async () => {
    await put(line(7, job()), line(8, job({ ID: "b" })));
    const taken = await put(line(8, job({ ID: "b" })), "{}", line(9, job({ ID: "c" }), job({ ID: "d" })));
    expect([taken.status, taken.body.Applied]).toEqual([200, true]);
    const { Index } = taken.body;
    const events = await indexes();
    expect(events).toEqual([
      ["web", Index - 2],
      ["b", Index - 1],
      ["c", Index],
      ["d", Index],
    ]);
    expect((await put(line(8, job({ ID: "b" })), line(9, job({ ID: "c" }), job({ ID: "d" })))).body).toEqual({
      Index,
      Applied: false,
    });
    expect(await indexes()).toEqual(events);
  });

  it("are refused with the number of the line, in which case none is applied", async () => {
    const rows: [string[], string, string][] = [
      [[line(7, job()), line(8, job({ Type: 1 }))], "?source=far", "line 2: event 1: Payload.Job.Type: "],
      [[line(7, job()), "{"], "?source=far", "line 2: request body: "],
      [[line(7, job()), JSON.stringify(job())], "?source=far", "line 2: must be a line of a stream"],
      [[line(7, job()), JSON.stringify({ Events: [job()] })], "?source=far", "source_index: "],
      [[line(7, job()), line(8, job())], "", "line 1: source: must be given"],
      [[line(7, job()), line(8, job())], "?source=far&source_index=3", "source_index: must not be given"],
      [[line(7, job()), line(8, job())], "?source=far&changes=true", "changes: must not be given"],
    ];
    for (const [lines, query, says] of rows) {
      const { status, text } = await send(lines.join("\n"), query);
      expect([says, status, text]).toEqual([says, 400, expect.stringContaining(says)]);
    }
    expect(await indexes()).toEqual([]);
  });

  it("are applied up to a line that conflicts with the state", async () => {
    await addNode(1);
    const taken = nodeId(1);
    const { status, text } = await put(line(7, job()), line(8, node({ ID: taken })), line(9, job({ ID: "c" })));
    expect([status, text]).toEqual([409, expect.stringMatching(/^line 2: event 1: node /)]);
    expect(await keys("Job")).toEqual(["web"]);
  });
});

describe("a scheduler's report", () => {
  // Proves: C.stream.cluster-events
  it("is one event line and the object that reads return, under one index", async () => {
    const stream = await openStream("?topic=Job&index=-1");
    await stream.next();
    const taken = await send([job({ SubmitTime: 1 })]);
    expect([taken.status, taken.body]).toEqual([200, { Index: expect.any(Number), Applied: true }]);
    const { Index } = taken.body;
    expect(taken.headers.get("x-orch-index")).toBe(String(Index));
    const object = { ID: "web", Namespace: "default", SubmitTime: 1, CreateIndex: Index, ModifyIndex: Index };
    expect(await stream.nextLine()).toMatchObject({ Index, Events: [{ Key: "web", Index, Payload: { Job: object } }] });
    const read = await get("/v1/job/web");
    expect([read.status, read.body]).toMatchObject([200, object]);
    expect(read.headers.get("x-orch-index")).toBe(String(Index));
  });

  it("keeps numbers beyond 2^53 and unknown fields as they were written", async () => {
    const raw = '"SubmitTime":1736191993011000123,"Colour":{"Red":9007199254740993,"Share":1.50,"Tiny":1e-9}';
    await send(`[{"Topic":"Job","Type":"JobRegistered","Payload":{"Job":{"ID":"web",${raw}}}}]`);
    const stream = await openStream("?topic=Job");
    expect(await stream.nextText()).toContain(raw);
    expect((await get("/v1/job/web")).text).toContain(raw);
    expect((await get("/v1/jobs")).text).toContain('"SubmitTime":1736191993011000123');
  });

  it("gets this service's indexes, and keeps its scheduler's own under other names", async () => {
    const Index = await report(job({ CreateIndex: 70, ModifyIndex: 71, JobModifyIndex: 72 }));
    expect((await get("/v1/job/web")).body).toMatchObject({
      CreateIndex: Index,
      ModifyIndex: Index,
      JobModifyIndex: 72,
    });
  });

  it("keeps allocations when their job is deleted", async () => {
    await report(job(), allocation());
    await report(gone(job()));
    expect((await get("/v1/job/web")).status).toBe(404);
    expect((await get(`/v1/allocation/${uuid(1)}`)).body).toMatchObject({ JobID: "web", ClientStatus: "running" });
    expect(await keys("Allocation")).toEqual([uuid(1)]);
  });

  it("may refer to an unknown job", async () => {
    await report(evaluation({ JobID: "ghost" }), deployment({ JobID: "ghost" }));
    expect((await get("/v1/job/ghost/evaluations")).body).toHaveLength(1);
    expect((await get("/v1/job/ghost/deployments")).body).toHaveLength(1);
  });

  it("completes the drain of a node together with its last allocation, in one line", async () => {
    await report(node({ Status: "ready" }), job(), allocation());
    const drained = await put(`/v1/node/${uuid(9)}/drain`, { DrainSpec: { Deadline: 0 } });
    expect(drained.status).toBe(200);
    expect((await get(`/v1/node/${uuid(9)}`)).body.Drain).toBe(true);
    const Index = await report(allocation({ ClientStatus: "complete" }));
    expect((await get(`/v1/node/${uuid(9)}`)).body).toMatchObject({ Drain: false, ModifyIndex: Index });
    const ended = (await eventsOf("*")).filter((event) => event.Index === Index);
    expect(ended.map(({ Topic }) => Topic)).toEqual(["Allocation", "NodeDrain"]);
  });
});

describe("a body", () => {
  const lines = [job({ ID: "a" }), job({ ID: "b" })].map((event) => JSON.stringify(event));

  it.each([
    ["one event", JSON.stringify(job({ ID: "a" })), ["a"]],
    ["one event over several lines", JSON.stringify(job({ ID: "a" }), null, 2), ["a"]],
    ["a list", `[${lines.join(",")}]`, ["a", "b"]],
    ["a list over several lines", `\n[\n${lines.join(",\n")}\n]\n`, ["a", "b"]],
    ["one event a line", lines.join("\n"), ["a", "b"]],
    ["one event a line, with empty lines and Windows' ends", `${lines.join("\r\n\r\n")}\r\n`, ["a", "b"]],
    ["a line of a stream", `{"Index":7,"Events":[${lines.join(",")}]}\n`, ["a", "b"]],
  ])("may be %s", async (_what, body, expected) => {
    expect(await send(body)).toMatchObject({ status: 200, body: { Applied: true } });
    expect(await keys("Job")).toEqual(expected);
  });

  it.each([
    ["{}", ""],
    ['{"Index":7,"Events":[]}', ""],
    ['{"Index":7,"Events":null}', "?source=eu"],
    ["{}", "?source=eu"],
  ])("may be a heartbeat of a stream, which is ignored: %s", async (body, query) => {
    const taken = await send(body, query);
    expect([taken.status, taken.body]).toEqual([200, { Index: null, Applied: false }]);
  });

  it("may have a thousand events", async () => {
    const Index = await report(...Array.from({ length: 1_000 }, (_, at) => evaluation({ ID: uuid(at) })));
    const [first, ...rest] = await eventsOf("Evaluation");
    expect([first.Key, first.Index, rest.length, rest.at(-1).Index]).toEqual([uuid(0), Index, 999, Index]);
  });

  it("may have nearly a mebibyte, in one object or in many", async () => {
    const large = "x".repeat(1_000_000);
    const Index = await report(job({ Padding: large }));
    expect((await get("/v1/job/web")).body).toMatchObject({ Padding: large, ModifyIndex: Index });
    const many = Array.from({ length: 100 }, (_, at) => job({ ID: `job-${at}`, Padding: large.slice(0, 10_000) }));
    const next = await report(...many);
    const told = (await eventsOf("Job")).filter((event) => event.Index === next);
    expect(told.map(({ Payload }) => Payload.Job.Padding.length)).toEqual(many.map(() => 10_000));
    // The last payload may exceed the size of a line; the event then carries ids only.
    for (let at = 0; at < 3; at++) await report(job({ ID: `large-${at}`, Padding: large }));
    const last = await report(...[0, 1, 2].map((at) => gone(job({ ID: `large-${at}` }))));
    const ends = (await eventsOf("Job")).filter(({ Payload }) => Payload.Deleted);
    expect(ends.map(({ Index }) => Index)).toEqual([last - 2, last - 1, last]);
    expect((await get("/v1/job/large-0")).status).toBe(404);
  });

  it("may be sent with POST, too", async () => {
    expect((await request("POST", "/v1/cluster/objects", [job()])).status).toBe(200);
  });
});

describe("a source", () => {
  it("skips no index", async () => {
    await send([job({ ID: "a" })], "?source=eu&source_index=7");
    const names = await runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
      storage.sql.exec<{ name: string }>("SELECT name FROM table_indexes").toArray(),
    );
    expect(names).toEqual([{ name: "Job" }]);
  });

  it("is stored once for any number of repetitions", async () => {
    const once = (await send([job({ ID: "a" })], "?source=eu&source_index=7")).body;
    const again = await send([job({ ID: "a" })], "?source=eu&source_index=7");
    expect([again.status, again.body]).toEqual([200, { Index: once.Index, Applied: false }]);
    expect(await keys("Job")).toEqual(["a"]);
  });

  it("is not compared with reports before its last one", async () => {
    await send([job({ ID: "a" })], "?source=eu&source_index=7");
    const last = (await send([job({ ID: "b" })], "?source=eu&source_index=9")).body;
    expect((await send([job({ ID: "c" })], "?source=eu&source_index=8")).body).toEqual({ ...last, Applied: false });
    expect((await send([job({ ID: "c" })], "?source=eu&source_index=0")).body).toEqual({ ...last, Applied: false });
    expect(await keys("Job")).toEqual(["a", "b"]);
  });

  it("has its own indexes, starting at 0", async () => {
    for (const [source, index] of [
      ["eu", 7],
      ["us", 0],
      ["us", 1],
    ]) {
      expect(
        (await send([job({ ID: `${source}-${index}` })], `?source=${source}&source_index=${index}`)).body,
      ).toMatchObject({ Applied: true });
    }
    expect(await keys("Job")).toEqual(["eu-7", "us-0", "us-1"]);
  });

  it("may repeat a refused report under the same index", async () => {
    expect((await send([job({ Status: "gone" })], "?source=eu&source_index=7")).status).toBe(400);
    expect((await send([job()], "?source=eu&source_index=7")).body.Applied).toBe(true);
  });

  it("that forwards a stream uses the line's index", async () => {
    const line = { Index: 7, Events: [job({ ID: "a" })] };
    const once = (await send(line, "?source=eu")).body;
    expect(once.Applied).toBe(true);
    expect((await send(line, "?source=eu")).body).toEqual({ Index: once.Index, Applied: false });
    expect((await send({ ...line, Index: 6 }, "?source=eu")).body.Applied).toBe(false);
    expect(await keys("Job")).toEqual(["a"]);
  });

  it("that forwards a stream loses and repeats no line of several under one index", async () => {
    const registered = { Index: 7, Events: [job()] };
    const evaluated = { Index: 7, Events: [{ ...evaluation(), Type: "JobRegistered" }] };
    const first = [await send(registered, "?source=eu"), await send(evaluated, "?source=eu")].map(({ body }) => body);
    expect(first.map(({ Applied }) => Applied)).toEqual([true, true]);
    // A stream that is resumed begins with all lines of its last index, perhaps written in another order.
    const [{ Topic, Type, Payload }] = registered.Events as [ReturnType<typeof job>];
    const rewritten = { Events: [{ Payload, Type, Topic, Index: 7 }], Index: 7 };
    const again = [await send(rewritten, "?source=eu"), await send(evaluated, "?source=eu")].map(({ body }) => body);
    expect(again).toEqual(first.map(({ Index }) => ({ Index, Applied: false })));
    expect((await send({ Index: 8, Events: [job()] }, "?source=eu")).body.Applied).toBe(true);
  });

  it("uses the index in the query before that of a line", async () => {
    const line = { Index: 7, Events: [job()] };
    expect((await send(line, "?source=eu&source_index=1")).body.Applied).toBe(true);
    expect((await send(line, "?source=eu&source_index=2")).body.Applied).toBe(true);
  });
});

it("stores nothing of a request with one invalid event", async () => {
  const managed = uuid(77);
  const joined = await registry().registerNode(managed, { Name: "own", Datacenter: "dc1", Attributes: { a: "b" } });
  expect(joined.ok).toBe(true);
  const refused = await send([job(), node({ ID: managed })], "?source=eu&source_index=7");
  expect([refused.status, refused.text]).toEqual([409, expect.stringContaining(`event 2: node ${managed} is managed`)]);
  expect([(await get("/v1/job/web")).status, await keys("Job")]).toEqual([404, []]);
  expect((await send([job()], "?source=eu&source_index=7")).body.Applied).toBe(true);
});

it("an object reported while its creation is undelivered has the right create index", async () => {
  const original = EventLog.prototype.append;
  // Flags instead of promises: one request must not await a promise of another.
  const way = { reached: false, open: false };
  vi.spyOn(EventLog.prototype, "append").mockImplementationOnce(async function (this: EventLog, ...parameters) {
    const indexes = await original.apply(this, parameters);
    way.reached = true;
    while (!way.open) await scheduler.wait(10);
    return indexes;
  });
  const created = send([job()]);
  await vi.waitFor(() => expect(way.reached).toBe(true));
  const changed = send([job({ Status: "running" })]);
  await vi.waitFor(async () => expect((await get("/v1/job/web")).body.Status).toBe("running"));
  way.open = true;
  const [first, second] = [(await created).body.Index, (await changed).body.Index];
  const seen = (await eventsOf("Job")).map(({ Payload: { Job } }) => [Job.CreateIndex, Job.ModifyIndex]);
  expect(seen).toEqual([
    [first, first],
    [first, second],
  ]);
  expect((await get("/v1/job/web")).body).toMatchObject({ CreateIndex: first, ModifyIndex: second });
});

describe("during an outage of the event log", () => {
  const down = () => vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("the log is down"));

  it("reports are stored and answered, and reads show the indexes known so far", async () => {
    const first = await report(job({ Status: "pending" }));
    down();
    const taken = await send([job({ Status: "running" }), job({ ID: "new" })]);
    expect([taken.status, taken.body]).toEqual([200, { Index: null, Applied: true }]);
    expect((await get("/v1/job/web")).body).toMatchObject({
      Status: "running",
      CreateIndex: first,
      ModifyIndex: first,
    });
    const fresh = await get("/v1/job/new");
    expect([fresh.body.ModifyIndex, fresh.headers.get("x-orch-index")]).toEqual([0, "1"]);
  });

  it("a repeated report is recognised, and has its index later", async () => {
    const append = down();
    const query = "?source=eu&source_index=7";
    expect((await send([job()], query)).body).toEqual({ Index: null, Applied: true });
    expect((await send([job()], query)).body).toEqual({ Index: null, Applied: false });
    append.mockRestore();
    await vi.waitFor(
      async () => expect((await send([job()], query)).body).toEqual({ Index: expect.any(Number), Applied: false }),
      { interval: 200 },
    );
    expect((await get("/v1/job/web")).body.ModifyIndex).toBe((await send([job()], query)).body.Index);
  });

  it("lines wait in order, and each object's create index is that of its first line", async () => {
    const append = down();
    const told = [job({ Status: "pending" }), job({ Status: "running" }), job({ ID: "other" }), gone(job()), job()];
    for (const event of told) expect((await send([event])).body.Index).toBeNull();
    append.mockRestore();
    const lines = await vi.waitFor(
      async () => {
        const events = await eventsOf("Job");
        expect(events).toHaveLength(told.length);
        return events;
      },
      { interval: 200 },
    );
    const at = lines.map(({ Index }) => Index);
    expect(lines.map(({ Payload: { Job } }) => [Job.ID, Job.CreateIndex, Job.ModifyIndex])).toEqual([
      ["web", at[0], at[0]],
      ["web", at[0], at[1]],
      ["other", at[2], at[2]],
      ["web", at[0], at[3]],
      ["web", at[4], at[4]],
    ]);
    expect((await get("/v1/job/web")).body).toMatchObject({ CreateIndex: at[4], ModifyIndex: at[4] });
    expect((await get("/v1/job/other")).body).toMatchObject({ CreateIndex: at[2], ModifyIndex: at[2] });
  });
});
