import { notFound } from "../../platform/http/errors.ts";
import { readQuery } from "../../platform/http/read-query.ts";
import type { AuthorisedCall } from "./route.ts";

/** Result of a read: the index for a blocking query, and a function that builds the answer. */
export interface Reading {
  readonly index: number;
  respond(): Response | Promise<Response>;
}

/**
 * Resolves once the data may have changed since an index, at the latest after `waitMs`; may resolve early.
 * @returns the newest index of the watched tables; null when too many queries wait
 */
export type Changed = (since: number, waitMs: number) => Promise<number | null>;

/** Maximum duration of one RPC: bounds the lifetime of abandoned waiters and the effect of a lost wake-up. */
const MAX_CALL_MS = 30_000;
/** Initial gap between two reads; it grows while changes arrive faster, so that a busy table causes no busy loop. */
const FIRST_GAP_MS = 20;
const MAX_GAP_MS = 2_000;
/** nginx's status for a closed request; the client does not read it. */
const CLIENT_CLOSED_REQUEST = 499;

/** A read without result: it waits like any other for the object to appear, then answers 404. */
export const nothing = (message: string, index = 0): Reading => ({
  index,
  respond: () => {
    throw notFound(message);
  },
});

/**
 * Answers a read; with `?index`, once its index is greater or the wait is over
 * (https://developer.hashicorp.com/nomad/api-docs#blocking-queries), or at once while too many queries wait. Exceptions
 * of `read` are answered immediately.
 * Rights are checked again at the end, so `read` should evaluate `call.grant` each time.
 * @param jitter from 0 to 1: fraction of a sixteenth of the wait that is added
 */
export async function blocking(
  call: Pick<AuthorisedCall, "query" | "request" | "recheck">,
  read: () => Promise<Reading>,
  changed: Changed,
  jitter: () => number = Math.random,
): Promise<Response> {
  const { index, waitMs } = readQuery(call.query);
  if (index === 0) return (await read()).respond();
  const { signal } = call.request;
  const deadline = Date.now() + waitMs * (1 + jitter() / 16);
  const left = () => Math.max(0, deadline - Date.now());
  let since = index;
  let gap = FIRST_GAP_MS;
  while (!signal.aborted) {
    const began = Date.now();
    const reading = await read();
    if (reading.index > index || left() === 0) return reading.respond();
    const wait = Math.min(left(), MAX_CALL_MS);
    const newest = await unlessAborted(signal, newestOf(changed(since, wait)));
    if (newest === null) return reading.respond();
    since = Math.max(since, newest);
    const early = began + gap - Date.now();
    gap = early > 0 ? Math.min(gap * 2, MAX_GAP_MS) : FIRST_GAP_MS;
    if (early > 0 && left() > 0) await unlessAborted(signal, sleep(Math.min(early, left())));
    if (!signal.aborted) await call.recheck();
  }
  return new Response(null, { status: CLIENT_CLOSED_REQUEST });
}

/** A restarting object loses its waiters: that counts as a change, and the next read decides. */
const newestOf = (index: Promise<number | null>): Promise<number | null> => index.catch(() => 0);

const sleep = (ms: number): Promise<number> => new Promise((resolve) => setTimeout(resolve, ms, 0));

async function unlessAborted<Value>(signal: AbortSignal, work: Promise<Value>): Promise<Value | 0> {
  if (signal.aborted) return 0;
  let abort = (): void => {};
  const aborted = new Promise<0>((resolve) => {
    abort = () => resolve(0);
  });
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
