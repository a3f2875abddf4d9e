import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import type { Append, NewEvent } from "../../src/contracts/event.ts";
import { settings } from "../../src/platform/settings.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { evictObject } from "./evict-all.ts";

/** Helpers for tests of the event stream. */

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
  /** Text that was read but not yet returned. A line of megabytes has thousands of parts: only the last may end it. */
  let parts = [""];
  /** The next line as text, without its line feed; null when the stream is over. */
  const nextText = async (): Promise<string | null> => {
    for (;;) {
      const last = parts.pop() ?? "";
      const end = last.indexOf("\n");
      parts.push(end < 0 ? last : last.slice(0, end));
      if (end >= 0) {
        const line = parts.join("");
        parts = [last.slice(end + 1)];
        return line;
      }
      const read = await reader?.read();
      if (!read || read.done) return null;
      parts.push(decoder.decode(read.value, { stream: true }));
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
    /** Text that was read but not yet returned. */
    rest: () => parts.join(""),
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

/** One line per entry, identified by key. */
export const appendKeys = (...keys: string[]): Promise<number[]> => append(...keys.map((Key) => [event({ Key })]));

/** From now on streams are opened through this many relays; 0 = at the log itself. */
export const throughRelays = (relays: number) => Object.assign(settings(env), { EVENT_RELAYS: relays });

const log = () => env.EVENT_LOG.getByName("log");
/** The relays that streams of these tests are opened through. */
export const relays = () =>
  Array.from({ length: settings(env).EVENT_RELAYS }, (_, number) => env.EVENT_RELAY.getByName(`anywhere-${number}`));
const servers = () => [...relays(), log()] as DurableObjectStub[];

/** The log's state and its number of readers, relays included. */
export async function state() {
  const held = await eventLog(env).state();
  let readers = 0;
  for (const relay of relays()) readers += (await relay.state()).readers;
  return { ...held, readers: relays().length > 0 ? readers : held.readers };
}

/** Runs with other settings in the objects that serve streams, until they restart. */
export async function withSettings(changes: Record<string, string>, objects = servers()): Promise<void> {
  for (const server of objects) {
    await runInDurableObject(server, (object) => {
      const held = object as unknown as { env: object };
      held.env = { ...held.env, ...changes };
    });
  }
}

/** The topics about the secrets API that all objects publish, and requests find enabled, from now on. */
export function enableServiceEvents(topics: string): Promise<void> {
  Object.assign(settings(env), { SERVICE_EVENTS: topics });
  // The objects of a Worker share its environment, which its settings are kept by.
  return runInDurableObject(log() as DurableObjectStub, (object) => {
    Object.assign(settings((object as unknown as { env: object }).env), { SERVICE_EVENTS: topics });
  });
}

/** Also the relays, which let the log go by themselves; an object with a timer or a stream refuses. */
export async function evict(): Promise<void> {
  await vi.waitFor(async () => expect((await eventLog(env).state()).readers).toBe(0));
  for (const server of servers()) await evictObject(server);
}

export async function killOnly(object: DurableObjectStub): Promise<void> {
  const died = runInDurableObject(object, (_object, storage) => storage.abort("killed by a test"));
  await died.catch(() => undefined);
}

export async function kill(): Promise<void> {
  for (const server of servers()) await killOnly(server);
}

export const noReaders = () => vi.waitFor(async () => expect((await state()).readers).toBe(0));
