import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { LineQueue, linesOf } from "./line-queue.ts";

const chunksOf = (text: string, size: number): Buffer[] => {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
};

describe("linesOf", () => {
  it.each([1, 2, 3, 7, 1_000])(
    "joins lines from chunks of %i bytes, characters of several bytes included",
    async (size) => {
      const text = "{}\n\nä\u{1f600}\nlast without end";
      const lines: string[] = [];
      for await (const line of linesOf(Readable.from(chunksOf(text, size)))) lines.push(line);
      expect(lines).toEqual(["{}", "", "ä\u{1f600}"]);
    },
  );

  it("rejects when the stream is silent", async () => {
    const silent = new Readable({ read: () => undefined });
    await expect(linesOf(silent, 10).next()).rejects.toThrow("the stream is silent");
  });
});

describe("LineQueue", () => {
  it("hands out the lines that were read already, up to a bound, and waits for none", async () => {
    const queue = new LineQueue(Readable.from([Buffer.from("aaaa\nbbbb\ncccc\n")]));
    await queue.next(1_000);
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect([queue.ready(3), queue.ready(4), queue.ready(100), queue.ready(100), queue.bytes]).toEqual([
      [],
      ["bbbb"],
      ["cccc"],
      [],
      0,
    ]);
  });

  it("does not read on while more than its bound is held", async () => {
    let read = 0;
    const endless = new Readable({
      highWaterMark: 1,
      read() {
        read += 1;
        this.push("0123456789\n");
      },
    });
    const queue = new LineQueue(endless, 100);
    const first = await queue.next(1_000);
    const settled = async () => {
      for (let before = -1; before !== read; await new Promise((resolve) => setImmediate(resolve))) before = read;
    };
    await settled();
    expect(first).toBe("0123456789");
    expect(queue.bytes).toBeLessThanOrEqual(120);
    const stopped = read;
    expect(stopped).toBeLessThan(30);
    for (let at = 0; at < 20; at++) await queue.next(1_000);
    await settled();
    expect(read).toBeGreaterThan(stopped);
    endless.destroy();
  });

  it("returns null after the wait and when woken, and rejects after the last line of a stream that ended", async () => {
    const stream = new Readable({ read: () => undefined });
    const queue = new LineQueue(stream);
    expect(await queue.next(1)).toBeNull();
    const waiting = queue.next(60_000);
    queue.wake();
    expect(await waiting).toBeNull();
    stream.push("a\n");
    stream.push(null);
    expect(await queue.next(60_000)).toBe("a");
    await expect(queue.next(60_000)).rejects.toThrow("the stream has ended");
  });
});
