import { notFound } from "../../platform/http/errors.ts";
import { readQuery } from "../../platform/http/read-query.ts";
import type { AuthorisedCall } from "./route.ts";

/** What a read found: the index that a blocking query compares, and how to answer with it. */
export interface Reading {
  readonly index: number;
  respond(): Response | Promise<Response>;
}

/**
 * Resolves as soon as what is read may have changed since an index, at the latest after `waitMs`. It may resolve early.
 * @returns the newest index of what was watched
 */
export type Changed = (since: number, waitMs: number) => Promise<number>;

/** One call into an object lasts no longer: a reader that left is forgotten after it, and a wake-up that got lost is made up for. */
const LONGEST_CALL_MS = 30_000;
/** Between two reads, growing while changes come faster than that: a busy table must not become a busy loop. */
const FIRST_GAP_MS = 20;
const LONGEST_GAP_MS = 2_000;
/** nginx's word for it; nobody is there to read it. */
const CLIENT_CLOSED_REQUEST = 499;

/** A read that found nothing: it waits as any other does, for the thing to come, and then says so. */
export const nothing = (message: string, index = 0): Reading => ({
  index,
  respond: () => {
    throw notFound(message);
  },
});

/**
 * Answers a read, with `?index` only once the index of what it reads is greater or the wait is over (contract:
 * events-and-volumes 2.2). Whatever `read` throws is answered at once. Who waits must still have the right in the end, so
 * `read` should take what it may show from `call.grant` each time.
 * @param jitter from 0 to 1: how much of a sixteenth of the wait is added to it
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
    const wait = Math.min(left(), LONGEST_CALL_MS);
    since = Math.max(since, await unlessAborted(signal, newestOf(changed(since, wait))));
    const early = began + gap - Date.now();
    gap = early > 0 ? Math.min(gap * 2, LONGEST_GAP_MS) : FIRST_GAP_MS;
    if (early > 0 && left() > 0) await unlessAborted(signal, sleep(Math.min(early, left())));
    if (!signal.aborted) await call.recheck();
  }
  return new Response(null, { status: CLIENT_CLOSED_REQUEST });
}

/** An object that restarts loses its waiters: that counts as a change, and the read finds out what there is. */
const newestOf = (index: Promise<number>): Promise<number> => index.catch(() => 0);

const sleep = (ms: number): Promise<number> => new Promise((resolve) => setTimeout(resolve, ms, 0));

async function unlessAborted(signal: AbortSignal, work: Promise<number>): Promise<number> {
  if (signal.aborted) return 0;
  let abort = (): void => {};
  const aborted = new Promise<number>((resolve) => {
    abort = () => resolve(0);
  });
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
