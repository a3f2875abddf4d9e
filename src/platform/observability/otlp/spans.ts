import { tracing, waitUntil } from "cloudflare:workers";
import type { Answered } from "../../http/exchange.ts";
import { exportNow, isExporting } from "./export.ts";
import { resource, scope } from "./shapes.ts";
import {
  CONSUMER,
  continuedTrace,
  currentTrace,
  OWN_TRACE,
  recordSpan,
  SERVER,
  sampledTrace,
  withTrace,
} from "./trace-context.ts";

/**
 * Spans of sampled requests and of the calls that they cause, exported in batches. Where the platform traces an invocation
 * itself (https://developers.cloudflare.com/workers/observability/traces/), its spans get our names, and ours are recorded
 * for traces of callers only, which the platform does not continue.
 */

const BATCH_MS = 1_000;
/** A batch still open after this time has lost its request; the next span exports it. */
const STALE_AFTER_MS = 5_000;

let spans: object[] = [];
let openedAt = 0;

/** Runs the handling of a request within its trace, if its caller has sampled it. */
export function traced<T>(headers: Headers, env: Env, work: () => T): T {
  const trace = isExporting(env) ? sampledTrace(headers, (span) => add(env, span)) : null;
  return trace ? withTrace(trace, work) : work();
}

/**
 * Performs work of a queue as a span: of the earlier request that caused it, or of a trace of its own.
 * @param context the request's `traceText`, or `OWN_TRACE`; null or undefined for work without a span
 * @param isFailed whether a result is a failure
 */
export async function tracedWork<T>(
  env: Env,
  context: string | null | undefined,
  name: string,
  work: () => Promise<T>,
  isFailed: (result: T) => boolean,
): Promise<T> {
  return tracing.enterSpan(name, async (platformSpan) => {
    const isOurs = typeof context === "string" && isExporting(env) && !(context === OWN_TRACE && platformSpan.isTraced);
    const trace = isOurs ? continuedTrace(context, (span) => add(env, span)) : null;
    const start = Date.now();
    const result = await (trace ? withTrace(trace, work) : work());
    const failed = isFailed(result);
    if (failed) platformSpan.setStatus({ code: "error" });
    if (trace) recordSpan(trace, CONSUMER, trace.span, name, start, {}, failed);
    return result;
  });
}

/** Records the span of an answered request: its route, never its path. */
export function traceAnswer({ method, route, status, time, requestId }: Answered): void {
  const trace = currentTrace();
  const platformSpan = tracing.getActiveSpan();
  if (!trace && !platformSpan?.isTraced) return;
  const attributes = {
    "http.request.method": method,
    "http.route": route?.replace(/.* /, "") ?? "none",
    "http.response.status_code": status,
    "sallyport.request_id": requestId,
  };
  platformSpan?.updateName(route ?? method).setAttributes(attributes);
  if (trace) recordSpan(trace, SERVER, trace.span, route ?? method, time, attributes, status >= 500);
}

function add(env: Env, span: object): void {
  spans.push(span);
  const now = Date.now();
  if (spans.length > 1 && now - openedAt < STALE_AFTER_MS) return;
  openedAt = now;
  waitUntil(
    scheduler.wait(BATCH_MS).then(() => {
      const batch = spans;
      spans = [];
      // The timer of a stale batch has exported them.
      if (batch.length === 0) return;
      return exportNow(env, "traces", () => ({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: batch }] }] }));
    }),
  );
}
