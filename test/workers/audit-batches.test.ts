import { describe, expect, it, vi } from "vitest";
import { BatchWriter } from "../../src/platform/observability/audit/batch-writer.ts";

class Kept {
  readonly batches: string[][] = [];
  readonly write = async (lines: readonly string[]): Promise<boolean> => {
    this.batches.push([...lines]);
    return true;
  };
}

const behind: Promise<unknown>[] = [];
const keepAlive = (work: Promise<unknown>) => void behind.push(work);

describe("audit lines in transit", () => {
  it("are written as one batch when they are concurrent, and every waiting request is answered", async () => {
    const sink = new Kept();
    const writer = new BatchWriter(sink.write);
    const told = await Promise.all(["a", "b", "c"].map((line) => writer.write(line, keepAlive)));
    expect(told).toEqual([true, true, true]);
    expect(sink.batches).toEqual([["a", "b", "c"]]);
  });

  it("written without waiting are sent in the batch of the next awaited line", async () => {
    const sink = new Kept();
    const writer = new BatchWriter(sink.write);
    writer.writeLater("later", keepAlive);
    await writer.write("now", keepAlive);
    expect(sink.batches).toEqual([["later", "now"]]);
    await Promise.all(behind);
    expect(sink.batches).toHaveLength(1);
  });

  it("are sent with the next request when the request that sends them ends early", async () => {
    const sink = new Kept();
    const writer = new BatchWriter(sink.write);
    vi.spyOn(scheduler, "wait").mockImplementationOnce(() => new Promise(() => undefined));
    writer.writeLater("left behind", () => undefined);
    const later = Date.now() + 60_000;
    vi.spyOn(Date, "now").mockReturnValue(later);
    writer.writeLater("next", keepAlive);
    await Promise.all(behind);
    expect(sink.batches).toEqual([["left behind", "next"]]);
  });

  it("of a request that has ended are sent by the next awaited write", async () => {
    const sink = new Kept();
    const writer = new BatchWriter(sink.write);
    vi.spyOn(scheduler, "wait").mockImplementationOnce(() => new Promise(() => undefined));
    // So the runtime treats what a request that has ended would have settled.
    const gone = { promise: Promise.reject(new Error("ended")), resolve: () => undefined, reject: () => undefined };
    gone.promise.catch(() => undefined);
    vi.spyOn(Promise, "withResolvers").mockReturnValueOnce(gone as never);
    writer.writeLater("left behind", () => undefined);
    // Comes when the batch is about to be closed, and so goes along with it.
    const soon = Date.now() + 1_000;
    vi.spyOn(Date, "now").mockReturnValue(soon);
    expect(await writer.write("waited for", keepAlive)).toBe(true);
    expect(sink.batches).toEqual([["left behind", "waited for"]]);
  });

  it("are refused when too many wait for a sink, and accepted again when it has caught up", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const sink = new Kept();
    const writer = new BatchWriter(sink.write);
    const large = "a".repeat(3 * 1024 * 1024);
    const told = ["1", "2", "3"].map((n) => writer.write(n + large, keepAlive));
    expect(await Promise.all(told)).toEqual([true, true, false]);
    expect(await writer.write(large, keepAlive)).toBe(true);
  });
});
