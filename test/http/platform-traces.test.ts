import { createRequire } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startOtlpReceiver } from "../doubles/otlp-receiver.ts";

/* Spans of the platform in the local runtime, read by a streaming tail Worker: it gets what the platform records. */

const ofWrangler = createRequire(fileURLToPath(import.meta.resolve("wrangler")));
const esbuild = ofWrangler("esbuild") as typeof import("esbuild");
const { Miniflare, convertV4MiniflareOptions } = ofWrangler("miniflare") as typeof import("miniflare");

const SPANS = JSON.stringify(resolve("src/platform/observability/otlp/spans.ts"));
const WORKER = `import { traceAnswer, traced, tracedWork } from ${SPANS};
export default { fetch: (request, env) => traced(request.headers, env, async () => {
  const work = new URL(request.url).searchParams.get("work");
  if (work !== null) await tracedWork(env, request.headers.get("context")?.replace("own", ""), "secret-sync", async () => work, (done) => done === "failed");
  traceAnswer({ method: "GET", route: "GET /v1/{kv}/data/:path+", status: 200, time: Date.now(), requestId: "r-1" });
  return new Response();
}) };`;
const TAIL = `let seen = [];
export default {
  fetch: () => Response.json(seen),
  tailStream({ event }) {
    if (event.info.url.includes("_double")) return undefined;
    seen = [];
    return ({ event }) => void seen.push(event);
  },
};`;
const FROM_CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

let collector: Awaited<ReturnType<typeof startOtlpReceiver>>;
let runtime: InstanceType<typeof Miniflare>;

beforeAll(async () => {
  collector = await startOtlpReceiver();
  const stdin = { contents: WORKER, resolveDir: process.cwd(), loader: "js" as const };
  const external = ["cloudflare:*", "node:*"];
  const built = await esbuild.build({ stdin, bundle: true, format: "esm", write: false, external });
  const shape = { modules: true, compatibilityDate: "2026-10-01" };
  const compatibilityFlags = ["nodejs_als", "streaming_tail_worker"];
  const service = { name: "service", script: built.outputFiles[0]?.text ?? "", bindings: { OTLP_URL: collector.url } };
  runtime = new Miniflare(
    convertV4MiniflareOptions({
      workers: [
        { ...shape, ...service, compatibilityFlags, streamingTails: ["tail"] },
        { ...shape, ...service, name: "untraced", compatibilityFlags },
        { ...shape, name: "tail", script: TAIL, compatibilityFlags },
      ],
    }),
  );
});
afterAll(async () => {
  await runtime.dispose();
  await collector.close();
});

async function call(name: "service" | "untraced", query: string, headers: Record<string, string> = {}) {
  const worker = await runtime.getWorker(name);
  await worker.fetch(`http://service/v1/kv/data/app${query}`, { headers });
}

/** The recorded events of the last request, once it is complete. */
async function platformEvents(): Promise<Record<string, unknown>[]> {
  const tail = await runtime.getWorker("tail");
  let events: Record<string, unknown>[] = [];
  await expect
    .poll(async () => {
      events = (await (await tail.fetch("http://tail/")).json()) as typeof events;
      return events.some(({ type }) => type === "outcome");
    })
    .toBe(true);
  return events;
}

async function exported(): Promise<string[]> {
  const received = (await (await fetch(`${collector.url}/_double/received`)).json()) as { body: unknown }[];
  return [...JSON.stringify(received.map(({ body }) => body)).matchAll(/"traceId":"(\w+)"[^[]*?"name":"([^"]+)"/g)].map(
    ([, trace = "", name = ""]) => `${trace === FROM_CALLER.split("-")[1] ? "the caller's" : "an own"} ${name}`,
  );
}

describe("the platform's traces", () => {
  it("have the route of a request and the attributes of our spans", async () => {
    await call("service", "");
    const events = await platformEvents();
    expect(events).toContainEqual({ type: "spanUpdate", info: { type: "name", name: "GET /v1/{kv}/data/:path+" } });
    expect(events.filter(({ type }) => type === "attributes").flatMap(({ info }) => info)).toEqual([
      { name: "http.request.method", value: "GET" },
      { name: "http.route", value: "/v1/{kv}/data/:path+" },
      { name: "http.response.status_code", value: 200 },
      { name: "sallyport.request_id", value: "r-1" },
    ]);
  });

  it("have a span of work, with an error where it has failed", async () => {
    for (const [work, status] of [
      ["failed", [{ type: "spanUpdate", info: { type: "status", status: { code: "error" } } }]],
      ["done", []],
    ] as const) {
      await call("service", `?work=${work}`);
      const events = await platformEvents();
      expect(events).toContainEqual(expect.objectContaining({ type: "spanOpen", name: "secret-sync" }));
      expect(events.filter((each) => JSON.stringify(each).includes('"status"'))).toEqual(status);
    }
  });

  it("take the place of ours for work that no caller has begun, and only there", async () => {
    await call("service", "?work=done", { context: "own" });
    await call("service", "?work=done", { context: FROM_CALLER });
    await call("service", "", { traceparent: FROM_CALLER });
    await call("untraced", "?work=done", { context: "own" });
    const wanted = ["an own secret-sync", "the caller's GET /v1/{kv}/data/:path+", "the caller's secret-sync"];
    await expect.poll(async () => (await exported()).sort()).toEqual(wanted);
  });
});
