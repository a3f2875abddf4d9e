import { afterEach, describe, expect, it, vi } from "vitest";
import type { StreamAnswer } from "../../src/contracts/stream-rights.ts";
import { Line } from "../../src/events/line.ts";
import { Readers } from "../../src/events/readers.ts";
import type { Subscription } from "../../src/events/subscription.ts";
import { stream } from "../../src/objects/event-streams.ts";
import { numbered } from "../../src/publishing/numbered-events.ts";
import { event } from "./streams.ts";

/* The cost of readers and how they are cut off, on a log in memory. */

const ALLOWED: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };
const SUBSCRIPTION: Subscription = {
  accessor: "a",
  topics: { "*": ["*"] },
  namespace: "*",
  from: 0,
  dialect: "neutral",
  format: "lines",
  errors: false,
};
const controllers: AbortController[] = [];

afterEach(() => {
  for (const controller of controllers.splice(0)) controller.abort();
});

function withReaders({ heartbeatMs = 50, stallMs = 150, onAsk = () => {} } = {}) {
  const lines: Line[] = [];
  let evicted = 0;
  const log = {
    newest: () => lines.length,
    evicted: () => evicted,
    gaps: () => [],
    after: vi.fn((cursor: number) => ({ lines: lines.slice(cursor), upTo: lines.length })),
  };
  const readers = new Readers(
    log,
    async (questions) => {
      onAsk();
      return questions.map(() => ALLOWED);
    },
    () => ({ heartbeatMs, stallMs }),
  );
  const append = (size = 1_000, more = {}) => {
    const line = Line.of(
      lines.length + 1,
      numbered([event({ Payload: { Job: { ID: "x".repeat(size) } }, ...more })], lines.length + 1),
    );
    lines.push(line);
    readers.wake([line]);
  };
  const open = async (more: Partial<Subscription> = {}) => {
    const controller = new AbortController();
    controllers.push(controller);
    const opened = await readers.open({ ...SUBSCRIPTION, ...more }, controller.signal);
    if (!opened) throw new Error("refused");
    return opened.body.getReader();
  };
  return { readers, log, append, open, evict: (upTo: number) => (evicted = upTo) };
}

const textOf = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);
const CHUNK = 32 * 1024;

describe("readers with equal filters", () => {
  it("receive the same bytes, lines and heartbeats, read once for all of them", async () => {
    const { log, append, open } = withReaders();
    append();
    const [a, b, c] = [await open(), await open(), await open()];
    for (let n = 0; n < 3; n++) {
      const reads = [await a.read(), await b.read(), await c.read()];
      expect(new Set(reads.map(({ value }) => value)).size).toBe(1);
      append();
    }
    expect(log.after).toHaveBeenCalledTimes(3);
    const beats = await Promise.all([a, b, c].map(async (reader) => [await reader.read(), await reader.read()][1]));
    expect(textOf(beats[0]?.value)).toBe('{"Index":4,"Events":[]}\n');
    expect(new Set(beats.map((beat) => beat?.value)).size).toBe(1);
  });

  it("in another format receive that format", async () => {
    const { append, open } = withReaders();
    append();
    const first = async (more: Partial<Subscription>) => {
      const reader = await open(more);
      let text = "";
      while (!text.includes("Events")) text = textOf((await reader.read()).value);
      return text;
    };
    const plain = await first({});
    expect(await first({ format: "server-sent-events" })).toBe(`id: 1\ndata: ${plain}\n`);
    expect(await first({ dialect: "upstream" })).toBe(plain);
  });
});

describe("readers that do not read", () => {
  it("hold one chunk together, a thousand of them, for any number of events", async () => {
    const { readers, log, append, open } = withReaders({ stallMs: 60_000 });
    for (let n = 0; n < 200; n++) append();
    const all = await Promise.all(Array.from({ length: 1_000 }, () => open()));
    const chunks = new Set((await Promise.all(all.map((reader) => reader.read()))).map(({ value }) => value));
    const bytes = [...chunks].reduce((sum, chunk) => sum + (chunk?.length ?? 0), 0);
    expect(bytes).toBeLessThan(CHUNK + 2_000);
    log.after.mockClear();
    for (let n = 0; n < 200; n++) append(10_000);
    await scheduler.wait(200);
    expect(log.after).not.toHaveBeenCalled();
    expect(readers.count).toBe(1_000);
  });

  it("receive a large line in pieces, all from the same bytes", async () => {
    const { append, open } = withReaders({ heartbeatMs: 60_000, stallMs: 60_000 });
    append(1_000_000);
    append();
    const all = await Promise.all(Array.from({ length: 20 }, () => open()));
    const first = await Promise.all(all.map((reader) => reader.read()));
    expect(new Set(first.map(({ value }) => value?.buffer)).size).toBe(1);
    let text = textOf(first[0]?.value);
    while (text.split("\n").length < 3) {
      const { value } = (await all[0]?.read()) ?? {};
      expect(value?.length).toBeLessThanOrEqual(64 * 1024);
      text += textOf(value);
    }
    const lines = text.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).Index)).toEqual([1, 2]);
    expect(lines[0]?.length).toBeGreaterThan(1_000_000);
  });

  it("receive the rest of a large line before the error of their cut", async () => {
    const { readers, append, open } = withReaders({ heartbeatMs: 50, stallMs: 1_500 });
    append(200_000);
    const stalled = await open({ errors: true });
    let text = textOf((await stalled.read()).value);
    await vi.waitFor(() => expect(readers.stats.cut.slow_consumer).toBe(1));
    for (let read = await stalled.read(); !read.done; read = await stalled.read()) text += textOf(read.value);
    const lines = text.trim().split("\n");
    expect([lines.length, JSON.parse(lines[0] ?? "").Index]).toEqual([2, 1]);
    expect(lines[1]).toBe('{"Error":{"Code":"slow_consumer","LastIndex":1}}');
  });

  it("with different filters hold a bounded amount of memory together", async () => {
    const { append, open } = withReaders({ stallMs: 60_000 });
    for (let n = 0; n < 100; n++) append(1_000, { FilterKeys: Array.from({ length: 400 }, (_, k) => `k${k}`) });
    const pairs = await Promise.all(
      Array.from({ length: 400 }, async (_, k) => {
        const topics = { Job: [`k${k}`] };
        return [await open({ topics }), await open({ topics })] as const;
      }),
    );
    const kept: boolean[] = [];
    for (const [one] of pairs) await one.read();
    for (const [, two] of [...pairs].reverse()) {
      const encodes = vi.spyOn(TextEncoder.prototype, "encode");
      await two.read();
      kept.push(encodes.mock.calls.length === 0);
      encodes.mockRestore();
    }
    const count = kept.filter(Boolean).length;
    expect(count * CHUNK).toBeLessThan(6 * 1024 * 1024);
    expect(count).toBeGreaterThan(50);
  });

  it("are cut after a while, and their pending chunks are dropped", async () => {
    const { readers, append, open } = withReaders();
    append();
    const stalled = await open();
    await stalled.read();
    await vi.waitFor(() => expect(readers.count).toBe(0));
    await expect(stalled.read()).rejects.toThrow("slow consumer");
  });

  it("are cut also when only a heartbeat is pending", async () => {
    const { readers, open } = withReaders();
    const stalled = await open();
    await stalled.read();
    await vi.waitFor(() => expect(readers.count).toBe(0));
  });

  it("receive an error if they requested errors and read it in time", async () => {
    const { readers, append, open } = withReaders({ heartbeatMs: 50, stallMs: 1_500 });
    append();
    append();
    const stalled = await open({ errors: true, from: 2 });
    await stalled.read();
    await vi.waitFor(() => expect(readers.stats.cut.slow_consumer).toBe(1));
    append();
    expect(textOf((await stalled.read()).value)).toBe('{"Error":{"Code":"slow_consumer","LastIndex":2}}\n');
    expect(await stalled.read()).toEqual({ done: true, value: undefined });
    expect(readers.count).toBe(0);
  });

  it("are cut also if they requested errors and never read", async () => {
    const { readers, append, open } = withReaders();
    append();
    const stalled = await open({ errors: true });
    await stalled.read();
    await vi.waitFor(() => expect(readers.count).toBe(0));
    await expect(stalled.read()).rejects.toThrow();
  });

  it("do not delay other readers, which are never cut", async () => {
    // The others are cut while this one reads.
    const LINES = 240;
    const { readers, append, open } = withReaders({ heartbeatMs: 50, stallMs: 1_500 });
    append();
    const stalled = await Promise.all(Array.from({ length: 100 }, () => open()));
    for (const reader of stalled) await reader.read();
    const live = await open();
    const seen: number[] = [];
    const reading = (async () => {
      while (seen.at(-1) !== LINES) {
        for (const line of textOf((await live.read()).value)
          .trim()
          .split("\n")) {
          const { Index, Events } = JSON.parse(line);
          if (Events.length > 0) seen.push(Index);
        }
      }
    })();
    for (let n = 2; n <= LINES; n++) {
      append();
      await scheduler.wait(10);
    }
    await reading;
    expect(seen).toEqual(Array.from({ length: LINES }, (_, n) => n + 1));
    await vi.waitFor(() => expect(readers.count).toBe(1));
  });
});

describe("readers that disconnect", () => {
  it("release all resources at once, in any state", async () => {
    const { readers, append, open } = withReaders();
    append();
    const [reading, waiting, idle] = [await open(), await open(), await open()];
    await reading.read();
    await waiting.read();
    const pending = waiting.read();
    await reading.cancel();
    expect(readers.count).toBe(2);
    for (const controller of controllers.splice(0)) controller.abort();
    expect(readers.count).toBe(0);
    await Promise.allSettled([pending, idle.cancel(), waiting.cancel()]);
  });
});

it("a reader whose next line was evicted is cut instead of skipping lines", async () => {
  const { append, open, evict } = withReaders({ stallMs: 60_000 });
  for (let n = 0; n < 5; n++) append();
  const reader = await open({ errors: true });
  await reader.read();
  for (let n = 0; n < 5; n++) append();
  evict(8);
  expect(textOf((await reader.read()).value)).toBe('{"Error":{"Code":"slow_consumer","LastIndex":5}}\n');
  expect((await reader.read()).done).toBe(true);
});

describe("lines that are evicted while a stream is opened", () => {
  it.each([
    { from: 3, oldest: "5", start: null },
    { from: 0, oldest: "5", start: null },
    { from: 5, oldest: "3", start: null },
    { from: -1, oldest: "3", start: null },
    { from: 90, oldest: "3", start: "7" },
  ])("are a gap in the answer from index $from: oldest index $oldest", async ({ from, oldest, start }) => {
    const { readers, append, evict } = withReaders({ onAsk: () => evict(4) });
    for (let n = 0; n < 6; n++) append();
    const controller = new AbortController();
    controllers.push(controller);
    const answer = await stream(readers, { ...SUBSCRIPTION, from }, controller.signal, { oldest: 3, newest: 6 });
    expect([answer.headers.get("x-oldest-index"), answer.headers.get("x-start-index")]).toEqual([oldest, start]);
    if (from < 0 || from > 6) return;
    const { value } = await (answer.body as ReadableStream<Uint8Array>).getReader().read();
    expect(JSON.parse(textOf(value).split("\n")[0] ?? "").Index).toBe(5);
  });
});
