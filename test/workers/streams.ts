import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import type { Append, NewEvent } from "../../src/events/event.ts";
import type { EventLog } from "../../src/objects/event-log.ts";
import { eventLog } from "../../src/objects/stubs.ts";

/** What tests of the event stream share. */

export interface ReadLine {
  readonly Index: number;
  readonly Events: readonly (NewEvent & { readonly Index: number })[];
}

interface Options {
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
}

const signals = new Set<AbortController>();

/** Lets every reader of a test go, so that none outlives it. */
export async function closeAll(): Promise<void> {
  for (const controller of signals) controller.abort();
  signals.clear();
}

/** Opens the stream; `query` as it stands in the URL. */
export async function openStream(query = "", { token = "root", headers = {} }: Options = {}) {
  const controller = new AbortController();
  signals.add(controller);
  const response = await exports.default.fetch(`https://x/v1/event/stream${query}`, {
    headers: { ...(token !== null && { "X-Orch-Token": token }), ...headers },
    signal: controller.signal,
  });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  /** The next line as text, without its line feed; null when the stream is over. */
  const nextText = async (): Promise<string | null> => {
    for (;;) {
      const end = rest.indexOf("\n");
      if (end >= 0) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 1);
        return line;
      }
      const read = await reader?.read();
      if (!read || read.done) return null;
      rest += decoder.decode(read.value, { stream: true });
    }
  };
  const next = async (): Promise<ReadLine> => JSON.parse((await nextText()) ?? "null");
  return {
    response,
    nextText,
    next,
    /** The next line that has events. */
    nextLine: async (): Promise<ReadLine> => {
      for (;;) {
        const line = await next();
        if (line === null || line.Events?.length > 0) return line;
      }
    },
    /** What is read but not yet handed out. */
    rest: () => rest,
    read: () => reader?.read(),
    close: async () => {
      controller.abort();
      await reader?.cancel().catch(() => undefined);
    },
  };
}

export const event = (more: Partial<NewEvent> = {}): NewEvent => ({
  Topic: "Job",
  Type: "JobRegistered",
  Key: "web",
  Namespace: "default",
  FilterKeys: null,
  Payload: { Job: { ID: "web" } },
  ...more,
});

let seq = 0;
/** Appends one line a list of events, from a source of the tests. */
export async function append(...lines: (readonly NewEvent[])[]): Promise<number[]> {
  const entries: Append[] = lines.map((events) => ({ seq: ++seq, events }));
  return eventLog(env).append("test", entries);
}

/** One line an entry, told apart by key. */
export const appendKeys = (...keys: string[]): Promise<number[]> => append(...keys.map((Key) => [event({ Key })]));

export const state = () => eventLog(env).state();

/** Runs with other settings in the log's object, until it restarts. */
export async function withSettings(settings: Record<string, string>): Promise<void> {
  await runInDurableObject(env.EVENT_LOG.getByName("log"), (log: EventLog) => {
    const held = log as unknown as { env: object };
    held.env = { ...held.env, ...settings };
  });
}

export const evict = () => evictDurableObject(env.EVENT_LOG.getByName("log"));
export const kill = async (): Promise<void> => {
  const died = runInDurableObject(env.EVENT_LOG.getByName("log"), (_log, storage) => storage.abort("killed by a test"));
  await died.catch(() => undefined);
};

export const noReaders = () => vi.waitFor(async () => expect((await state()).readers).toBe(0), { timeout: 5_000 });
