import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { V8_FLAGS } from "../../scripts/runtime.ts";
import { isLong } from "../support/long.ts";
import { Service } from "./events-service.ts";
import { HeapMeter } from "./heap-meter.ts";

/**
 * The limit for the heap of an isolate, enforced by V8 in every isolate of the local runtime: beyond it the process ends.
 * The Worker and all objects share one isolate here. V8 has no limit for buffers outside of the heap, which are measured.
 */

const HEAP_MIB = 128;
/** A report does not fit, so the limit holds. */
const SMALL_MIB = 48;
/** The most events of one report, and nearly the largest body. */
const EVENTS = 20_000;
const NOTE = "x".repeat(1_400);
/** Secrets of a megabyte, together more than the heap. */
const LARGE = 160;
const COSTLY = 'Name matches "(j|o|b|-)*(a+)+(j.*o.*b.*){3,9}$"';
/** Events of two reports that the log keeps at least. */
const STREAMED_BYTES = 40_000_000;

const withHeap = (mib: number) =>
  new Service({ RATE_LIMITS: "off" }, { v8Flags: `${V8_FLAGS} --max-heap-size=${mib}` });

const report = (version: number, Namespace = "default") =>
  JSON.stringify(
    Array.from({ length: EVENTS }, (_, at) => ({
      Topic: "Job",
      Type: "JobRegistered",
      Payload: {
        Job: { ID: `job-${at}`, Name: `job-${at}`, Namespace, Type: "service", Note: NOTE, version },
      },
    })),
  );

const send = (service: Service, method: string, path: string, body?: string | Uint8Array<ArrayBuffer>) =>
  fetch(service.base + path, {
    method,
    headers: { "X-Orch-Token": "root", Connection: "close" },
    ...(body !== undefined && { body, duplex: "half" }),
  });

/** The process of the runtime below its front, which starts another one when it ends. */
function processOf({ dataDir }: Service): string {
  const [pid] = readFileSync(join(dataDir, "runtime", "pid"), "utf8").split(" ");
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
}

describe.runIf(isLong)("with a heap of 128 MiB for an isolate", { timeout: 600_000 }, () => {
  const [service, fresh] = [withHeap(HEAP_MIB), withHeap(HEAP_MIB)];
  const meter = new HeapMeter();
  let before = "";
  let file: Uint8Array<ArrayBuffer>;
  beforeAll(async () => {
    await meter.open(() => service.create());
    await service.must("POST", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
    before = processOf(service);
  }, 300_000);
  afterAll(async () => {
    meter.close();
    await service.destroy();
    await fresh.destroy();
  });

  const text = (n: number) => String.fromCharCode(97 + (n % 26)).repeat(1_000_000);
  const full = "/v1/cluster/objects?full=true&topic=Job";

  it.each<[string, readonly [string, string, string?]]>([
    ["the largest report", ["PUT", full, report(1)]],
    ["a report that changes all of it", ["PUT", full, report(2)]],
    ["the largest list", ["GET", "/v1/jobs"]],
    ["a costly filter over all of it", ["GET", `/v1/jobs?filter=${encodeURIComponent(COSTLY)}`]],
    ["a search over all of it", ["GET", "/v1/sys/search?q=job&limit=100"]],
  ])("serves %s", async (_name, [method, path, body]) => {
    const response = await send(service, method, path, body);
    expect([response.status, (await response.text()).slice(0, 200)]).toEqual([200, expect.anything()]);
    expect(processOf(service)).toBe(before);
    expect(meter.most()).toBeLessThan(HEAP_MIB * 2 ** 20);
  });

  it("streams the whole backlog of events to four readers with a filter each", async () => {
    const readers = ["", "&namespace=default", "&namespace=*", "&topic=Node"].map(async (filter) => {
      const { body } = await send(service, "GET", `/v1/event/stream?topic=Job&index=0${filter}`);
      let bytes = 0;
      for await (const chunk of body ?? []) {
        bytes += chunk.length;
        if (bytes > STREAMED_BYTES) break;
      }
      return bytes;
    });
    for (const bytes of await Promise.all(readers)) expect(bytes).toBeGreaterThan(STREAMED_BYTES);
    expect(processOf(service)).toBe(before);
    expect(meter.most()).toBeLessThan(HEAP_MIB * 2 ** 20);
  });

  it("serves two of the largest reports at once", async () => {
    const bodies = ["one", "two"].map((namespace) => report(1, namespace));
    const responses = await Promise.all(bodies.map((body) => send(service, "PUT", "/v1/cluster/objects", body)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    expect(processOf(service)).toBe(before);
    expect(meter.most()).toBeLessThan(HEAP_MIB * 2 ** 20);
  });

  it("serves more of the largest writes at once than fit", async () => {
    const names = Array.from({ length: LARGE }, (_, n) => n);
    await Promise.all(names.map((n) => service.must("POST", `/v1/secret/data/s${n}`, { data: { text: text(n) } })));
    expect(processOf(service)).toBe(before);
    expect(meter.most()).toBeLessThan(HEAP_MIB * 2 ** 20);
  });

  it("takes a snapshot larger than the heap", async () => {
    const taken = await send(service, "GET", "/v1/sys/snapshot");
    file = new Uint8Array(await taken.arrayBuffer());
    expect([taken.status, file.length > HEAP_MIB * 2 ** 20]).toEqual([200, true]);
    expect(processOf(service)).toBe(before);
    expect(meter.most()).toBeLessThan(HEAP_MIB * 2 ** 20);
  });

  it("restores it", async () => {
    await fresh.create();
    const process = processOf(fresh);
    const restored = await send(fresh, "POST", "/v1/sys/snapshot", file);
    expect([restored.status, await restored.text()]).toEqual([200, expect.anything()]);
    for (const n of [0, LARGE - 1])
      expect((await fresh.must("GET", `/v1/secret/data/s${n}`)).body.data.data).toEqual({ text: text(n) });
    expect(processOf(fresh)).toBe(process);
  });

  it("serves the deletion of all that was reported", async () => {
    const response = await send(service, "PUT", full, "[]");
    expect([response.status, await response.text()]).toEqual([200, expect.anything()]);
    expect(processOf(service)).toBe(before);
  });
});

it.runIf(isLong)(
  "a heap that is too small for a report ends the isolate, so the limit is enforced",
  { timeout: 300_000 },
  async () => {
    const service = withHeap(SMALL_MIB);
    try {
      await service.create();
      const before = processOf(service);
      await expect(send(service, "PUT", "/v1/cluster/objects?full=true&topic=Job", report(1))).rejects.toThrow();
      await expect.poll(() => processOf(service)).not.toBe(before);
    } finally {
      await service.destroy();
    }
  },
);
