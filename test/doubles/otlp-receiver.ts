import * as z from "zod";
import { bodyOf, startLoopback } from "./loopback.ts";

/**
 * A collector that takes OTLP over HTTP in JSON. It refuses each body of another shape than the protos of OpenTelemetry
 * have in their JSON encoding: names in lowerCamelCase, ids in hexadecimal digits, 64-bit numbers as texts, enumerations
 * as numbers (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
 */

const Int64 = z.string().regex(/^-?\d{1,20}$/);
const Nanos = z.string().regex(/^\d{19}$/);
const Value = z.union([z.strictObject({ stringValue: z.string() }), z.strictObject({ intValue: Int64 })]);
const Attributes = z.array(z.strictObject({ key: z.string().min(1), value: Value }));
const Resource = z.strictObject({ attributes: Attributes });
const Scope = z.strictObject({ name: z.string().min(1), version: z.string().min(1) });

const Span = z.strictObject({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  /** Empty for the first span of a trace. */
  parentSpanId: z.string().regex(/^([0-9a-f]{16})?$/),
  name: z.string().min(1),
  kind: z.number().int().min(1).max(5),
  startTimeUnixNano: Nanos,
  endTimeUnixNano: Nanos,
  attributes: Attributes,
  status: z.strictObject({ code: z.number().int().min(0).max(2).optional(), message: z.string().optional() }),
});

export const Traces = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: Resource,
      scopeSpans: z.array(z.strictObject({ scope: Scope, spans: z.array(Span).min(1) })).min(1),
    }),
  ),
});

const point = { attributes: Attributes, timeUnixNano: Nanos };
const NumberPoint = z.strictObject({ ...point, asDouble: z.number() });
const HistogramPoint = z
  .strictObject({
    ...point,
    count: Int64,
    sum: z.number(),
    bucketCounts: z.array(Int64),
    explicitBounds: z.array(z.number()),
  })
  .refine(({ bucketCounts, explicitBounds }) => bucketCounts.length === explicitBounds.length + 1)
  .refine(({ bucketCounts, count }) => bucketCounts.reduce((sum, each) => sum + Number(each), 0) === Number(count));
const cumulative = { aggregationTemporality: z.literal(2) };
const about = { name: z.string().min(1), description: z.string() };
const Metric = z.union([
  z.strictObject({ ...about, gauge: z.strictObject({ dataPoints: z.array(NumberPoint).min(1) }) }),
  z.strictObject({
    ...about,
    sum: z.strictObject({ ...cumulative, isMonotonic: z.literal(true), dataPoints: z.array(NumberPoint).min(1) }),
  }),
  z.strictObject({
    ...about,
    histogram: z.strictObject({ ...cumulative, dataPoints: z.array(HistogramPoint).min(1) }),
  }),
]);

export const Metrics = z.strictObject({
  resourceMetrics: z.array(
    z.strictObject({
      resource: Resource,
      scopeMetrics: z.array(z.strictObject({ scope: Scope, metrics: z.array(Metric).min(1) })).min(1),
    }),
  ),
});

export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: validated above
  readonly body: any;
}

const SHAPES: Readonly<Record<string, z.ZodType>> = { "/v1/traces": Traces, "/v1/metrics": Metrics };

/**
 * Starts the collector. `GET /_double/received` returns the requests that it took, and `POST /_double/answers` sets the statuses of its
 * next answers.
 */
export async function startOtlpReceiver(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const received: (Received & { readonly problem: string | null })[] = [];
  let answers: number[] = [];
  return startLoopback(async (request, response) => {
    const text = String(await bodyOf(request));
    const path = request.url ?? "";
    response.setHeader("Content-Type", "application/json");
    if (path === "/_double/received") return response.end(JSON.stringify(received));
    if (path === "/_double/answers") {
      answers = JSON.parse(text);
      return response.end("{}");
    }
    const status = answers.shift() ?? 200;
    if (status !== 200) return response.writeHead(status).end("{}");
    const shape = SHAPES[path];
    const body = JSON.parse(text);
    const checked = shape?.safeParse(body);
    const problem = checked?.success ? null : (checked?.error.message ?? "no such path");
    received.push({ path, headers: request.headers as Record<string, string>, body, problem });
    response.writeHead(problem === null ? 200 : 400).end("{}");
  });
}
