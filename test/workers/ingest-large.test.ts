import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { MAX_EVENTS, MAX_REPORT_BYTES, readReports } from "../../src/cluster/reports/report-body.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { EventLog } from "../../src/worker.ts";
import { eventsOf } from "./access.ts";
import { get } from "./client.ts";
import { allocation, evaluation, job, report, send, uuid } from "./reports.ts";
import { closeAll, openStream, type ReadLine } from "./streams.ts";

afterEach(closeAll);

/** An upstream line about a job with this many allocations, each padded to a size. */
const planOf = (count: number, bytes: number) => ({
  Index: 7,
  Events: [
    { ...evaluation(), Type: "PlanResult" },
    ...Array.from({ length: count }, (_, at) => ({
      ...allocation({ ID: uuid(at + 100), Metrics: { Note: `${at} `.repeat(bytes).slice(0, bytes) } }),
      Type: "PlanResult",
    })),
  ],
});

/** The lines of the backlog that have events, each with the length of its text. */
async function backlog(): Promise<(ReadLine & { readonly length: number })[]> {
  const stream = await openStream("");
  const lines: (ReadLine & { readonly length: number })[] = [];
  for (;;) {
    const text = (await stream.nextText()) ?? "";
    const line = JSON.parse(text) as ReadLine;
    if (line.Events.length === 0) return lines;
    lines.push({ ...line, length: text.length });
  }
}

const keysOf = (lines: readonly ReadLine[]) => lines.flatMap(({ Events }) => Events.map(({ Key }) => Key));

describe("a large line of a stream", () => {
  it("of 15 000 events and 10 MiB is stored in one transaction and published in order, in lines that each fit a row", async () => {
    const line = planOf(15_000, 550);
    expect(JSON.stringify(line).length).toBeGreaterThan(10 * 1024 * 1024);
    const taken = await send(line, "?source=eu");
    expect([taken.status, taken.body]).toEqual([200, { Index: expect.any(Number), Applied: true }]);
    const lines = await backlog();
    expect(keysOf(lines)).toEqual([uuid(2), ...Array.from({ length: 15_000 }, (_, at) => uuid(at + 100))]);
    expect(lines.length).toBeGreaterThan(5);
    expect(lines.filter(({ length }) => length > 1_700_000)).toEqual([]);
    expect(lines.map(({ Index }) => Index)).toEqual(lines.map((_, at) => (lines[0]?.Index ?? 0) + at));
    expect(taken.body.Index).toBe(lines.at(-1)?.Index);
    for (const { Index, Events } of [lines[0], lines.at(-1)].filter((each) => each !== undefined)) {
      const last = Events.at(-1)?.Key;
      expect((await get(`/v1/allocation/${last}`)).body).toMatchObject({ CreateIndex: Index, ModifyIndex: Index });
    }
    expect((await send(line, "?source=eu")).body).toEqual({ Index: taken.body.Index, Applied: false });
    expect(await eventsOf("Evaluation")).toHaveLength(1);
  }, 300_000);

  it("is stored completely or not at all", async () => {
    const line = planOf(15_000, 550);
    line.Events[14_000] = job({ Status: "gone" }) as (typeof line.Events)[number];
    const refused = await send(line, "?source=eu");
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("event 14001: Payload.Job.Status")]);
    expect([(await get(`/v1/allocation/${uuid(100)}`)).status, await backlog()]).toEqual([404, []]);
    expect((await send({ Index: 7, Events: [job()] }, "?source=eu")).body.Applied).toBe(true);
  });

  it("waits for its turn after another one, also one that fails", async () => {
    const [event] = readReports(JSON.stringify([job()]), "default").reports;
    const bytes = new TextEncoder().encode(`${JSON.stringify(event)}\n`);
    const [first, second] = [new IdentityTransformStream(), new IdentityTransformStream()];
    // Calls of one stub arrive in order.
    const registry = clusterRegistry(env);
    const ingest = async ({ readable }: IdentityTransformStream) => registry.ingestStream(null, readable, {});
    const [left, taken] = [ingest(first), ingest(second)];
    const [writerOfFirst, writer] = [first.writable.getWriter(), second.writable.getWriter()];
    await Promise.all([writerOfFirst.write(bytes), writer.write(bytes), writer.close()]);
    expect(await Promise.race([taken, scheduler.wait(200).then(() => "waits")])).toBe("waits");
    const cut = expect(left).rejects.toThrow("JSON");
    await writerOfFirst.write(new TextEncoder().encode("{\n"));
    await writerOfFirst.close();
    await cut;
    expect(await taken).toMatchObject({ ok: true, value: { applied: true } });
    expect((await get("/v1/job/web")).status).toBe(200);
  });

  it("is completed in order when the log fails midway, before later lines of other sources", async () => {
    const original = EventLog.prototype.append;
    let calls = 0;
    const append = vi.spyOn(EventLog.prototype, "append").mockImplementation(async function (this: EventLog, ...given) {
      calls += 1;
      if (calls > 1) throw new Error("the log is down");
      return original.apply(this, given);
    });
    const line = planOf(600, 20_000);
    expect((await send(line, "?source=eu")).body).toEqual({ Index: null, Applied: true });
    expect((await send(line, "?source=eu")).body).toEqual({ Index: null, Applied: false });
    expect((await send([job({ ID: "other" })], "?source=us&source_index=1")).body.Applied).toBe(true);
    expect(calls).toBeGreaterThan(1);
    append.mockRestore();
    await vi.waitFor(async () => expect(keysOf(await backlog())).toContain("other"), {
      timeout: 30_000,
      interval: 500,
    });
    const keys = [uuid(2), ...Array.from({ length: 600 }, (_, at) => uuid(at + 100)), "other"];
    expect(keysOf(await backlog())).toEqual(keys);
    const last = (await backlog()).at(-2)?.Index;
    expect((await send(line, "?source=eu")).body).toEqual({ Index: last, Applied: false });
  });
});

it("an object created and changed in one report has its create index", async () => {
  const filler = Array.from({ length: 4 }, (_, at) => job({ ID: `filler-${at}`, Padding: "x".repeat(700_000) }));
  const Index = await report(job({ Status: "pending" }), ...filler, job({ Status: "running" }));
  const lines = await backlog();
  expect(lines.length).toBeGreaterThan(1);
  const seen = lines.flatMap(({ Index, Events }) =>
    Events.filter(({ Key }) => Key === "web").map(({ Payload }) => [
      Index,
      (Payload as Record<string, unknown>)["Job"],
    ]),
  );
  const first = lines[0]?.Index;
  expect(seen).toMatchObject([
    [first, { CreateIndex: first, ModifyIndex: first }],
    [Index, { CreateIndex: first, ModifyIndex: Index }],
  ]);
  expect((await get("/v1/job/web")).body).toMatchObject({ CreateIndex: first, ModifyIndex: Index, Status: "running" });
});

describe("the limits of a report", () => {
  it("are named in their errors", async () => {
    const event = JSON.stringify(job());
    const most = `[${Array.from({ length: MAX_EVENTS }, () => event).join(",")}]`;
    const rows: [what: string, body: string, message: string][] = [
      ["bytes", `[${event}]${" ".repeat(MAX_REPORT_BYTES)}`, `request body: larger than ${MAX_REPORT_BYTES} bytes`],
      ["events", `${most.slice(0, -1)},${event}]`, `request body: at most ${MAX_EVENTS} events`],
      ["lines", `${event}\n`.repeat(MAX_EVENTS + 1), `request body: at most ${MAX_EVENTS} events`],
      [
        "one event",
        JSON.stringify([job({ ID: "good" }), job({ X: '"'.repeat(500_000) })]),
        "event 2: what it tells takes more than 1850000 bytes as one line of the stream",
      ],
    ];
    for (const [what, body, message] of rows) {
      const refused = await send(body);
      expect([what, refused.status, refused.text]).toEqual([what, 413, expect.stringContaining(message)]);
    }
    expect(await backlog()).toEqual([]);
    expect((await send(most)).status).toBe(200);
  });
});
