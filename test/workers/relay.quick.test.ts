import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { eventLog } from "../../src/rpc/stubs.ts";
import { del, put, send } from "./client.ts";
import { between, gate, keysTo, openAt, relay } from "./relay-helpers.ts";
import {
  append,
  appendKeys,
  closeAll,
  event,
  evict,
  killOnly,
  noReaders,
  openStream,
  relays,
  throughRelays,
  withSettings,
} from "./streams.ts";

/* Relays: the spread of streams over them, and failures of the log, the feed or a relay. */

beforeEach(() => throughRelays(2));
afterEach(closeAll);
afterAll(() => throughRelays(0));

const following = () => Promise.all(relays().map(async (each) => (await each.state()).following));
const logReaders = async () => (await eventLog(env).state()).readers;
const large = (Key: string, size = 60_000) => [event({ Key, Payload: { Job: { ID: "x".repeat(size) } } })];

/** The last line of a stream that gives nothing but signs of life before it. */
async function lastOf(stream: Awaited<ReturnType<typeof openAt>>): Promise<unknown> {
  const texts: string[] = [];
  for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) texts.push(text);
  for (const text of texts.slice(0, -1)) expect(JSON.parse(text).Events).toEqual([]);
  return JSON.parse(texts.at(-1) ?? "null");
}

const keys = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

describe("a relay", () => {
  it("is one reader of the log, for any number of its own readers", async () => {
    const streams = [];
    for (let n = 0; n < 10; n++) streams.push(await openAt(0), await openAt(1, "?topic=Node"));
    for (const stream of streams) await stream.next();
    expect(await Promise.all(relays().map(async (each) => (await each.state()).readers))).toEqual([10, 10]);
    expect(await logReaders()).toBe(2);
  });

  it("closes its feed some time after its last reader, keeps no timer, and can start again", async () => {
    const stream = await openAt(0);
    await stream.next();
    expect(await following()).toEqual([true, false]);
    await stream.close();
    await noReaders();
    await vi.waitFor(async () => expect(await following()).toEqual([false, false]));
    expect(await logReaders()).toBe(0);
    await appendKeys("a", "b");
    expect(await keysTo(await openAt(0), "b")).toEqual(["a", "b"]);
    await closeAll();
    await noReaders();
    // An object with a waiting timer or stream refuses to be evicted.
    await evict();
    expect(await keysTo(await openAt(0, "?index=2"), "b")).toEqual(["b"]);
  });

  it("keeps its feed for a reader that comes soon after the last one", async () => {
    const first = await openAt(0);
    await first.next();
    const follow = vi.fn((open: () => Promise<ReadableStream<Uint8Array>>) => open());
    await between(0, { feed: follow });
    await first.close();
    const second = await openAt(0);
    await second.next();
    expect(follow).not.toHaveBeenCalled();
  });

  it("returns 503 while the log is unreachable", async () => {
    await between(0, { before: () => Promise.reject(new Error("unreachable")) });
    await between(1, { before: () => Promise.reject(new Error("unreachable")) });
    const answer = await send("GET", "/v1/event/stream");
    expect([answer.status, answer.headers.get("Retry-After")]).toEqual([503, "1"]);
  });

  it("skips lines without an event", async () => {
    const stream = await openAt(0);
    await stream.next();
    await append([event({ Key: "a" })], [], [event({ Key: "b" })]);
    expect(await keysTo(stream, "b")).toEqual(["a", "b"]);
    expect((await relay(0).state()).newest).toBe(3);
  });
});

describe("a stream through a lagging relay", () => {
  it("contains every line that the log has when it is opened", async () => {
    const { feed, close, open } = gate();
    await between(0, { feed });
    const before = await openAt(0);
    await before.next();
    close();
    await appendKeys("a", "b");
    let opened = false;
    const opening = openAt(0).then((stream) => {
      opened = true;
      return stream;
    });
    await scheduler.wait(400);
    expect(opened).toBe(false);
    open();
    // The first line without events marks the end of the backlog.
    const stream = await opening;
    const lines = [await stream.next(), await stream.next(), await stream.next()];
    expect(lines.map(({ Index, Events }) => [Index, Events.length])).toEqual([
      [1, 1],
      [2, 1],
      [2, 0],
    ]);
  });

  it("with index -1 begins after the newest line at the time of the request", async () => {
    const { feed, close, open } = gate();
    const knowsBounds = vi.fn();
    await between(0, { feed, knowsBounds });
    const before = await openAt(0);
    await before.next();
    close();
    await appendKeys("old");
    knowsBounds.mockClear();
    const opening = openAt(0, "?index=-1");
    await vi.waitFor(() => expect(knowsBounds).toHaveBeenCalled());
    expect((await relay(0).state()).newest).toBe(0);
    await appendKeys("new");
    open();
    expect(await keysTo(await opening, "new")).toEqual(["new"]);
  });

  it("through either of two relays gets every line once and in order, and heartbeats only for passed indexes", async () => {
    const gates = [gate(), gate()];
    for (const [number, { feed }] of gates.entries()) await between(number, { feed });
    const streams = await Promise.all([0, 1, 0, 1].map((number) => openAt(number)));
    const found = streams.map((stream) => keysTo(stream, "end"));
    const all = keys("k", 300);
    for (let at = 0; at < all.length; at += 5) {
      const each = gates[(at / 5) % 2];
      if (at % 3 === 0) each?.close();
      await appendKeys(...all.slice(at, at + 5));
      if (at % 20 === 0) await scheduler.wait(10);
      if (at % 4 === 0) for (const one of gates) one.open();
    }
    await appendKeys("end");
    for (const one of gates) one.open();
    for (const seen of await Promise.all(found)) expect(seen).toEqual([...all, "end"]);
  });
});

describe("a crash of the log", () => {
  it("keeps streams through relays open, without a loss or repetition", async () => {
    const streams = await Promise.all([0, 1, 0, 1].map((number) => openAt(number)));
    const found = streams.map((stream) => keysTo(stream, "end"));
    const all: string[] = [];
    for (let round = 0; round < 5; round++) {
      const some = keys(`${round}-`, 7);
      await appendKeys(...some);
      all.push(...some);
      if (round % 2 === 0) await scheduler.wait(200);
      await killOnly(env.EVENT_LOG.getByName("log"));
    }
    await appendKeys("end");
    for (const seen of await Promise.all(found)) expect(seen).toEqual([...all, "end"]);
  });

  it("lets readers behind the ring continue from the log's disk afterwards", async () => {
    for (const key of keys("k", 60)) await append(large(key));
    const stream = await openAt(0);
    expect((await stream.next()).Index).toBe(1);
    await killOnly(env.EVENT_LOG.getByName("log"));
    await appendKeys("end");
    expect(await keysTo(stream, "end")).toEqual([...keys("k", 60).slice(1), "end"]);
  });
});

describe("a crash of a relay", () => {
  it("ends its streams only, and readers resume by index at any relay", async () => {
    const [lost, kept] = [await openAt(0), await openAt(1)];
    await appendKeys("a", "b");
    expect(await keysTo(lost, "b")).toEqual(["a", "b"]);
    await killOnly(relay(0));
    await expect(
      (async () => {
        for (;;) if ((await lost.nextText()) === null) throw new Error("ended");
      })(),
    ).rejects.toThrow();
    await appendKeys("c");
    for (const number of [0, 1]) expect(await keysTo(await openAt(number, "?index=3"), "c")).toEqual(["c"]);
    expect(await keysTo(kept, "c")).toEqual(["a", "b", "c"]);
  });
});

describe("lines evicted before a relay has read them", () => {
  it("cut the streams that miss them, and new ones begin after the gap", async () => {
    let broken = false;
    await between(0, {
      feed: async (open) => {
        if (broken) throw new Error("unreachable");
        const reader = (await open()).getReader();
        return new ReadableStream({
          pull: async (controller) => {
            const { value, done } = await reader.read();
            if (done || broken) controller.error(new Error("unreachable"));
            else controller.enqueue(value);
          },
        });
      },
    });
    await put("/v1/acl/policy/read", { Rules: 'namespace "default" { capabilities = ["read-job"] }' });
    const token = (await put("/v1/acl/token", { Name: "r", Type: "client", Policies: ["read"] })).body;
    await withSettings({ EVENT_BUFFER_LINES: "10" }, [env.EVENT_LOG.getByName("log")]);
    const stream = await openAt(0, "?topic=Job&errors=true");
    const later = await openAt(0, "?topic=Job&index=50&errors=true", token.SecretID);
    await appendKeys("a");
    expect(await keysTo(stream, "a")).toEqual(["a"]);
    broken = true;
    await del(`/v1/acl/token/${token.AccessorID}`);
    await appendKeys(...keys("k", 30));
    await appendKeys("end");
    broken = false;
    expect(await lastOf(stream)).toEqual({ Error: { Code: "slow_consumer", LastIndex: 3 } });
    // The deletion of its token is in a line that was not delivered.
    await appendKeys(...keys("more", 30));
    expect(await lastOf(later)).toMatchObject({ Error: { Code: "permission_denied" } });
    const oldest = (await eventLog(env).state()).oldest;
    expect((await (await openAt(0)).nextLine()).Index).toBe(oldest);
  });
});

it("relays are off by default", async () => {
  throughRelays(0);
  const stream = await openStream();
  await stream.next();
  expect(await logReaders()).toBe(1);
  throughRelays(2);
  expect(await following()).toEqual([false, false]);
});
