import { createScheduledController, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import { Metrics } from "../../src/objects/metrics.ts";
import type { Answered } from "../../src/platform/http/exchange.ts";
import { definitionOf, isMetric } from "../../src/platform/observability/metrics/catalogue.ts";
import { flushCounts } from "../../src/platform/observability/metrics/flush.ts";
import { count, keyOf } from "../../src/platform/observability/metrics/isolate-counters.ts";
import { measureAnswer } from "../../src/platform/observability/metrics/requests.ts";
import { metrics } from "../../src/rpc/stubs.ts";
import worker from "../../src/worker.ts";
import { holderOf } from "./access.ts";
import { get, mountKv, put } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { parseText, type Sample, valueIn } from "./metrics-text.ts";
import { eventually } from "./sync-helpers.ts";

/** Both families of clients have a path for metrics: docs/operate/metrics.md. */

const REQUESTS = "sallyport_http_requests_total";
const object = () => env.METRICS.getByName("main") as DurableObjectStub<Metrics>;
/** Counts that come hold the object in memory for a minute: those of this isolate come now, and a read writes them. */
const evicted = () =>
  evictObject(object(), async () => {
    await flushCounts();
    await metrics(env).read();
  });

async function scrape(path = "/v1/metrics"): Promise<Sample[]> {
  const answer = await get(path);
  expect(answer.status, answer.text).toBe(200);
  return parseText(answer.text);
}

/** How often something was counted since a scrape before. */
async function since(before: readonly Sample[], name: string, labels: Record<string, string>): Promise<number> {
  return (valueIn(await scrape(), name, labels) ?? 0) - (valueIn(before, name, labels) ?? 0);
}

describe("the metrics response", () => {
  it("is valid Prometheus text at both paths", async () => {
    for (const path of ["/v1/metrics", "/v1/sys/metrics", "/v1/metrics?format=prometheus"]) {
      const answer = await get(path);
      expect(answer.headers.get("Content-Type")).toBe("text/plain; version=0.0.4; charset=utf-8");
      expect(valueIn(parseText(answer.text), "sallyport_sealed")).toBe(0);
    }
  });

  it("is OpenMetrics for clients that accept it, as Prometheus does", async () => {
    const Accept =
      "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    const answer = await get("/v1/metrics", { headers: { Accept } });
    expect(answer.headers.get("Content-Type")).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
    expect(answer.text.endsWith("\n# EOF\n")).toBe(true);
    expect(answer.text).toContain("# TYPE sallyport_event_lines_delivered counter\n");
    expect(answer.text).toContain('\nsallyport_event_lines_delivered_total{server="log"} 0\n');
    parseText(answer.text);
  });

  it("is valid for any names of mounts and destinations", async () => {
    const name = 'a"b\\c';
    await mountKv(`kv/${encodeURIComponent(name)}`);
    for (const format of ["prometheus", "openmetrics"]) {
      const { text } = await get(`/v1/metrics?format=${format}`);
      const size = { class: "KvStore", object: `kv/${name}/` };
      expect(valueIn(parseText(text), "sallyport_object_size_bytes", size)).toBeGreaterThan(0);
    }
  });

  it("has the same content in JSON and in text", async () => {
    await mountKv();
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now);
    const samples = await scrape();
    const { Gauges } = (await get("/v1/metrics?format=json")).body;
    const shown = Gauges.map(({ Name, Labels, Value }: Record<string, unknown>) => ({
      name: Name,
      labels: Labels,
      value: Value,
    }));
    const gauges = samples.filter(({ name }) => isMetric(name) && definitionOf(name).type === "gauge");
    expect(shown).toEqual(expect.arrayContaining(gauges));
    expect(shown).toHaveLength(gauges.length);
  });

  it.each([
    ["on request by query", "/v1/metrics?format=json", {}],
    ["for upstream's clients", "/v1/sys/metrics", { "X-Vault-Request": "true" }],
    ["on request by the Accept header", "/v1/metrics", { Accept: "application/json" }],
  ])("is JSON in upstream's shape %s", async (_who, path, headers) => {
    await scrape();
    const { body } = await get(path, { headers });
    expect(body).toEqual({
      Timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC$/),
      Gauges: expect.arrayContaining([{ Name: "sallyport_sealed", Labels: {}, Value: 0 }]),
      Points: [],
      Counters: expect.arrayContaining([
        expect.objectContaining({ Name: REQUESTS, Labels: { route: "/v1/metrics", method: "GET", status: "200" } }),
      ]),
      Samples: expect.arrayContaining([
        expect.objectContaining({ Name: "sallyport_http_request_duration_seconds", Count: expect.any(Number) }),
      ]),
    });
  });

  it("returns 400 for an unknown format, in the convention of the path", async () => {
    expect((await get("/v1/metrics?format=xml")).status).toBe(400);
    expect((await get("/v1/sys/metrics?format=xml")).body.errors).toEqual([
      "format: one of prometheus, openmetrics, json",
    ]);
  });
});

describe("access to metrics", () => {
  const statuses = async (token: string | null) => [
    (await get("/v1/metrics", { token })).status,
    (await get("/v1/sys/metrics", { token })).status,
  ];

  it("requires a management token, agent:read or a rule on the path", async () => {
    const client = async (rules: string) => (await holderOf(rules)).client_token as string;
    const agents = await client('agent { policy = "read" }');
    const path = await client('path "sys/metrics" { capabilities = ["read"] }');
    const neither = await client('path "kv/*" { capabilities = ["read"] }\nnode { policy = "write" }');
    expect(await statuses("root")).toEqual([200, 200]);
    expect(await statuses(agents)).toEqual([200, 403]);
    expect(await statuses(path)).toEqual([403, 200]);
    expect(await statuses(neither)).toEqual([403, 403]);
    expect(await statuses("unknown")).toEqual([403, 403]);
    expect(await statuses(null)).toEqual([403, 403]);
  });

  it("accepts the token in the header that Prometheus sends", async () => {
    const headers = { Authorization: "Bearer root" };
    expect((await get("/v1/metrics", { token: null, headers })).status).toBe(200);
  });

  it("returns 400 inside a namespace", async () => {
    await put("/v1/sys/namespaces/team", {});
    const inside = await get("/v1/sys/metrics", { headers: { "X-Vault-Namespace": "team" } });
    expect([inside.status, inside.body.errors]).toEqual([400, ["operation unavailable in namespaces"]]);
  });
});

describe("requests", () => {
  it("are counted by route, method and status, never by content of path or query", async () => {
    await mountKv();
    const before = await scrape();
    await put("/v1/kv/data/canary-in-a-path", { data: { a: "canary-in-a-value" } });
    for (let n = 0; n < 3; n++) await get("/v1/kv/data/canary-in-a-path?version=0&x=canary-in-a-query");
    await get("/v1/kv/data/canary-that-is-not");
    await get("/v1/no/such/canary");
    await get("/v1/jobs?namespace=canary");
    const of = (route: string, method: string, status: string) => since(before, REQUESTS, { route, method, status });
    expect(await of("/v1/{kv}/data/:path+", "GET", "200")).toBe(3);
    expect(await of("/v1/{kv}/data/:path+", "GET", "404")).toBe(1);
    expect(await of("/v1/{kv}/data/:path+", "POST", "200")).toBe(1);
    expect(await of("none", "GET", "404")).toBe(1);
    expect(await of("/v1/jobs", "GET", "200")).toBe(1);
    expect((await get("/v1/metrics")).text).not.toContain("canary");
  });

  it("have one observation of time each, by part of the service", async () => {
    await mountKv();
    const before = await scrape();
    for (let n = 0; n < 4; n++) await get("/v1/kv/data/x");
    const samples = await scrape();
    const name = "sallyport_http_request_duration_seconds";
    const of = (suffix: string, labels: Record<string, string>) =>
      (valueIn(samples, name + suffix, labels) ?? 0) - (valueIn(before, name + suffix, labels) ?? 0);
    expect(of("_count", { area: "secrets" })).toBe(4);
    expect(of("_bucket", { area: "secrets", le: "+Inf" })).toBe(4);
    const buckets = samples.filter((each) => each.name === `${name}_bucket` && each.labels["area"] === "secrets");
    const values = buckets.map(({ value }) => value);
    expect(values).toEqual(values.toSorted((a, b) => a - b));
  });

  it("with unknown methods are one series", async () => {
    const answered = { route: null, area: "secrets", status: 405, durationMs: 1 } as const;
    for (const method of ["BREW", "CANARY"]) measureAnswer({ ...answered, method } as unknown as Answered);
    expect(valueIn(await scrape(), REQUESTS, { route: "none", method: "other", status: "405" })).toBe(2);
  });
});

describe("counters of Workers", () => {
  const total = async (labels: Record<string, string>) => valueIn(await scrape(), REQUESTS, labels);
  const labels = { route: "/v1/test", method: "GET", status: "200" };
  const key = keyOf(REQUESTS, Object.values(labels));

  it("are flushed automatically behind an answer", async () => {
    await flushCounts();
    // A flush that a test before has scheduled counts as lost.
    const real = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => real() + 60_000);
    const add = vi.spyOn(Metrics.prototype, "add");
    const wait = vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    await get("/v1/regions");
    await eventually(() => expect(JSON.stringify(add.mock.calls)).toMatch(/sallyport_http_requests_total/));
    expect(wait).toHaveBeenCalledWith(15_000);
  });

  it("are written once in a minute, and before they are shown", async () => {
    const rows = () =>
      runInDurableObject(object(), (_metrics, { storage }) =>
        storage.sql.exec<{ body: string }>("SELECT body FROM counted_series WHERE metric = ?", REQUESTS).toArray(),
      );
    const written = async () => JSON.parse((await rows())[0]?.body ?? "[]") as unknown;
    const minute = Promise.withResolvers<() => void>();
    const later = vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms: number) => {
      if (ms === 60_000) minute.resolve(work);
      return 0;
    }) as never);
    await metrics(env).add("one", 1, [[key, 1]]);
    await metrics(env).add("one", 2, [[key, 1]]);
    const write = await minute.promise;
    expect(later.mock.calls.filter(([, ms]) => ms === 60_000)).toHaveLength(1);
    later.mockRestore();
    expect(await written()).toEqual([]);
    await runInDurableObject(object(), write);
    expect(await written()).toEqual([[key, 2]]);
    await metrics(env).add("one", 3, [[key, 1]]);
    expect(await total(labels)).toBe(3);
    expect(await written()).toEqual([[key, 3]]);
  });

  it("are summed over all isolates, and a repeated batch counts once", async () => {
    await metrics(env).add("one", 1, [[key, 2]]);
    await metrics(env).add("one", 1, [[key, 2]]);
    await metrics(env).add("two", 1, [[key, 5]]);
    await metrics(env).add("one", 2, [[key, 1]]);
    await metrics(env).add("one", 1, [[key, 2]]);
    expect(await total(labels)).toBe(8);
  });

  it("are kept in storage after the object is evicted", async () => {
    await metrics(env).add("one", 1, [[key, 3]]);
    expect(await total(labels)).toBe(3);
    await evicted();
    await metrics(env).add("one", 1, [[key, 3]]);
    await metrics(env).add("one", 2, [[key, 1]]);
    expect(await total(labels)).toBe(4);
  });

  it.each([
    ["their arrival", false],
    ["the answer to their arrival", true],
  ])("are counted once when %s is lost", async (_what, arrives) => {
    await scrape();
    const add = Metrics.prototype.add;
    const broken = vi.spyOn(Metrics.prototype, "add").mockImplementation(function (this: Metrics, ...given) {
      if (arrives) add.apply(this, given);
      throw new Error("cut off");
    });
    count(REQUESTS, ...Object.values(labels));
    await flushCounts();
    count(REQUESTS, ...Object.values(labels));
    await flushCounts();
    broken.mockRestore();
    expect(await total(labels)).toBe(2);
  });

  it("above the maximum number of series are merged into one", async () => {
    const many = Array.from({ length: 1_200 }, (_, n) => `destination-${n}`);
    for (const destination of many) count("sallyport_sync_tasks_total", destination, "ok");
    await flushCounts();
    const tasks = (samples: readonly Sample[]) => samples.filter(({ name }) => name === "sallyport_sync_tasks_total");
    const samples = tasks(await scrape());
    expect(samples.length).toBeLessThan(600);
    expect(samples.reduce((sum, { value }) => sum + value, 0)).toBe(1_200);
    expect(valueIn(samples, "sallyport_sync_tasks_total", { destination: "other", outcome: "other" })).toBeGreaterThan(
      600,
    );

    const keys = Array.from({ length: 5_100 }, (_, n) => keyOf("sallyport_sync_tasks_total", [`d${n}`, "ok"]));
    await metrics(env).add(
      "three",
      1,
      keys.map((each) => [each, 1] as const),
    );
    expect(tasks(await scrape()).length).toBeLessThanOrEqual(5_001);
    const sum = tasks(await scrape()).reduce((all, { value }) => all + value, 0);
    expect(sum).toBe(1_200 + 5_100);
  });

  it("of a metric that another version defined are omitted", async () => {
    await metrics(env).add("one", 1, [["sallyport_of_another_version_total\u0000x\u0000", 3]]);
    expect((await get("/v1/metrics")).text).not.toContain("another_version");
  });
});

describe("an object without health stats", () => {
  it.each([
    ["fails", () => Promise.reject(new Error("broken"))],
    ["hangs", () => new Promise<never>(() => {})],
  ])("because it %s is omitted and counted, and the others are exported", async (_how, answer) => {
    await mountKv("a");
    await mountKv("b");
    vi.spyOn(EventLog.prototype, "vitals").mockImplementation(answer as never);
    vi.spyOn(KvStore.prototype, "vitals").mockImplementationOnce(answer as never);
    const samples = await scrape();
    const errors = (kind: string) => valueIn(samples, "sallyport_scrape_errors", { class: kind });
    expect([errors("EventLog"), errors("KvStore"), errors("AccessControl")]).toEqual([1, 1, 0]);
    expect(valueIn(samples, "sallyport_event_streams")).toBeUndefined();
    expect(valueIn(samples, "sallyport_sync_paused")).toBe(0);
    expect(samples.filter(({ labels }) => labels["class"] === "KvStore" && labels["object"])).toHaveLength(4);
  });

  it("counts as failed when it does not tell of the last snapshot", async () => {
    vi.spyOn(AccessControl.prototype, "status").mockRejectedValue(new Error("broken") as never);
    const samples = await scrape();
    expect(valueIn(samples, "sallyport_scrape_errors", { class: "AccessControl" })).toBe(1);
    expect(valueIn(samples, "sallyport_snapshot_read_age_seconds")).toBeUndefined();
  });

  it("is called at most once a second, for any number of scrapes", async () => {
    const now = Date.now();
    const clock = vi.spyOn(Date, "now").mockReturnValue(now);
    const vitals = vi.spyOn(EventLog.prototype, "vitals");
    await Promise.all(Array.from({ length: 20 }, () => scrape()));
    for (let n = 0; n < 3; n++) await scrape();
    expect(vitals).toHaveBeenCalledTimes(1);
    clock.mockReturnValue(now + 1_001);
    await scrape();
    expect(vitals).toHaveBeenCalledTimes(2);
  });
});

describe("the cron trigger", () => {
  const RUN = "sallyport_cron_last_run_timestamp_seconds";
  const AWAITED = "sallyport_cron_awaited_since_timestamp_seconds";
  const gauge = async (metric: string) => (await metrics(env).read()).find(({ name }) => name === metric)?.value;
  const run = () => gauge(RUN);

  it("leaves the time of its last run, which an eviction keeps", async () => {
    expect(await run()).toBeUndefined();
    const before = Math.floor(Date.now() / 1000);
    await worker.scheduled(createScheduledController(), env);
    await evicted();
    const first = Number(await run());
    expect(first).toBeGreaterThanOrEqual(before);
    vi.spyOn(Date, "now").mockReturnValue((first + 300) * 1000);
    await worker.scheduled(createScheduledController(), env);
    expect(await run()).toBe(first + 300);
  });

  it("is awaited since the first count or scrape, which an eviction keeps, until its first run", async () => {
    const awaited = Number(await gauge(AWAITED));
    expect(awaited).toBeGreaterThan(Date.now() / 1000 - 60);
    await evicted();
    vi.spyOn(Date, "now").mockReturnValue((awaited + 3_600) * 1000);
    expect(await gauge(AWAITED)).toBe(awaited);
    await worker.scheduled(createScheduledController(), env);
    expect([await gauge(AWAITED), await run()]).toEqual([undefined, awaited + 3_600]);
  });

  it("is not awaited in the local runtime, which has no triggers", async () => {
    await runInDurableObject(object(), (instance) => {
      (instance as unknown as { env: Env }).env.GATEWAY_KEY = "local";
    });
    try {
      expect(await gauge(AWAITED)).toBeUndefined();
    } finally {
      await runInDurableObject(object(), (instance) => {
        delete (instance as unknown as { env: Env }).env.GATEWAY_KEY;
      });
    }
  });

  it("waits for no object that fails", async () => {
    vi.spyOn(Metrics.prototype, "add").mockRejectedValue(new Error("gone"));
    await worker.scheduled(createScheduledController(), env);
    expect(await run()).toBeUndefined();
  });
});
