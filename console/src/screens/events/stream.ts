/**
 * Reader of the event stream: connects, resumes at the next index after every loss, and reports gaps.
 *
 *   connecting ──► live ──► waiting (connection lost) ──► connecting
 *        │           │  ▲
 *        ▼           ▼  │ resume
 *     refused      paused            `refused` ends until the filters change or the person tries again
 */

import { ApiError, requestHeaders, type WireRequest } from "../../api/client.ts";
import { record, recorded } from "../../api/request-log.ts";
import { type Signal, signal } from "../../lib/signal.ts";
import { durationText } from "../../lib/time.ts";
import type { EventBuffer } from "./buffer.ts";
import type { EventBody } from "./topics.ts";

export interface Filters {
  /** `Topic` or `Topic:key`; none means all topics. */
  readonly topics: readonly string[];
  readonly namespace: string;
  /** Whether a first connection reads the whole backlog or only what comes from now on. */
  readonly from: "backlog" | "now";
}

export type StreamState =
  | { readonly name: "connecting" | "live" | "paused" }
  | { readonly name: "waiting"; readonly until: number; readonly why: string }
  | { readonly name: "refused"; readonly error: unknown };

/** Silence after which a connection counts as lost: the service sends a heartbeat each 10 s. */
const SILENCE_MS = 35_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];
/** Time for lines before the page gets its turn. */
const SLICE_MS = 12;

interface Line {
  readonly Index?: number;
  readonly Events?: readonly EventBody[];
  readonly Error?: { readonly Code?: string; readonly LastIndex?: number };
}

export class EventStream {
  readonly state = signal<StreamState>({ name: "connecting" });
  readonly buffer: EventBuffer;
  /** Index of the newest line or heartbeat; null before the first. */
  lastIndex: number | null = null;
  #filters: Filters;
  #running: AbortController | null = null;
  #lostAt: number | null = null;
  readonly #changed: () => void;

  /** @param changed called after each piece of input; must be cheap */
  constructor(buffer: EventBuffer, filters: Filters, changed: () => void) {
    this.buffer = buffer;
    this.#filters = filters;
    this.#changed = changed;
  }

  /** The request that the next connection sends. */
  get request(): WireRequest {
    const { topics, namespace, from } = this.#filters;
    const query = new URLSearchParams(topics.map((topic) => ["topic", topic]));
    if (namespace !== "default") query.set("namespace", namespace);
    if (this.lastIndex !== null) query.set("index", String(this.lastIndex + 1));
    else if (from === "now") query.set("index", "-1");
    query.set("errors", "true");
    return { verb: "GET", target: `/v1/event/stream?${query}`, namespace: "" };
  }

  start(): void {
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    const lost = (): void => {
      this.#lostAt ??= Date.now();
    };
    void keepConnected(this.state, running.signal, (onOpen) => this.#connect(running.signal, onOpen), lost);
  }

  stop(): void {
    this.#running?.abort();
    this.#running = null;
  }

  pause(): void {
    this.stop();
    this.state.value = { name: "paused" };
  }

  /** Begins again with other filters; the index of the old ones does not count. */
  change(filters: Filters): void {
    this.stop();
    this.#filters = filters;
    this.lastIndex = null;
    this.#lostAt = null;
    this.buffer.clear();
    this.#changed();
    this.start();
  }

  /** One connection until its end. Resolves with why it ended, if the service said so. @throws ApiError */
  async #connect(ending: AbortSignal, onOpen: () => void): Promise<string | undefined> {
    const { request } = this;
    const asked = this.lastIndex === null ? null : this.lastIndex + 1;
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const aborted = AbortSignal.any([ending, silence.signal]);
    try {
      const response = await opened(request, aborted);
      onOpen();
      this.#opened(asked, Number(response.headers.get("X-Orch-Oldest-Index") ?? 0));
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      let sliceBegan = performance.now();
      for (;;) {
        const { value, done } = (await reader?.read()) ?? { done: true };
        if (done || value === undefined) return undefined;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        for (const text of lines) {
          const end = this.#take(text);
          if (end !== null) return end;
          if (performance.now() - sliceBegan > SLICE_MS) {
            this.#changed();
            await nextTask();
            if (ending.aborted) return undefined;
            sliceBegan = performance.now();
          }
        }
        this.#changed();
      }
    } catch (failure) {
      if (silence.signal.aborted && !ending.aborted)
        throw new Error("The service was silent for too long", { cause: failure });
      throw failure;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Says honestly what lies between the last line and this connection. */
  #opened(asked: number | null, oldest: number): void {
    const at = Date.now();
    if (asked !== null && oldest > asked) {
      // Lines that other objects have there may be left.
      const lines = oldest - 1 === asked ? `Index ${asked} has` : `Indexes ${asked} to ${oldest - 1} have lines that`;
      this.buffer.addMark("warn", `Gap: ${lines} left the service's buffer.`, at);
    } else if (this.#lostAt !== null && asked !== null) {
      const away = durationText(at - this.#lostAt);
      this.buffer.addMark("info", `Reconnected after ${away} at index ${asked}: nothing is missing.`, at);
    } else if (asked === null && oldest > 1 && this.#filters.from === "backlog")
      this.buffer.addMark("info", `The service's buffer is complete from index ${oldest} on.`, at);
    this.#lostAt = null;
    this.state.value = { name: "live" };
    this.#changed();
  }

  /** One line. Resolves with why the stream ends if this is its last line. */
  #take(text: string): string | null {
    if (text === "") return null;
    const { Index, Events = [], Error: ended } = JSON.parse(text) as Line;
    const at = Date.now();
    if (ended) {
      this.buffer.addMark("bad", `The service ended the stream: ${ended.Code ?? "no reason given"}.`, at);
      return `The service ended the stream: ${ended.Code ?? "no reason given"}`;
    }
    if (Index === undefined) return null;
    if (this.lastIndex !== null && Index < this.lastIndex)
      this.buffer.addMark(
        "warn",
        `The index went back from ${this.lastIndex} to ${Index}: the service has lost its state.`,
        at,
      );
    this.lastIndex = Index;
    if (Events.length > 0) this.buffer.addLine(Index, Events, text, at);
    return null;
  }
}

/**
 * Connects again after each loss, later each time, until `ending` or a refusal that a repetition cannot change.
 * @param connect one connection until its end, with why it ended; it calls `onOpen` when it is answered
 */
export async function keepConnected(
  state: Signal<StreamState>,
  ending: AbortSignal,
  connect: (onOpen: () => void) => Promise<string | undefined>,
  onLost?: () => void,
): Promise<void> {
  for (let attempt = 0; !ending.aborted; attempt++) {
    state.value = { name: "connecting" };
    let why = "The connection was closed";
    const onOpen = (): void => {
      attempt = 0;
    };
    try {
      why = (await connect(onOpen)) ?? why;
    } catch (failure) {
      if (ending.aborted) return;
      if (failure instanceof ApiError && isFinal(failure)) {
        state.value = { name: "refused", error: failure };
        return;
      }
      why = failure instanceof Error ? failure.message : String(failure);
    }
    if (ending.aborted) return;
    onLost?.();
    const delay = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 0;
    state.value = { name: "waiting", until: Date.now() + delay, why };
    await waitFor(delay, ending);
  }
}

/** Opens a stream of the service. @throws ApiError */
export async function opened(request: WireRequest, signal: AbortSignal, accept = "*/*"): Promise<Response> {
  const started = performance.now();
  let response: Response;
  try {
    response = await fetch(request.target, {
      headers: { ...requestHeaders(request.namespace), Accept: accept },
      cache: "no-store",
      signal,
    });
  } catch (failure) {
    if (signal.aborted) throw failure;
    throw new ApiError(0, ["The service does not answer"], request);
  }
  noteRequest(request, response.status, started);
  if (response.ok) return response;
  const text = await response.text();
  let words = [text.slice(0, 2000)];
  try {
    const { errors } = JSON.parse(text) as { errors?: unknown };
    if (Array.isArray(errors)) words = errors.map(String);
  } catch {
    // A refusal in plain text.
  }
  throw new ApiError(response.status, words, request, response.headers.get("X-Request-Id"));
}

/** Shown among the commands of the screen. */
function noteRequest(request: WireRequest, status: number, started: number): void {
  const last = recorded.peek()[0];
  if (last?.target === request.target && last.status === status) return;
  record({ ...request, sensitive: false, status, started });
}

/** A refusal that another attempt would not change. */
const isFinal = ({ status }: ApiError): boolean => status >= 400 && status < 500 && status !== 429;

const nextTask = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

const waitFor = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
