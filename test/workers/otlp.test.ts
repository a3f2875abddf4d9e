import {
  createExecutionContext,
  createScheduledController,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Metrics } from "../../src/objects/metrics.ts";
import { keyOf } from "../../src/platform/observability/metrics/isolate-counters.ts";
import worker from "../../src/worker.ts";
import type { Received } from "../doubles/otlp-receiver.ts";
import { get, patch, put } from "./client.ts";
import {
  byItself,
  creds,
  dynamicRole,
  mountEngine,
  openTenant,
  rows,
  succeeded,
  type Tenant,
  writeRole,
} from "./engine-helpers.ts";
import { type Issuer, newIssuer } from "./issuers.ts";
import { appendKeys } from "./streams.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { association, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { newHook, subscribe } from "./webhooks.ts";

/** OpenTelemetry: docs/guides/integrations/opentelemetry.md. The collector refuses bodies of another shape than OTLP's. */

const exporting = { ...env, OTLP_URL: env.TEST_DOUBLES.otlp, OTLP_HEADERS: "x-team=ops,authorization=Bearer%20secret" };
const PARENT = "00f067aa0ba902b7";
const JWKS = "/keys";

let issuer: Issuer;
let trace: string;

beforeEach(async () => {
  trace = crypto.randomUUID().replaceAll("-", "");
  issuer = await newIssuer("otlp");
  await put("/v1/sys/auth/jwt", { type: "jwt" });
});

/** Configures the issuer, for which the service fetches its documents. */
async function configure(headers: Record<string, string>, settings: object = exporting): Promise<number> {
  const url = "https://x/v1/auth/jwt/config?secret=in-the-query";
  const request = new Request<unknown, IncomingRequestCfProperties>(url, {
    method: "PUT",
    headers: { ...headers, "X-Vault-Token": "root" },
    body: JSON.stringify({ oidc_discovery_url: issuer.url }),
  });
  const context = createExecutionContext();
  const answer = await worker.fetch(request, settings as Env, context);
  await answer.text();
  await waitOnExecutionContext(context);
  return answer.status;
}

async function received(path: string): Promise<(Received & { problem: string | null })[]> {
  const all = (await (await fetch(`${env.TEST_DOUBLES.otlp}/_double/received`)).json()) as (Received & {
    problem: string | null;
  })[];
  expect(all.map(({ problem }) => problem).filter((problem) => problem !== null)).toEqual([]);
  return all.filter((each) => each.path === path);
}

// biome-ignore lint/suspicious/noExplicitAny: the collector has checked the shape
const allSpans = async (): Promise<any[]> =>
  (await received("/v1/traces")).flatMap(({ body }) => body.resourceSpans[0].scopeSpans[0].spans);

const spansOf = async (traceId: string) => (await allSpans()).filter((span) => span.traceId === traceId);
const spansNamed = async (name: string) => (await allSpans()).filter((span) => span.name === name);

// biome-ignore lint/suspicious/noExplicitAny: as above
const attributes = (span: any): Record<string, string> =>
  Object.fromEntries(
    // biome-ignore lint/suspicious/noExplicitAny: as above
    span.attributes.map(({ key, value }: any) => [key, value.stringValue ?? Number(value.intValue)]),
  );

describe("a request with a sampled traceparent", () => {
  it("becomes a span of the caller's trace, and the provider's call a span below it, whose id the provider gets", async () => {
    const headers = { traceparent: `00-${trace}-${PARENT}-01`, tracestate: "vendor=a" };
    expect(await configure(headers)).toBe(204);
    await expect.poll(async () => (await spansOf(trace)).length).toBeGreaterThanOrEqual(2);
    const spans = await spansOf(trace);
    const server = spans.find(({ kind }) => kind === 2);
    expect(server).toMatchObject({
      name: "POST /v1/auth/{jwt}/config",
      parentSpanId: PARENT,
      status: {},
    });
    expect(attributes(server)).toEqual({
      "http.request.method": "PUT",
      "http.route": "/v1/auth/{jwt}/config",
      "http.response.status_code": 204,
      "sallyport.request_id": expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const calls = spans.filter(({ kind }) => kind === 3);
    expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual(calls.map(() => server.spanId));
    const host = new URL(issuer.url).host;
    expect(attributes(calls.at(-1))).toEqual({
      "http.request.method": "GET",
      "server.address": host,
      "http.response.status_code": 200,
    });
    const { trace: sent } = await issuer.requests(JWKS);
    expect(calls.map(({ spanId }) => `00-${trace}-${spanId}-01 vendor=a`)).toContain(sent);
    const [first] = (await received("/v1/traces")).filter(({ body }) => JSON.stringify(body).includes(trace));
    expect(first?.headers).toMatchObject({ "x-team": "ops", authorization: "Bearer secret" });
    // Neither paths with names, nor queries, bodies or tokens.
    expect(JSON.stringify(spans)).not.toMatch(/in-the-query|root|openid-configuration/);
  });

  it("is exported again after an answer that allows it", async () => {
    await fetch(`${env.TEST_DOUBLES.otlp}/_double/answers`, { method: "POST", body: "[503]" });
    await configure({ traceparent: `00-${trace}-${PARENT}-01` });
    await expect.poll(async () => (await spansOf(trace)).length).toBeGreaterThanOrEqual(2);
  });
});

describe("no trace is exported, and none is passed on", () => {
  it("without a traceparent, with a malformed one, or when the caller has not sampled it", async () => {
    const refused = {
      absent: {},
      "not sampled": { traceparent: `00-${trace}-${PARENT}-00` },
      "an id of zeros": { traceparent: `00-${"0".repeat(32)}-${PARENT}-01` },
      "a further part in version 00": { traceparent: `00-${trace}-${PARENT}-01-more` },
      "version ff": { traceparent: `ff-${trace}-${PARENT}-01` },
    };
    for (const [about, headers] of Object.entries(refused)) {
      issuer = await newIssuer("otlp");
      expect(await configure(headers as Record<string, string>)).toBe(204);
      const { count, trace: sent } = await issuer.requests(JWKS);
      expect([count, sent], about).toEqual([1, ""]);
    }
    // A later span is exported after all earlier ones.
    const last = crypto.randomUUID().replaceAll("-", "");
    await configure({ traceparent: `01-${last}-${PARENT}-03-more` });
    await expect.poll(async () => (await spansOf(last)).length).toBeGreaterThan(0);
    expect(await spansOf(trace)).toEqual([]);
  });

  it("without the setting", async () => {
    expect(await configure({ traceparent: `00-${trace}-${PARENT}-01` }, env)).toBe(204);
    expect((await issuer.requests(JWKS)).trace).toBe("");
  });
});

it("metrics are exported at the trigger, with the names and labels of the scrape", async () => {
  await get("/v1/sys/health");
  const before = (await received("/v1/metrics")).length;
  const context = createExecutionContext();
  await worker.scheduled(createScheduledController(), exporting as unknown as Env);
  await waitOnExecutionContext(context);
  const [sent] = (await received("/v1/metrics")).slice(before);
  const { resource, scopeMetrics } = sent?.body.resourceMetrics[0] ?? {};
  expect(attributes(resource)).toMatchObject({ "service.name": "sallyport" });
  // biome-ignore lint/suspicious/noExplicitAny: the collector has checked the shape
  const metric = (name: string): any => scopeMetrics[0].metrics.find((each: { name: string }) => each.name === name);
  expect(metric("sallyport_sealed").gauge.dataPoints[0].asDouble).toBe(0);
  const requests = metric("sallyport_http_requests_total").sum.dataPoints.map(attributes);
  expect(requests).toContainEqual({ route: "/v1/sys/health", method: "GET", status: "200" });
  expect(metric("sallyport_http_request_duration_seconds").histogram.dataPoints.length).toBeGreaterThan(0);
  await worker.scheduled(createScheduledController(), env as unknown as Env);
  expect((await received("/v1/metrics")).length).toBe(before + 1);
});

it("metrics are exported a minute after a count, also while they are read more often", async () => {
  const before = (await received("/v1/metrics")).length;
  const [set, clear] = [setTimeout, clearTimeout];
  await runInDurableObject(env.METRICS.getByName("main") as DurableObjectStub<Metrics>, async (object) => {
    const held = object as unknown as { env: object };
    const { env: own } = held;
    held.env = exporting;
    /** The timers of a minute. */
    const minute = new Map<object, () => void>();
    const setting = vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms: number) => {
      if (ms !== 60_000) return set(run, ms);
      const timer = {};
      minute.set(timer, run);
      return timer;
    }) as never);
    const clearing = vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
      if (!minute.delete(timer as unknown as object)) clear(timer);
    });
    try {
      object.add("counting", 1, [[keyOf("sallyport_http_requests_total", ["/v1/x", "GET", "200"]), 1]]);
      // A scrape after half of it.
      await object.read();
      for (const run of [...minute.values()]) run();
    } finally {
      setting.mockRestore();
      clearing.mockRestore();
      held.env = own;
    }
  });
  await expect.poll(async () => (await received("/v1/metrics")).length).toBe(before + 1);
});

/** Runs a test while the queue's consumer exports traces. */
async function whileQueueExports(run: () => Promise<void>): Promise<void> {
  const consume = worker.queue;
  worker.queue = (batch, _env, exec) => consume(batch, exporting as unknown as Env, exec);
  try {
    await run();
  } finally {
    worker.queue = consume;
  }
}

async function sendTraced(path: string, body: object, headers: Record<string, string>): Promise<number> {
  const context = createExecutionContext();
  const request = new Request<unknown, IncomingRequestCfProperties>(`https://x/v1/${path}`, {
    method: "PUT",
    headers: { ...headers, "X-Vault-Token": "root" },
    body: JSON.stringify(body),
  });
  const answer = await worker.fetch(request, exporting as unknown as Env, context);
  await answer.text();
  await waitOnExecutionContext(context);
  return answer.status;
}

/** Waits until all spans recorded so far are exported. */
async function allExported(): Promise<void> {
  const last = crypto.randomUUID().replaceAll("-", "");
  await configure({ traceparent: `00-${last}-${PARENT}-01` });
  await expect.poll(async () => (await spansOf(last)).length).toBeGreaterThan(0);
}

it("a push by the queue continues the trace of the request that wrote the secret", () =>
  whileQueueExports(async () => {
    await put("/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    await cloudA.begin();
    await makeDestination("cloud-a-sm", "traced");
    await write("app", { password: "first-canary" });
    await setAssociation("cloud-a-sm/traced", "app");
    await patch("/v1/sys/sync/config", { disabled: true });
    const writeWith = (headers: Record<string, string>, password: string) =>
      sendTraced("kv/data/app", { data: { password } }, headers);
    await writeWith({ traceparent: `00-${trace}-${PARENT}-01`, tracestate: "vendor=b" }, "second-canary");
    expect((await spansOf(trace)).filter(({ kind }) => kind === 5)).toEqual([]);

    await patch("/v1/sys/sync/config", { disabled: false });
    await expect
      .poll(async () => (await spansOf(trace)).filter(({ kind }) => kind === 5).length, { timeout: 60_000 })
      .toBeGreaterThan(0);
    const spans = await spansOf(trace);
    const server = spans.find(({ kind }) => kind === 2);
    const push = spans.find(({ kind }) => kind === 5);
    expect(push).toMatchObject({ name: "secret-sync", parentSpanId: server.spanId, attributes: [], status: {} });
    const calls = spans.filter(({ kind }) => kind === 3);
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual(calls.map(() => push.spanId));
    expect(JSON.stringify(spans)).not.toMatch(/canary|traced|\bapp\b/);

    // A later change without a sampled trace does not continue this one.
    const before = (await spansOf(trace)).length;
    await writeWith({}, "third-canary");
    await eventually(async () => expect((await association("cloud-a-sm/traced", "app"))?.["synced_version"]).toBe(3));
    await allExported();
    expect(await spansOf(trace)).toHaveLength(before);
  }));

describe("a revocation by the queue", () => {
  /** Issues a lease. @returns its id, and the uuid of its mount */
  async function issued(): Promise<{ readonly lease: string; readonly uuid: string; readonly tenant: Tenant }> {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    await writeRole("canary", dynamicRole(tenant));
    return { lease: succeeded(await creds("canary")).body.lease_id, uuid, tenant };
  }

  const isGone = (uuid: string) => async () => expect(await rows(uuid, "leases")).toEqual([]);

  it("continues the trace of the request, with the provider's calls below it, also when it is repeated", () =>
    whileQueueExports(async () => {
      const { lease, uuid, tenant } = await issued();
      await tenant.call({ change: "LockScope", scope: tenant.resource_group });
      const headers = { traceparent: `00-${trace}-${PARENT}-01` };
      const revocation = { lease_id: lease, sync: false };
      expect(await sendTraced("sys/leases/revoke", revocation, headers)).toBe(202);
      const failed = async () => (await rows(uuid, "jobs"))[0]?.["failures"];
      await byItself(uuid, async () => expect(await failed()).toBeGreaterThan(0));
      await tenant.call({ change: "UnlockScope", scope: tenant.resource_group });
      await byItself(uuid, isGone(uuid));
      await allExported();
      const spans = await spansOf(trace);
      const server = spans.find(({ kind }) => kind === 2);
      const attempts = spans.filter(({ kind }) => kind === 5);
      const shared = { name: "lease-revocation", parentSpanId: server.spanId, attributes: [] };
      expect(attempts).toEqual(attempts.map(() => expect.objectContaining(shared)));
      const statuses = attempts.map(({ status }) => status.code);
      expect([statuses.includes(2), statuses.at(-1)]).toEqual([true, undefined]);
      const calls = spans.filter(({ kind }) => kind === 3);
      const ids = new Set(attempts.map(({ spanId }) => spanId));
      expect(calls.length).toBeGreaterThan(attempts.length);
      expect(calls.filter(({ parentSpanId }) => !ids.has(parentSpanId))).toEqual([]);
      expect(JSON.stringify(spans)).not.toMatch(/canary|cloud-b\/creds/);
    }));

  it("after the expiry of a lease has a trace of its own", () =>
    whileQueueExports(async () => {
      const { uuid } = await issued();
      const before = (await spansNamed("lease-revocation")).length;
      await byItself(uuid, isGone(uuid), 15_000, 40 * 86_400_000);
      await allExported();
      const [attempt] = (await spansNamed("lease-revocation")).slice(before);
      expect(attempt).toMatchObject({ parentSpanId: "", kind: 5, status: {} });
      const calls = (await spansOf(attempt.traceId)).filter(({ kind }) => kind === 3);
      expect(calls.length).toBeGreaterThan(0);
      expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual(calls.map(() => attempt.spanId));
    }));
});

it("each attempt to deliver events is a span of its own trace, which the receiver gets", () =>
  whileQueueExports(async () => {
    const hook = await newHook({ status: 503 });
    await subscribe("traced", hook.url, { Topics: { Job: ["*"] } });
    await appendKeys("a-canary");
    await eventually(async () => expect(await hook.keys()).toEqual(["a-canary"]));
    await allExported();
    const [first, second] = await hook.received();
    for (const [delivery, status] of [
      [first, { code: 2 }],
      [second, {}],
    ] as const) {
      const [, id = "", parent = ""] = /^00-(.{32})-(.{16})-01$/.exec(delivery?.trace ?? "") ?? [];
      const spans = await spansOf(id);
      const attempt = spans.find(({ kind }) => kind === 5);
      expect(attempt).toMatchObject({ name: "event-delivery", parentSpanId: "", attributes: [], status });
      const call = spans.find(({ kind }) => kind === 3);
      expect(call).toMatchObject({ spanId: parent, parentSpanId: attempt.spanId });
      expect(JSON.stringify(spans)).not.toMatch(/canary|hook-|traced/);
    }
  }));

// The last test: spans of one isolate are exported together.
it("a request is answered when the collector is not", async () => {
  const nowhere = { ...exporting, OTLP_URL: "http://127.0.0.1:1" };
  expect(await configure({ traceparent: `00-${trace}-${PARENT}-01` }, nowhere)).toBe(204);
});
