import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { eventLog } from "../../src/rpc/stubs.ts";
import {
  append,
  appendKeys,
  closeAll,
  event,
  evict,
  kill,
  noReaders,
  openStream,
  state,
  withSettings,
} from "./streams.ts";

afterEach(closeAll);

const log = () => eventLog(env);
const one = (seq: number, Key = `k${seq}`) => ({ seq, events: [event({ Key })] });

describe("the sequence", () => {
  it("gives each line the next index across sources", async () => {
    expect(await log().append("a", [one(1), one(2)])).toEqual([1, 2]);
    expect(await log().append("b", [one(1)])).toEqual([3]);
    expect(await log().newest()).toBe(3);
  });

  it("is 1 before the first event, because an index on the wire is never 0", async () => {
    expect(await log().newest()).toBe(1);
  });

  it("returns the first index of a repeated entry and adds nothing", async () => {
    expect(await log().append("a", [one(1), one(5)])).toEqual([1, 2]);
    expect(await log().append("a", [one(1), one(5), one(7)])).toEqual([1, 2, 3]);
    expect(await log().append("a", [one(5)])).toEqual([2]);
    expect((await state()).lines).toBe(3);
  });

  it("continues after a restart and after a power cut", async () => {
    await appendKeys("a", "b");
    await evict();
    expect(await appendKeys("c")).toEqual([3]);
    await kill();
    expect(await appendKeys("d")).toEqual([4]);
    expect(await state()).toMatchObject({ lines: 4, oldest: 1, newest: 4 });
  });

  it("stores all entries of an append or none", async () => {
    const bad = { seq: 2, events: null as unknown as [] };
    const outcome = await runInDurableObject(env.EVENT_LOG.getByName("log"), (object) =>
      object.append("a", [one(1), bad]).then(
        () => "taken",
        () => "refused",
      ),
    );
    expect(outcome).toBe("refused");
    expect(await state()).toMatchObject({ lines: 0, newest: 0 });
    expect(await log().append("a", [one(1), one(2)])).toEqual([1, 2]);
  });

  it("shows no line that a power cut can undo", async () => {
    await appendKeys("kept");
    const stream = await openStream("?index=-1");
    await stream.next();
    const next = stream.nextText().catch(() => "cut");
    const died = runInDurableObject(env.EVENT_LOG.getByName("log"), async (object, storage) => {
      void object.append("test-cut", [one(1, "lost")]).catch(() => undefined);
      for (let turn = 0; turn < 50; turn++) await Promise.resolve();
      storage.abort("killed by a test");
    });
    await died.catch(() => undefined);
    expect(await next).toBe("cut");
    expect(await log().newest()).toBe(1);
  });
});

describe("the buffer", () => {
  it("evicts the oldest lines above its number of lines", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "100" });
    for (let n = 0; n < 15; n++) await appendKeys(...Array.from({ length: 20 }, (_, i) => `k${n * 20 + i}`));
    const { lines, oldest, newest } = await state();
    expect(newest).toBe(300);
    expect(lines).toBeLessThanOrEqual(100);
    expect(lines).toBeGreaterThan(90);
    expect(oldest).toBe(newest - lines + 1);
  });

  it("evicts the oldest lines above its bytes, and keeps the newest of any size", async () => {
    await withSettings({ EVENT_BUFFER_BYTES: "10000" });
    const large = (size: number) => [event({ Payload: { Job: { ID: "x".repeat(size) } } })];
    for (let n = 0; n < 10; n++) await append(large(2_000));
    expect((await state()).bytes).toBeLessThanOrEqual(10_000);
    expect((await state()).lines).toBeGreaterThan(2);
    await append(large(50_000));
    expect(await state()).toMatchObject({ lines: 1, oldest: 11, newest: 11 });
  });

  it("counts bytes, not characters", async () => {
    await append([event({ Key: "é".repeat(1_000) })]);
    expect((await state()).bytes).toBeGreaterThan(2_000);
  });

  it("has its bounds again after a restart", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "10" });
    for (const key of "abcdefghijklmnopqrstuvwxyz") await appendKeys(key);
    const before = await state();
    await kill();
    expect(await state()).toEqual(before);
    expect(before.oldest).toBeGreaterThan(10);
  });

  it("recognises a repeated entry after its line was evicted, and after a restart", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "1" });
    await log().append("a", [one(1)]);
    await log().append("b", [one(1), one(2), one(3)]);
    expect((await state()).oldest).toBe(4);
    expect(await log().append("a", [one(1)])).toEqual([1]);
    await kill();
    expect(await log().append("a", [one(1)])).toEqual([1]);
    expect((await state()).newest).toBe(4);
  });

  it("stores an event above the row limit without its payload", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    await append([event({ Key: "large", Payload: { Job: { ID: "\u0001".repeat(400_000) } } })]);
    const stream = await openStream();
    expect(await stream.next()).toMatchObject({ Index: 1, Events: [{ Key: "large", Payload: {} }] });
    expect(warned.mock.calls.join()).toContain("event-payload-dropped");
    expect(warned.mock.calls.join()).not.toContain("\\u0001");
  });
});

describe("readers", () => {
  // Proves: C.stream.open
  it("are removed when they disconnect, and leave no timer", async () => {
    const streams = await Promise.all(Array.from({ length: 20 }, () => openStream()));
    for (const stream of streams) await stream.next();
    expect((await state()).readers).toBe(20);
    for (const stream of streams.slice(0, 10)) await stream.close();
    await vi.waitFor(async () => expect((await state()).readers).toBe(10));
    for (const stream of streams) await stream.close();
    await noReaders();
    // An object with a waiting timer or stream refuses to be evicted.
    await evict();
  });

  it("are released when their client requested only the headers", async () => {
    const head = await exports.default.fetch("https://x/v1/event/stream", {
      method: "HEAD",
      headers: { "X-Orch-Token": "root" },
    });
    expect(head.status).toBe(200);
    expect(head.body).toBeNull();
    await noReaders();
  });

  it("get every line once, 200 of them with random stalls, from memory and disk", async () => {
    let seed = 20_261_121;
    const random = (below: number) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
      return seed % below;
    };
    const LINES = 1_500;
    const topics = ["?topic=Job", "?topic=*", "?topic=Job&topic=Node", "?topic=Job:even", ""];
    const readers = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        const query = topics[n % topics.length] ?? "";
        return {
          even: query.includes("even"),
          stream: await openStream(query),
          pauses: Array.from({ length: 8 }, () => random(LINES)),
        };
      }),
    );
    const seen = readers.map(async ({ even, stream, pauses }) => {
      const found: number[] = [];
      while (found.length < (even ? LINES / 2 : LINES)) {
        const line = await stream.nextLine();
        found.push(line.Index);
        if (pauses.includes(line.Index)) await scheduler.wait(1 + (line.Index % 50));
      }
      await stream.close();
      return found;
    });
    for (let at = 1; at <= LINES; at += 25) {
      await appendKeys(...Array.from({ length: 25 }, (_, i) => ((at + i) % 2 === 0 ? "even" : "odd")));
      if (random(4) === 0) await scheduler.wait(random(10));
    }
    const all = Array.from({ length: LINES }, (_, i) => i + 1);
    const evens = all.filter((index) => index % 2 === 0);
    for (const [n, found] of (await Promise.all(seen)).entries()) expect(found).toEqual(readers[n]?.even ? evens : all);
    await noReaders();
  }, 300_000);

  it("behind the buffer are cut, with an error if they requested errors", async () => {
    await withSettings({ EVENT_BUFFER_LINES: "50" });
    await appendKeys("first");
    const plain = await openStream();
    const told = await openStream("?errors=true");
    expect((await plain.next()).Index).toBe(1);
    expect((await told.next()).Index).toBe(1);
    // Large enough that what the runtime reads ahead is not all of it.
    const payload = { Job: { ID: "x".repeat(40_000) } };
    for (let n = 0; n < 200; n++) await append([event({ Payload: payload })]);
    const readAll = async (stream: typeof plain) => {
      const found: string[] = [];
      for (let text = await stream.nextText(); text !== null; text = await stream.nextText()) found.push(text);
      return found;
    };
    const seen = (await readAll(plain)).map((text) => JSON.parse(text).Index);
    expect(seen).toEqual(seen.map((_, n) => n + 2));
    expect(seen.length).toBeLessThan(199);
    const last = JSON.parse((await readAll(told)).at(-1) ?? "");
    expect(last).toEqual({ Error: { Code: "slow_consumer", LastIndex: expect.any(Number) } });
    expect((await state()).oldest).toBeGreaterThan(last.Error.LastIndex + 1);
    await noReaders();
  });
});
