import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { BatchWriter } from "../../src/platform/observability/audit/batch-writer.ts";
import { Collector } from "../../src/platform/observability/audit/collector.ts";
import type { Batch, Sink } from "../../src/platform/observability/audit/sinks.ts";
import { AuditCollector } from "../../src/worker.ts";
import { cut } from "../crash/crash-point.ts";
import { AUDITED, bindBucket, bucket, storedLines } from "./audited.ts";
import { mountKv } from "./client.ts";
import { deployment } from "./deployment.ts";
import { PLACES } from "./replicas.ts";

beforeEach(() => {
  for (const method of ["info", "warn"] as const) vi.spyOn(console, method).mockImplementation(() => undefined);
});

/** A sink in memory, like a bucket; `before` runs before, `after` when the lines are stored. */
class Kept implements Sink {
  readonly name = "bucket";
  readonly batches = new Map<string, readonly string[]>();
  writes = 0;
  before: () => Promise<void> = async () => undefined;
  after: () => Promise<void> = async () => undefined;

  readonly write = async ({ id, lines }: Batch): Promise<void> => {
    this.writes += 1;
    await this.before();
    this.batches.set(id, lines);
    await this.after();
  };

  get lines(): string[] {
    return [...this.batches.values()].flat();
  }
}

const BURST = 10;

const broken = (): Promise<never> => Promise.reject(new Error("broken"));
const over = (sinks: readonly Sink[], spacingMs = 0) =>
  new Collector(
    () => sinks,
    () => spacingMs,
  );

describe("a collector", () => {
  it("writes the lines of many isolates in one batch, and acknowledges each", async () => {
    const sink = new Kept();
    const collector = over([sink]);
    const told = await Promise.all(["a", "b", "c"].map((line) => collector.write([line], true)));
    expect(told).toEqual([true, true, true]);
    expect(sink.lines).toEqual(["a", "b", "c"]);
    expect(sink.writes).toBe(1);
  });

  it("writes awaited lines together with those that wait for nothing", async () => {
    const sink = new Kept();
    const collector = over([sink]);
    const later = collector.write(["later"], false);
    expect(await collector.write(["now"], true)).toBe(true);
    expect(await later).toBe(true);
    expect([...sink.batches.values()]).toEqual([["later", "now"]]);
  });

  it("begins as many writes of awaited lines as their spacing allows, whatever the load", async () => {
    const spacing = 200;
    const sink = new Kept();
    const collector = over([sink], spacing);
    const begun = performance.now();
    const told: Promise<boolean>[] = [];
    for (let line = 0; line < 60; line++) {
      told.push(collector.write([`line ${line}`], true));
      await scheduler.wait(10);
    }
    expect(await Promise.all(told)).not.toContain(false);
    expect(sink.lines).toHaveLength(60);
    expect(sink.writes).toBeLessThanOrEqual(BURST + 1 + (performance.now() - begun) / spacing);
    expect(sink.writes).toBeGreaterThan(1);
  });

  it("writes lines that follow each other at once after a pause, up to ten times", async () => {
    const sink = new Kept();
    const collector = over([sink], 60_000);
    for (let line = 0; line < BURST; line++) expect(await collector.write([`line ${line}`], true)).toBe(true);
    expect(sink.writes).toBe(BURST);
    const next = collector.write(["next"], true);
    await scheduler.wait(100);
    expect(sink.writes).toBe(BURST);
    // A full batch does not wait, and takes the line along.
    expect(await collector.write(Array.from({ length: 1_000 }, String), true)).toBe(true);
    expect(await next).toBe(true);
  });

  it("writes a batch of 1,000 lines at once", async () => {
    const sink = new Kept();
    const collector = over([sink]);
    const later = collector.write(["later"], false);
    const lines = Array.from({ length: 1_000 }, (_, line) => String(line));
    expect(await collector.write(lines, false)).toBe(true);
    expect(await later).toBe(true);
    expect(sink.writes).toBe(1);
  });

  it("repeats a failed write under the same id, only at the sink that failed", async () => {
    const [failing, healthy] = [new Kept(), new Kept()];
    let failures = 2;
    failing.after = async () => {
      if (failures-- > 0) await broken();
    };
    expect(await over([failing, healthy]).write(["a"], true)).toBe(true);
    expect([failing.writes, healthy.writes]).toEqual([3, 1]);
    expect([...failing.batches]).toEqual([...healthy.batches]);
  });

  it("acknowledges no line that one sink refuses", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const [failing, healthy] = [new Kept(), new Kept()];
    failing.before = broken;
    expect(await over([failing, healthy]).write(["a"], true)).toBe(false);
    expect([failing.writes, healthy.writes]).toEqual([5, 1]);
  });

  it("has four writes under way at most, and rejects lines when too many wait", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const sink = new Kept();
    const { promise: open, resolve } = Promise.withResolvers<void>();
    sink.before = () => open;
    const collector = over([sink]);
    const large = "a".repeat(1024 * 1024);
    const told = Array.from({ length: 16 }, () => collector.write([large], true));
    expect(await collector.write(["one more"], true)).toBe(false);
    expect(sink.writes).toBe(4);
    resolve();
    expect(await Promise.all(told)).not.toContain(false);
    expect(sink.writes).toBe(5);
    expect(await collector.write(["again"], true)).toBe(true);
  });
});

describe("the collector of a place", () => {
  bindBucket({ AUDIT_BATCH_MS: "10" });

  const body = { data: { password: "x" } };
  /** A write of a secret, answered without waiting for the line of its answer. */
  const write = async (ask: ReturnType<typeof deployment>, path = "/v1/kv/data/a") => {
    const { status } = await ask(path, { method: "PUT", body, leaves: true });
    return status;
  };
  const requests = async () =>
    (await storedLines()).filter(({ kind, path }) => kind === "request" && path === "/v1/kv/data/a");

  it("stores the lines of many requests in few objects", async () => {
    const ask = deployment(AUDITED);
    await Promise.all(Array.from({ length: 40 }, () => ask("/v1/sys/mounts", { leaves: true })));
    const ids = (await storedLines()).filter(({ kind }) => kind === "request").map(({ requestId }) => requestId);
    expect(new Set(ids).size).toBe(40);
    expect((await bucket.list()).objects.length).toBeLessThan(10);
  });

  it.each(["before", "after"] as const)("killed once %s a write loses and refuses nothing", async (when) => {
    await mountKv();
    const happened = cut(["AuditCollector", "write", when]);
    expect(await write(deployment(AUDITED))).toBe(200);
    expect(happened()).toBe(true);
    const found = await requests();
    // A line that was written, but not acknowledged, is written again.
    expect(found).toHaveLength(when === "before" ? 1 : 2);
    expect(new Set(found.map((line) => JSON.stringify(line))).size).toBe(1);
  });

  it("killed while it writes loses and refuses nothing", async () => {
    await mountKv();
    const { put } = Object.getPrototypeOf(bucket) as R2Bucket;
    let killed = false;
    vi.spyOn(Object.getPrototypeOf(bucket) as R2Bucket, "put").mockImplementation(async function (
      this: R2Bucket,
      ...given: unknown[]
    ) {
      if (!killed) {
        killed = true;
        await runInDurableObject(env.AUDIT_COLLECTOR.getByName("anywhere"), (_object, state) => {
          state.abort("killed");
        }).catch(() => undefined);
        throw new Error("killed");
      }
      return Reflect.apply(put, this, given);
    });
    expect(await write(deployment(AUDITED))).toBe(200);
    expect(killed).toBe(true);
    expect(await requests()).toHaveLength(1);
  });

  it("killed each time makes a closed area refuse without an effect, and an open one continue", async () => {
    await mountKv();
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    vi.spyOn(AuditCollector.prototype, "write").mockImplementation(async function (this: AuditCollector) {
      (this as unknown as { ctx: DurableObjectState }).ctx.abort("killed");
      throw new Error("killed");
    });
    expect(await write(deployment(AUDITED))).toBe(503);
    const unaudited = deployment({ AUDIT_BUCKET: undefined });
    expect((await unaudited("/v1/kv/data/a")).status).toBe(404);
    expect(await write(deployment({ ...AUDITED, AUDIT_ON_FAILURE: "open" }))).toBe(200);
    expect((await unaudited("/v1/kv/data/a")).status).toBe(200);
  });

  it("that does not answer makes a closed area refuse after the deadline", async () => {
    const writer = new BatchWriter(() => new Promise(() => undefined));
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    expect(await writer.write("line", () => undefined)).toBe(false);
  });

  it("is the one near the caller", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const asked: unknown[] = [];
    const getByName = (...given: unknown[]) => {
      asked.push(given);
      return { write: async () => true };
    };
    const ask = deployment({ ...AUDITED, AUDIT_COLLECTOR: { getByName } as never });
    for (const cf of [PLACES.weur, PLACES.sam, undefined]) await ask("/v1/sys/mounts", { ...(cf && { cf }) });
    expect(asked).toEqual([
      ...Array.from({ length: 2 }, () => ["weur", { locationHint: "weur" }]),
      ...Array.from({ length: 2 }, () => ["sam", { locationHint: "sam" }]),
      ...Array.from({ length: 2 }, () => ["anywhere", {}]),
    ]);
  });
});
