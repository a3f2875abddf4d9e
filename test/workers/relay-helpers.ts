import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { placedName } from "../../src/platform/place.ts";
import { eventLog } from "../../src/rpc/stubs.ts";
import { send } from "./client.ts";
import { openStream, relays } from "./streams.ts";

/** Helpers for tests of relays. */

/** Opens a stream through one of the relays: from an address whose readers it serves. */
export async function openAt(relay: number, query = "", token = "root") {
  const { accessor } = (await send("POST", "/v1/auth/token/lookup", { token })).body.data;
  const isServed = (address: string) => placedName("", `${accessor} ${address}`, relays().length) === `-${relay}`;
  const address = Array.from({ length: 1_000 }, (_, n) => `192.0.2.${n}`).find(isServed) ?? "";
  return openStream(query, { token, headers: { "CF-Connecting-IP": address } });
}

export const relay = (number: number) => {
  const found = relays()[number];
  if (!found) throw new Error(`there is no relay ${number}`);
  return found;
};

type Feed = ReadableStream<Uint8Array>;

/** Puts something between a relay and the log, until the relay restarts. */
export function between(
  number: number,
  way: { feed?: (open: () => Promise<Feed>) => Promise<Feed>; before?: () => Promise<void>; knowsBounds?: () => void },
): Promise<void> {
  const log = () => env.EVENT_LOG.getByName("log");
  const stub = {
    fetch: async (url: string, init: RequestInit) => {
      const open = async () => (await log().fetch(url, init)).body as Feed;
      // As the runtime gives it: a stream of bytes.
      const { readable, writable } = new IdentityTransformStream();
      void (await (way.feed ?? ((direct) => direct()))(open)).pipeTo(writable).catch(() => undefined);
      return new Response(readable);
    },
    bounds: async () => {
      await way.before?.();
      const bounds = await eventLog(env).bounds();
      way.knowsBounds?.();
      return bounds;
    },
    lines: async (...parameters: Parameters<ReturnType<typeof eventLog>["lines"]>) => {
      await way.before?.();
      return eventLog(env).lines(...parameters);
    },
  };
  return runInDurableObject(relay(number), (object) => {
    const held = object as unknown as { env: object };
    held.env = { ...held.env, EVENT_LOG: { getByName: () => stub } };
  });
}

/** Forwards a feed in other pieces, each delayed by `pause`. */
export const slowly = (pause: (bytes: Uint8Array) => Promise<unknown>) => async (open: () => Promise<Feed>) =>
  (await open()).pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: async (bytes, controller) => {
        await pause(bytes);
        controller.enqueue(bytes);
      },
    }),
  );

/** Keeps a feed back until it is let go; then all that came meanwhile comes at once, with the next line or sign of life. */
export function gate() {
  let closed = false;
  let held: number[] = [];
  const pass = new TransformStream<Uint8Array, Uint8Array>({
    transform: (bytes, controller) => {
      held.push(...bytes);
      if (closed) return;
      controller.enqueue(Uint8Array.from(held));
      held = [];
    },
  });
  return {
    feed: async (open: () => Promise<Feed>) => (await open()).pipeThrough(pass),
    close: () => {
      closed = true;
    },
    open: () => {
      closed = false;
    },
  };
}

/** The keys that a stream gives up to one of them, each once and in order; signs of life never run ahead of lines. */
export async function keysTo(stream: Awaited<ReturnType<typeof openStream>>, last: string): Promise<string[]> {
  const keys: string[] = [];
  for (let at = 0; !keys.includes(last); ) {
    const { Index, Events } = await stream.next();
    if (Index < at || (Events.length > 0 && Index === at)) throw new Error(`line ${Index} comes after ${at}`);
    at = Index;
    keys.push(...Events.map(({ Key }) => Key));
  }
  return keys;
}
