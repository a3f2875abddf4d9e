import { afterEach, describe, expect, it, vi } from "vitest";
import type { AccountGap } from "../../src/contracts/event-log.ts";
import type { StreamAnswer } from "../../src/contracts/stream-rights.ts";
import { Feed } from "../../src/events/feed.ts";
import { feedText } from "../../src/events/feed-line.ts";
import { encode, feedPage } from "../../src/events/group.ts";
import { Line } from "../../src/events/line.ts";
import { Readers } from "../../src/events/readers.ts";
import type { Subscription } from "../../src/events/subscription.ts";
import { numbered } from "../../src/publishing/numbered-events.ts";
import { randomFrom } from "../crash/random.ts";
import { event } from "./streams.ts";

/* A relay's feed and its readers on a log in memory, whose connections break and hold back as the tests like. */

const ALLOWED: StreamAnswer = { allowed: true, scope: { namespaces: null, rules: null }, expires: null };
const controllers: AbortController[] = [];

afterEach(() => {
  for (const controller of controllers.splice(0)) controller.abort();
});

/** A log in memory, and one relay of it. */
function relayed({ stallMs = 60_000, heartbeatMs = 50 } = {}) {
  const lines: Line[] = [];
  let evicted = 0;
  let gaps: readonly AccountGap[] = [];
  let isThere: (line: Line) => boolean = () => true;
  let news = Promise.withResolvers<void>();
  const view = {
    newest: () => lines.length,
    evicted: () => evicted,
    gaps: (cursor: number) => gaps.filter(({ upTo }) => upTo > cursor),
    after: (cursor: number) => ({ lines: lines.slice(cursor).filter(isThere), upTo: lines.length }),
  };
  /** Breaks or delays calls between the relay and the log. */
  const trouble = { bounds: async () => {}, follow: async () => {}, chunk: async () => {}, page: async () => {} };
  const bounds = vi.fn(async () => {
    await trouble.bounds();
    return { oldest: lines.length === 0 ? 0 : evicted + 1, newest: lines.length, gaps };
  });
  let pages = 0;
  const atOnce = { pages: 0 };
  const ask = vi.fn(async (questions: readonly unknown[]) => questions.map(() => ALLOWED));
  const feed: Feed = new Feed(
    {
      bounds,
      follow: async (after) => {
        await trouble.follow();
        let cursor = Math.max(after, evicted);
        return new ReadableStream(
          {
            type: "bytes",
            pull: async (controller) => {
              await trouble.chunk();
              if (cursor >= lines.length) await Promise.race([news.promise, scheduler.wait(heartbeatMs)]);
              if (cursor < evicted) throw new Error("slow consumer");
              const chunk = lines.slice(cursor, cursor + 20);
              cursor += chunk.length;
              controller.enqueue(encode(chunk.map(feedText).join("") || "\n"));
            },
          },
          { highWaterMark: 0 },
        );
      },
      lines: async (after, traces) => {
        atOnce.pages = Math.max(atOnce.pages, ++pages);
        try {
          await trouble.page();
          return feedPage(view, after, traces);
        } finally {
          pages -= 1;
        }
      },
    },
    {
      hasReaders: () => readers.count > 0,
      onLines: (told, lost) => {
        if (lost) readers.invalidateAll();
        readers.wake(told);
      },
      timeouts: () => ({ idleMs: heartbeatMs, silentMs: 500 }),
    },
  );
  const readers = new Readers(feed, ask, () => ({ heartbeatMs, stallMs }));
  const append = (count: number, more = (_index: number): object => ({})) => {
    for (let n = 0; n < count; n++) {
      const index = lines.length + 1;
      lines.push(Line.of(index, numbered([event(more(index))], index)));
    }
    news.resolve();
    news = Promise.withResolvers();
  };
  const open = async (more: Partial<Subscription> = {}) => {
    const { newest, oldest } = await feed.join();
    const controller = new AbortController();
    controllers.push(controller);
    const subscription: Subscription = {
      accessor: "a",
      topics: { "*": ["*"] },
      namespace: "*",
      dialect: "neutral",
      format: "lines",
      errors: true,
      ...more,
      from: (more.from ?? 0) < 0 ? newest + 1 : Math.max(more.from ?? 0, oldest),
    };
    const stream = await readers.open(subscription, controller.signal);
    if (!stream) throw new Error("refused");
    return { reader: stream.body.getReader(), from: subscription.from, close: () => controller.abort() };
  };
  const evict = (upTo: number) => {
    evicted = upTo;
  };
  /** Evicts lines of an account up to an index, while those of others stay. */
  const evictOf = (account: string, upTo: number, isOf: (line: Line) => boolean) => {
    gaps = [{ account, upTo }];
    isThere = (line) => line.index > upTo || !isOf(line);
  };
  return { lines, readers, feed, ask, bounds, trouble, atOnce, append, open, evict, evictOf };
}

type Opened = Awaited<ReturnType<ReturnType<typeof relayed>["open"]>>;

/** The indexes of the lines that a reader gets until it has passed `last`; signs of life never run ahead of lines. */
async function indexesTo(
  { reader }: Opened,
  last: number,
  pause: () => Promise<unknown> = async () => {},
  beats: number[] = [],
) {
  const decoder = new TextDecoder();
  const found: number[] = [];
  let [rest, at] = ["", 0];
  while (at < last) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`ended at ${at}`);
    const texts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = texts.pop() ?? "";
    for (const text of texts) {
      const { Index, Events, Error: failure } = JSON.parse(text);
      if (failure) throw new Error(failure.Code);
      if (Index < at || (Events.length > 0 && Index === at)) throw new Error(`${Index} after ${at}`);
      at = Index;
      (Events.length > 0 ? found : beats).push(Index);
    }
    await pause();
  }
  return found;
}

const upTo = (last: number, first = 1) => Array.from({ length: Math.max(0, last - first + 1) }, (_, n) => first + n);

const SEED = Date.now() % 1_000_000;

describe(`readers of a relay (seed ${SEED})`, () => {
  it.each([0, 1, 2, 3])(
    "get each of their lines once, from any start, under failures of feed and pages (round %i)",
    async (round) => {
      const random = randomFrom(SEED + round);
      const below = (most: number) => Math.floor(random() * most);
      const { lines, append, open, trouble } = relayed();
      const size = round % 2 === 0 ? 100 : 12_000;
      const TOPICS = ["Job", "Node", "Operator"];
      const more = (index: number) => ({
        Topic: TOPICS[index % 3],
        Payload: { Job: { ID: "x".repeat(below(size)) } },
      });
      const fail = (share: number) => async () => {
        if (random() < 0.3) await scheduler.wait(below(4));
        if (random() < share) throw new Error("broken");
      };
      Object.assign(trouble, { follow: fail(0.3), chunk: fail(0.05), page: fail(0.1) });
      append(400 + below(800), more);
      const END = 2_000;
      const reading = Array.from({ length: 20 }, async (_, number) => {
        await scheduler.wait(below(300));
        const topic = TOPICS[number % 6];
        const from = [0, -1, 1 + below(lines.length), lines.length, lines.length + 1 + below(40)][below(5)] ?? 0;
        // Refused while the feed does not catch up.
        const opened = await vi.waitFor(() => open({ from, ...(topic && { topics: { [topic]: ["*"] } }) }), 60_000);
        const seen = await indexesTo(opened, END, async () => {
          if (random() < 0.1) await scheduler.wait(below(20));
        });
        const wanted = (index: number) => !topic || TOPICS[index % 3] === topic;
        expect(seen, `${SEED} ${number} from ${from}`).toEqual(upTo(END, Math.max(1, opened.from)).filter(wanted));
      });
      const writing = (async () => {
        while (lines.length < END) {
          append(Math.min(1 + below(60), END - lines.length), more);
          await scheduler.wait(below(15));
        }
      })();
      await Promise.all([...reading, writing]);
    },
    120_000,
  );

  it("behind the ring hold few pages, for any number and any filters", async () => {
    const { append, open, trouble, atOnce } = relayed();
    append(100, (index) => ({ FilterKeys: upTo(60).map((n) => `k${n}`), Key: String(index) }));
    trouble.page = () => scheduler.wait(1);
    const opened = await Promise.all(upTo(60).map((n) => open({ topics: { Job: [`k${n}`] } })));
    for (const seen of await Promise.all(opened.map((one) => indexesTo(one, 100)))) expect(seen).toEqual(upTo(100));
    expect(atOnce.pages).toBeGreaterThan(1);
    expect(atOnce.pages).toBeLessThanOrEqual(8);
  });

  it("behind the ring share the pages they fetch", async () => {
    const { append, open, trouble } = relayed();
    append(50);
    const page = vi.fn(async () => {});
    trouble.page = page;
    const opened = await Promise.all(upTo(100).map(() => open()));
    await Promise.all(opened.map((one) => indexesTo(one, 50)));
    expect(page).toHaveBeenCalledTimes(1);
  });

  it("behind the ring get heartbeats while the log is unreachable, and missed lines afterwards", async () => {
    const { append, open, trouble } = relayed();
    append(20, () => ({ Payload: { Job: { ID: "x".repeat(60_000) } } }));
    const opened = await open();
    const first = await indexesTo(opened, 2);
    const held = Promise.withResolvers<void>();
    trouble.page = () => held.promise;
    const beats: number[] = [];
    const rest = indexesTo(opened, 20, async () => {}, beats);
    await vi.waitFor(() => expect(beats.length).toBeGreaterThan(3));
    expect(beats.at(-1)).toBeLessThan(20);
    held.resolve();
    expect([...first, ...(await rest)]).toEqual(upTo(20));
  });
});

it("a page contains no line before it is visible, and no evicted one", () => {
  const lines = upTo(5).map((index) => Line.of(index, numbered([event()], index)));
  const log = {
    newest: () => 4,
    evicted: () => 1,
    gaps: () => [],
    after: (cursor: number) => ({ lines: lines.slice(cursor), upTo: 5 }),
  };
  const page = feedPage(log, 0, null);
  expect(page.lines.map(([index]) => index)).toEqual([2, 3, 4]);
  expect(page).toMatchObject({ upTo: 4, evicted: 1 });
});

it("a reader whose next line is evicted before it is fetched is cut instead of skipping lines", async () => {
  const { append, open, trouble, evict } = relayed();
  append(50);
  const held = Promise.withResolvers<void>();
  trouble.page = () => held.promise;
  const reading = indexesTo(await open(), 50);
  await scheduler.wait(20);
  evict(20);
  held.resolve();
  await expect(reading).rejects.toThrow("slow_consumer");
});

it("a reader of an account's lines is cut when these are evicted before they are fetched, and other readers go on", async () => {
  const { append, open, trouble, evictOf } = relayed();
  append(50, (index) => ({ Topic: index % 2 === 1 ? "ACLToken" : "Job" }));
  const held = Promise.withResolvers<void>();
  trouble.page = () => held.promise;
  const tokens = indexesTo(await open({ topics: { ACLToken: ["*"] } }), 49);
  const jobs = indexesTo(await open({ topics: { Job: ["*"] } }), 50);
  await scheduler.wait(20);
  evictOf("namespace a", 21, ({ index }) => index % 2 === 1);
  held.resolve();
  await expect(tokens).rejects.toThrow("slow_consumer");
  expect(await jobs).toEqual(upTo(50).filter((index) => index % 2 === 0));
  // A later stream is told of it, and has the lines that are left.
  const left = upTo(49, 23).filter((index) => index % 2 === 1);
  expect(await indexesTo(await open({ topics: { ACLToken: ["*"] } }), 49)).toEqual(left);
});

it("a reader continues while the relay has its lines, although the log has evicted them", async () => {
  const { append, open, feed, evict } = relayed();
  const slow = await open();
  append(50);
  await vi.waitFor(() => expect(feed.newest()).toBe(50));
  evict(40);
  expect(await indexesTo(await open(), 50)).toEqual(upTo(50, 41));
  expect(await indexesTo(slow, 50)).toEqual(upTo(50));
});

describe("a feed that resumes after an eviction", () => {
  it("ends the streams that miss lines, and checks the rights of all others again", async () => {
    const { append, open, trouble, evict, ask } = relayed();
    append(5);
    const [behind, beyond] = [await open(), await open({ from: 60, accessor: "b" })];
    expect(await indexesTo(behind, 5)).toEqual(upTo(5));
    const broken = { yes: true };
    trouble.chunk = async () => {
      if (broken.yes) throw new Error("broken");
    };
    trouble.follow = trouble.chunk;
    await scheduler.wait(100);
    append(50);
    evict(40);
    ask.mockClear();
    broken.yes = false;
    await expect(indexesTo(behind, 50)).rejects.toThrow("slow_consumer");
    append(10);
    expect(await indexesTo(beyond, 65)).toEqual(upTo(65, 60));
    expect(ask.mock.calls.flatMap(([questions]) => questions)).toContainEqual({
      accessor: "b",
      topics: ["*"],
      namespace: "*",
      service: true,
    });
  });
});

describe("the event log", () => {
  it("sends a thousand relays at the same index the same bytes", async () => {
    const { readers, append, ask, feed } = relayed();
    await feed.join();
    append(50);
    await vi.waitFor(() => expect(feed.newest()).toBe(50));
    const { signal } = new AbortController();
    const relays = upTo(1_000).map(() => readers.follow("one", 0, signal).getReader());
    const chunks = await Promise.all(relays.map((each) => each.read()));
    expect(new Set(chunks.map(({ value }) => value)).size).toBe(1);
    expect(ask).not.toHaveBeenCalled();
    await Promise.all(relays.map((each) => each.cancel()));
    expect(readers.count).toBe(0);
  });

  it("receives few rights checks for many new streams, each answered no earlier than the stream was opened", async () => {
    const { append, open, bounds, trouble } = relayed();
    const held = Promise.withResolvers<void>();
    trouble.bounds = () => held.promise;
    const early = upTo(50).map(() => open({ from: -1 }));
    await scheduler.wait(20);
    append(3);
    const late: Promise<Opened>[] = [];
    for (let wave = 0; wave < 5; wave++) {
      late.push(...upTo(10).map(() => open({ from: -1 })));
      await scheduler.wait(5);
    }
    held.resolve();
    for (const { from } of await Promise.all(late)) expect(from).toBe(4);
    await Promise.all(early);
    expect(bounds).toHaveBeenCalledTimes(2);
  });

  it("is queried again for the next check after a failed one", async () => {
    const { open, trouble } = relayed();
    trouble.bounds = () => Promise.reject(new Error("unreachable"));
    await expect(open()).rejects.toThrow("unreachable");
    trouble.bounds = async () => {};
    await open();
  });
});

describe("a feed", () => {
  it("that is silent is considered dead and reopened", async () => {
    const { append, open, trouble } = relayed();
    const opened = await open();
    let silent = true;
    trouble.chunk = async () => {
      while (silent) await scheduler.wait(10);
    };
    const follow = vi.fn(async () => {
      silent = false;
    });
    trouble.follow = follow;
    append(5);
    await vi.waitFor(() => expect(follow).toHaveBeenCalled());
    expect(await indexesTo(opened, 5)).toEqual(upTo(5));
  });

  it("ends a while after the last reader, also while the log cannot be reached", async () => {
    const { open, trouble, feed } = relayed();
    const opened = await open();
    trouble.chunk = () => Promise.reject(new Error("unreachable"));
    trouble.follow = trouble.chunk;
    expect(feed.following).toBe(true);
    opened.close();
    await vi.waitFor(() => expect(feed.following).toBe(false));
  });
});
