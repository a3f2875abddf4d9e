import { AsyncLocalStorage } from "node:async_hooks";
import type { HeaderReader } from "../../http/request-headers.ts";
import { attributesOf, nanosOf } from "./shapes.ts";

/**
 * W3C trace context (https://www.w3.org/TR/trace-context/) from the caller of a request to the calls of providers that
 * it causes. Costs nothing unless the deployment exports traces and the caller has set the flag `sampled`.
 */

/** The trace of one request. */
interface Trace {
  readonly id: string;
  /** The span of the caller; empty for a trace that begins here. */
  readonly parent: string;
  /** The span of this request. */
  readonly span: string;
  readonly state: string | null;
  /** Takes a completed span, in the shape of OTLP. */
  record(span: object): void;
}

const traces = new AsyncLocalStorage<Trace>();

export const withTrace = <T>(trace: Trace, work: () => T): T => traces.run(trace, work);

/** The trace of the request that this code works for; undefined when it is not sampled. */
export const currentTrace = (): Trace | undefined => traces.getStore();

/** Participants may drop longer states (https://www.w3.org/TR/trace-context/#tracestate-limits). */
const MAX_STATE = 512;
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-[\da-f][13579bdf](-.*)?$/;

/** The trace that a caller has sampled; null without one. */
export function sampledTrace(headers: Pick<HeaderReader, "get">, record: Trace["record"]): Trace | null {
  const [, version, id, parent, rest] = TRACEPARENT.exec(headers.get("traceparent") ?? "") ?? [];
  // Only later versions may have further parts.
  if (!id || !parent || (version === "00" && rest)) return null;
  return { id, parent, span: newSpan(), state: headers.get("tracestate"), record };
}

/** The current trace as a text for work that continues it later; null when the request is not sampled. */
export function traceText(): string | null {
  const trace = currentTrace();
  return trace ? [`00-${trace.id}-${trace.span}-01`, trace.state?.slice(0, MAX_STATE)].join("\n").trim() : null;
}

/** In place of a `traceText`: the work begins a trace, because no request causes it or the request is unknown. */
export const OWN_TRACE = "";

/** The trace of a `traceText`, with a span of its own. */
export function continuedTrace(text: string, record: Trace["record"]): Trace | null {
  if (text === OWN_TRACE) return { id: newTraceId(), parent: "", span: newSpan(), state: null, record };
  const [traceparent, tracestate = null] = text.split("\n");
  return sampledTrace({ get: (name) => (name === "traceparent" ? (traceparent ?? null) : tracestate) }, record);
}

const newTraceId = (): string => crypto.randomUUID().replaceAll("-", "");
/** The last two groups of a random UUID: 62 random bits. */
const newSpan = (): string => crypto.randomUUID().slice(19).replace("-", "");

export const SERVER = 2;
const CLIENT = 3;
/** Work from a queue. */
export const CONSUMER = 5;

/**
 * Records a completed span of the trace.
 * @param attributes never have paths of secrets, queries, header values or bodies
 */
export function recordSpan(
  trace: Trace,
  kind: typeof SERVER | typeof CLIENT | typeof CONSUMER,
  spanId: string,
  name: string,
  start: number,
  attributes: Readonly<Record<string, string | number>>,
  failed: boolean,
): void {
  trace.record({
    traceId: trace.id,
    spanId,
    parentSpanId: kind === CLIENT ? trace.span : trace.parent,
    name,
    kind,
    startTimeUnixNano: nanosOf(start),
    endTimeUnixNano: nanosOf(Date.now()),
    attributes: attributesOf(attributes),
    status: failed ? { code: 2 } : {},
  });
}

/** A call to another service within the current trace. */
interface CallSpan {
  /** The call's headers with the trace context. */
  readonly headers: Headers;
  /** @param outcome the status, or the code of a failure */
  end(outcome: number | string): void;
}

/** Begins a span for a call; undefined outside of a sampled trace. */
export function beginCall(
  method: string,
  host: string,
  init: RequestInit["headers"] | undefined,
): CallSpan | undefined {
  const trace = currentTrace();
  if (!trace) return undefined;
  const span = newSpan();
  const start = Date.now();
  const headers = new Headers(init);
  headers.set("traceparent", `00-${trace.id}-${span}-01`);
  if (trace.state) headers.set("tracestate", trace.state);
  return {
    headers,
    end(outcome) {
      const result = typeof outcome === "number" ? "http.response.status_code" : "error.type";
      const attributes = { "http.request.method": method, "server.address": host, [result]: outcome };
      recordSpan(trace, CLIENT, span, method, start, attributes, !(Number(outcome) < 400));
    },
  };
}
