import type { Failure } from "../contracts/failure.ts";
import { isLoopback } from "../lib/hosts.ts";
import { beginCall } from "../platform/observability/otlp/trace-context.ts";
import { missingNetwork, type Network, privateNetworkOf } from "./private-networks.ts";

/** Providers answer with small documents; a larger body comes from another server. */
const maxBodyBytes = 1024 * 1024;

/** The longest wait accepted from a provider, in milliseconds, so that one header cannot park work for days. */
export const maxRetryAfterMs = 60 * 60 * 1000;

/** An answer of any status (except a redirect), with its complete body as UTF-8 text, unless the limits ignore it. */
interface Answered {
  ok: true;
  response: Response;
  text: string;
}

export type Call = Answered | { ok: false; outcome: Failure };

export interface CallLimits {
  /** Time limit of the whole exchange, body included, in milliseconds. Zero or less: no request is sent. */
  deadlineMs: number;
  /** The network that carries the request where `PRIVATE_NETWORKS` has none; by default the Worker's own. */
  network?: Network | undefined;
  /** Whether the status alone decides: the body is not read, and `text` is empty. */
  ignoresBody?: boolean;
}

/** Sends one request of an operation and reads the answer: `callProvider` with the operation's remaining time. */
export type Send = (request: readonly [url: string, init: RequestInit]) => Promise<Call>;

/** Whether a call may start now. Checked before each call; false while syncing is paused. */
export type Permit = () => Promise<boolean>;

/**
 * The `Send` of one operation: all its calls share one deadline, counted from now, and each checks `permit` first.
 * This is the fence of a pause: once `permit` returns false, no request is sent.
 */
export function sender({ deadlineMs, permit }: CallLimits & { permit?: Permit }): Send {
  const end = Date.now() + deadlineMs;
  return async (request) => {
    if (permit && !(await permit())) return { ok: false, outcome: failure("external", "paused", "Syncing is paused.") };
    return callProvider(request, { deadlineMs: end - Date.now() });
  };
}

/** Makes a failure value. */
export function failure(
  outcome: Failure["outcome"],
  code: string,
  message: string,
  retryAfterMs: number | null = null,
): Failure {
  return retryAfterMs === null ? { outcome, code, message } : { outcome, code, message, retryAfterMs };
}

/** Turns `unknown` into `external`, and clears `unsure`, for a call that changes no state. */
export function withoutEffect({ unsure: _unsure, ...outcome }: Failure): Failure {
  return outcome.outcome === "unknown" ? { ...outcome, outcome: "external" } : outcome;
}

/**
 * The failure of a write that was answered with this status. With 5xx, 408 and 499 the server or a proxy before it gives
 * up on a call that may still be applied. A refusal for too many requests has no effect, whatever its status.
 */
export function withUnsureEffect(outcome: Failure, status: number): Failure {
  const isGivenUp = status >= 500 || status === 408 || status === 499;
  return isGivenUp && outcome.outcome === "external" && outcome.code !== "throttled"
    ? { ...outcome, unsure: true }
    : outcome;
}

/** Whether a write that failed so may have been applied. */
export const mayHaveApplied = ({ outcome, unsure }: Failure): boolean => outcome === "unknown" || unsure === true;

/**
 * Sends one request to a provider and reads the answer. All provider calls go through this function.
 *
 * One deadline covers connecting, waiting and reading. Redirects are refused, because the credentials in the request
 * are meant for one host. Plain http is allowed to loopback only. Never throws: failures are values, and a failure
 * after the request may have been sent is `unknown`.
 */
export async function callProvider(
  request: Request | readonly [url: string, init: RequestInit],
  limits: CallLimits,
): Promise<Call> {
  const url = URL.parse(request instanceof Request ? request.url : request[0]);
  const refused = refuseUrl(url);
  if (refused !== null || url === null) {
    return { ok: false, outcome: refused ?? failure("client", "invalid_url", "The provider's URL is not a URL.") };
  }
  if (!(limits.deadlineMs > 0)) {
    return { ok: false, outcome: failure("external", "deadline_exceeded", "No time was left to call the provider.") };
  }

  const own = privateNetworkOf(url);
  if (typeof own === "string")
    return { ok: false, outcome: failure("client", "network_not_bound", `${url.host} ${missingNetwork(own)}.`) };

  const abort = new AbortController();
  // Some runtimes do not abort a streaming body, so each read races the deadline.
  const expired = Promise.withResolvers<never>();
  expired.promise.catch(() => {});
  const timer = setTimeout(() => {
    abort.abort();
    expired.reject(new Error("deadline"));
  }, limits.deadlineMs);
  const { method = "GET", headers } = request instanceof Request ? request : request[1];
  const span = beginCall(method, url.host, headers);
  let outcome: number | string = "failed";
  try {
    const options = { redirect: "manual", signal: abort.signal, ...(span && { headers: span.headers }) } as const;
    const network = own ?? limits.network ?? globalThis;
    const response = await (request instanceof Request
      ? network.fetch(new Request(request, options))
      : network.fetch(request[0], { ...request[1], ...options }));
    outcome = response.status;
    if (response.status >= 300 && response.status < 400) {
      await response.body?.cancel();
      const message = `${url.host} answered with a redirect (${response.status}), which is not followed.`;
      const redirected = failure("client", "redirect_refused", message);
      // Some APIs redirect to what a write has made.
      const isRead = method === "GET" || method === "HEAD";
      return { ok: false, outcome: isRead ? redirected : { ...redirected, unsure: true } };
    }
    if (limits.ignoresBody) {
      response.body?.cancel().catch(() => {});
      return { ok: true, response, text: "" };
    }
    const text = await readBounded(response, expired.promise);
    if (text === null) {
      const message = `${url.host} answered with more than ${maxBodyBytes} bytes.`;
      return { ok: false, outcome: failure("unknown", "answer_too_large", message) };
    }
    return { ok: true, response, text };
  } catch {
    // The runtime's error text may quote the request, so it is not passed on.
    const reason = abort.signal.aborted
      ? failure("unknown", "deadline_exceeded", `${url.host} did not answer within ${limits.deadlineMs} ms.`)
      : failure("unknown", "network_error", `The connection to ${url.host} failed before an answer was complete.`);
    outcome = reason.code;
    return { ok: false, outcome: reason };
  } finally {
    clearTimeout(timer);
    span?.end(outcome);
  }
}

/**
 * The wait requested by `retry-after-ms` (Azure) or `Retry-After`, in milliseconds from `now`, at most an hour; null when
 * both are absent or unreadable. Accepts both forms of RFC 9110 10.2.3: seconds and an HTTP date.
 */
export function retryAfterMs(response: Response, now = Date.now()): number | null {
  const precise = response.headers.get("retry-after-ms")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(precise)) return Math.min(Number(precise), maxRetryAfterMs);
  const header = response.headers.get("retry-after")?.trim();
  if (!header) return null;
  // HTTP dates end in GMT; Date.parse alone would accept nearly any text, even -1.
  const at = header.endsWith(" GMT") ? Date.parse(header) : Number.NaN;
  const wait = /^\d+$/.test(header) ? Number(header) * 1000 : at - now;
  return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), maxRetryAfterMs);
}

/**
 * The wait stated by an answer that refuses a call for too many requests, in milliseconds from `now`, at most an hour;
 * null without a readable hint. Read in this order: `retry-after-ms` (Azure), `Retry-After`, then `RateLimit-Reset` and
 * `X-RateLimit-Reset`, which hold seconds from now, a time since 1970, or an ISO 8601 date. Providers send the last two
 * with every answer, so other refusals read `retryAfterMs` only.
 */
export function throttleHintMs(response: Response, now = Date.now()): number | null {
  const { headers } = response;
  const reset = (headers.get("ratelimit-reset") ?? headers.get("x-ratelimit-reset"))?.trim() ?? "";
  return retryAfterMs(response, now) ?? resetMs(reset, now);
}

function resetMs(reset: string, now: number): number | null {
  const number = /^\d+(\.\d+)?$/.test(reset) ? Number(reset) : null;
  const at = number === null ? (/^\d{4}-\d\d-\d\dT/.test(reset) ? Date.parse(reset) : Number.NaN) : timeOf(number, now);
  return Number.isNaN(at) ? null : Math.min(Math.max(at - now, 0), maxRetryAfterMs);
}

/** @param reset a wait in seconds, or a time since 1970 in seconds or milliseconds: no wait is half as long as that */
function timeOf(reset: number, now: number): number {
  if (reset > now / 2) return reset;
  return reset * 1000 > now / 2 ? reset * 1000 : now + reset * 1000;
}

/**
 * Whether an answer is a web page, which comes from another server than the service. Any other successful answer to a
 * deletion counts as done.
 */
export const isWebPage = (text: string): boolean => text.trimStart().startsWith("<");

/** Providers accept signatures and assertions with a smaller clock difference. */
const maxClockMs = 4 * 60_000;

/** Whether an answer's `Date` differs from our clock by more than `mostMs`. */
export function clockDiffers(response: Response, now = Date.now(), mostMs = maxClockMs): boolean {
  return Math.abs(Date.parse(response.headers.get("date") ?? "") - now) > mostMs;
}

/** The refusal of a URL for credentials; null when it is allowed. */
function refuseUrl(url: URL | null): Failure | null {
  if (url === null || url.username !== "" || url.password !== "") {
    return failure("client", "invalid_url", "The provider's URL is not a URL, or it holds credentials.");
  }
  if (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname))) return null;
  return failure("client", "insecure_url", `${url.host} must be called with https; http is for loopback hosts only.`);
}

/** Whether the body is within the limit by its header, which counts the bytes before a decoding. */
const hasSmallBody = ({ headers }: Response): boolean =>
  Number(headers.get("content-length") ?? Number.NaN) <= maxBodyBytes && !headers.has("content-encoding");

/** The body as text, or null when it exceeds the limit. Rejects when the connection breaks or with `expired`. */
async function readBounded(response: Response, expired: Promise<never>): Promise<string | null> {
  if (response.body === null) return "";
  // A body of a known size is read by the runtime in one step.
  if (hasSmallBody(response)) return Promise.race([response.text(), expired]);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), expired]);
      if (done) return text + decoder.decode();
      size += value.byteLength;
      if (size > maxBodyBytes) return null;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    // Frees the connection; a no-op after the last chunk. The outcome is decided, so errors are ignored.
    reader.cancel().catch(() => {});
  }
}
