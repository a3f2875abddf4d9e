import { waitUntil } from "cloudflare:workers";
import type { Answered } from "../../http/exchange.ts";
import { exportNow, isExporting } from "./export.ts";
import { resource, scope } from "./shapes.ts";
import {
  CONSUMER,
  continuedTrace,
  currentTrace,
  recordSpan,
  SERVER,
  sampledTrace,
  withTrace,
} from "./trace-context.ts";

/** Spans of sampled requests and of the calls that they cause, exported in batches. */

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
  const isTraced = typeof context === "string" && isExporting(env);
  const trace = isTraced ? continuedTrace(context, (span) => add(env, span)) : null;
  if (!trace) return work();
  const start = Date.now();
  const result = await withTrace(trace, work);
  recordSpan(trace, CONSUMER, trace.span, name, start, {}, isFailed(result));
  return result;
}

/** Records the span of an answered request: its route, never its path. */
export function traceAnswer({ method, route, status, time, requestId }: Answered): void {
  const trace = currentTrace();
  if (!trace) return;
  const attributes = {
    "http.request.method": method,
    "http.route": route?.replace(/.* /, "") ?? "none",
    "http.response.status_code": status,
    "sallyport.request_id": requestId,
  };
  recordSpan(trace, SERVER, trace.span, route ?? method, time, attributes, status >= 500);
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
