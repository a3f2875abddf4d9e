import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { AccountGap } from "../contracts/event-log.ts";
import type { StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { numbered } from "../publishing/numbered-events.ts";
import type { LogView } from "./group.ts";
import { Line } from "./line.ts";
import { Readers } from "./readers.ts";
import type { Subscription } from "./subscription.ts";

/** A log in memory, of which all lines from `evicted` on are to be had. */
class SmallLog implements LogView {
  readonly lines: Line[] = [];
  gone = 0;
  newest = () => this.lines.at(-1)?.index ?? 0;
  evicted = () => this.gone;
  lost: AccountGap[] = [];
  gaps = (cursor: number) => this.lost.filter(({ upTo }) => upTo > cursor);
  after = (cursor: number) => ({ lines: this.lines.filter(({ index }) => index > cursor), upTo: this.newest() });

  add(Topic: string, Key: string, Namespace = "default"): Line {
    const index = this.newest() + 1;
    const event = { Topic, Type: Topic, Key, Namespace, FilterKeys: null, Payload: {} };
    const line = Line.of(index, numbered([event], index));
    this.lines.push(line);
    return line;
  }
}

const HEARTBEAT_MS = 1_000;
const STALL_MS = 5_000;
const OPEN: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };

let log: SmallLog;
let asked: (readonly StreamQuestion[])[];
let answer: (question: StreamQuestion) => StreamAnswer;
let readers: Readers;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("scheduler", { wait: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)) });
  log = new SmallLog();
  asked = [];
  answer = () => OPEN;
  readers = new Readers(
    log,
    async (questions) => {
      asked.push(questions);
      return questions.map((question) => answer(question));
    },
    () => ({ heartbeatMs: HEARTBEAT_MS, stallMs: STALL_MS }),
  );
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const subscription = (changes: Partial<Subscription> = {}): Subscription => ({
  accessor: "a",
  topics: { Job: ["*"] },
  namespace: "default",
  from: 0,
  dialect: "neutral",
  format: "lines",
  errors: true,
  ...changes,
});

interface Opened {
  /** The next line, or null at the end. */
  next(): Promise<{ Index?: number; Events?: { Key: string }[]; Error?: { Code: string; LastIndex: number } } | null>;
  leave(): Promise<void>;
  readonly abort: AbortController;
}

async function open(changes: Partial<Subscription> = {}): Promise<Opened> {
  const abort = new AbortController();
  const stream = await readers.open(subscription(changes), abort.signal);
  if (!stream) throw new Error("not allowed");
  const reader = stream.body.getReader();
  let texts: string[] = [];
  return {
    abort,
    async next() {
      while (texts.length === 0) {
        const { done, value } = await reader.read();
        if (done) return null;
        texts = new TextDecoder().decode(value).trimEnd().split("\n");
      }
      return JSON.parse(texts.shift() ?? "");
    },
    leave: () => reader.cancel(),
  };
}

/** A change of policies makes all permissions unsure, and they are asked again. */
async function tellOfPolicies(): Promise<number> {
  asked = [];
  readers.wake([log.add("ACLPolicy", "p", "")]);
  await vi.advanceTimersByTimeAsync(0);
  return asked.flat().length;
}

describe("closed readers", () => {
  it("cause no rights checks after the last reader of a permission is closed", async () => {
    const [first, second, other] = [await open(), await open(), await open({ accessor: "b" })];
    expect(await tellOfPolicies()).toBe(2);
    await first.leave();
    expect([readers.count, await tellOfPolicies()]).toEqual([2, 2]);
    second.abort.abort();
    expect([readers.count, await tellOfPolicies()]).toEqual([1, 1]);
    await other.leave();
    expect([readers.count, await tellOfPolicies()]).toEqual([0, 0]);
  });

  it("leave no permission for a later reader of the same token", async () => {
    await (await open()).leave();
    answer = () => ({ allowed: false });
    await expect(open()).rejects.toThrow("not allowed");
  });

  it("leave no timer, and the next reader starts one", async () => {
    await (await open()).leave();
    expect(vi.getTimerCount()).toBe(0);
    const next = await open();
    expect((await next.next())?.Events).toEqual([]);
    const beat = next.next();
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS);
    expect((await beat)?.Index).toBe(0);
    await next.leave();
  });
});

describe("a line of more than 64 KiB", () => {
  it("is sent in pieces of 64 KiB", async () => {
    const line = log.add("Job", "k".repeat(100_000));
    const stream = await readers.open(subscription(), new AbortController().signal);
    const reader = stream?.body.getReader();
    const pieces: Uint8Array[] = [];
    for (let text = ""; !text.endsWith("\n"); text = Buffer.concat(pieces).toString()) {
      const { value } = (await reader?.read()) ?? {};
      if (!value) throw new Error("no more bytes");
      pieces.push(value);
    }
    expect(pieces.map(({ length }) => length).slice(0, -1)).toEqual(Array(pieces.length - 1).fill(65_536));
    expect(pieces.length).toBe(Math.ceil(Buffer.concat(pieces).length / 65_536));
    expect(Buffer.concat(pieces).length).toBeGreaterThan(line.text.length);
    await reader?.cancel();
  });
});

describe("a reader", () => {
  it("starts at the requested index or at the oldest buffered line", async () => {
    for (const key of ["a", "b", "c", "d"]) log.add("Job", key);
    log.gone = 2;
    for (const [from, first] of [
      [0, 3],
      [2, 3],
      [3, 3],
      [4, 4],
    ] as const) {
      const reader = await open({ from });
      expect((await reader.next())?.Index, `from ${from}`).toBe(first);
      await reader.leave();
    }
  });

  it.each([
    [3, 2, 3],
    [3, 3, 4],
    [0, 4, 5],
    [5, 4, 5],
    [-1, 2, 6],
  ])(
    "from index %i, with lines up to %i evicted while its rights are checked, names %i as its first",
    async (from, gone, first) => {
      for (const key of ["a", "b", "c", "d", "e"]) log.add("Job", key);
      answer = () => {
        log.gone = gone;
        return OPEN;
      };
      const opened = await readers.open(subscription({ from }), new AbortController().signal);
      expect(opened?.first).toBe(first);
      await opened?.body.cancel();
    },
  );

  it("is cut when its next line was evicted, not when its last line was", async () => {
    for (const key of ["a", "b", "c"]) log.add("Job", key);
    const [kept, cut] = [await open({ from: 2 }), await open({ from: 2 })];
    log.gone = 1;
    expect((await kept.next())?.Index).toBe(2);
    log.gone = 2;
    expect(await cut.next()).toEqual({ Error: { Code: "slow_consumer", LastIndex: 1 } });
    expect([await cut.next(), readers.stats.cut.slow_consumer, readers.count]).toEqual([null, 1, 1]);
  });

  it("is cut when lines of an account that it may see were evicted, unless its answer has told of them", async () => {
    for (const key of ["a", "b", "c"]) log.add("Job", key);
    const topics = { Job: ["*"], ACLToken: ["*"] };
    const [cut, other] = [await open({ from: 1, topics }), await open({ from: 1 })];
    log.lost = [{ account: "namespace n", upTo: 2 }];
    expect(await cut.next()).toEqual({ Error: { Code: "slow_consumer", LastIndex: 0 } });
    expect((await other.next())?.Index).toBe(1);
    for (const [from, gap] of [
      [1, 2],
      [2, 2],
      [3, 0],
    ] as const) {
      const opened = await readers.open(subscription({ from, topics }), new AbortController().signal);
      const { value } = (await opened?.body.getReader().read()) ?? {};
      const [line = ""] = new TextDecoder().decode(value).split("\n");
      expect([opened?.gap, JSON.parse(line).Index], `from ${from}`).toEqual([gap, from]);
    }
  });

  it("receives no line after a token event before its rights are checked again", async () => {
    const reader = await open({ from: -1 });
    expect((await reader.next())?.Events).toEqual([]);
    answer = () => ({ ...OPEN, scope: { namespaces: ["other"], rules: null } });
    const line = reader.next();
    readers.wake([log.add("ACLToken", "a", ""), log.add("Job", "hidden"), log.add("Job", "shown", "other")]);
    await vi.advanceTimersByTimeAsync(0);
    expect((await line)?.Events?.map(({ Key }) => Key)).toEqual(["shown"]);
  });

  it("is checked again after policy events and after events of its own token only", async () => {
    await open({ accessor: "a" });
    await open({ accessor: "b" });
    asked = [];
    readers.wake([log.add("ACLToken", "b", "")]);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked.flat().map(({ accessor }) => accessor)).toEqual(["b"]);
    asked = [];
    readers.wake([log.add("Job", "b")]);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toEqual([]);
  });

  it("that does not read is cut after the stall timeout, counted from its last read", async () => {
    const reader = await open({ errors: false });
    await reader.next();
    await vi.advanceTimersByTimeAsync(STALL_MS - HEARTBEAT_MS);
    expect(readers.count).toBe(1);
    // Drains the stream: the stall timer restarts.
    await reader.next();
    await vi.advanceTimersByTimeAsync(STALL_MS - 1);
    expect(readers.count).toBe(1);
    await vi.advanceTimersByTimeAsync(2 * HEARTBEAT_MS);
    expect([readers.count, readers.stats.cut.slow_consumer]).toEqual([0, 1]);
    await expect(reader.next()).rejects.toThrow("slow consumer");
  });

  it("receives nothing from the expiry of its token until a renewal is confirmed", async () => {
    const expires = Date.now() + 2_500;
    answer = () => ({ ...OPEN, expires });
    const reader = await open();
    await reader.next();
    let answered = false;
    const next = reader.next().then((line) => {
      answered = true;
      return line;
    });
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS);
    expect(answered).toBe(true);
    await next;
    answer = () => ({ allowed: false });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(readers.stats.cut.permission_denied).toBe(1);
  });

  it("with an expired token receives no heartbeat while AccessControl is unreachable", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const expires = Date.now() + HEARTBEAT_MS / 2;
    answer = () => ({ ...OPEN, expires });
    const reader = await open();
    await reader.next();
    answer = () => {
      throw new Error("nobody there");
    };
    let lines = 0;
    const next = reader.next().then(() => {
      lines += 1;
    });
    await vi.advanceTimersByTimeAsync(3 * HEARTBEAT_MS);
    expect([lines, readers.count]).toEqual([0, 1]);
    answer = () => OPEN;
    await vi.advanceTimersByTimeAsync(10 * HEARTBEAT_MS);
    await next;
    expect(lines).toBe(1);
  });
});
