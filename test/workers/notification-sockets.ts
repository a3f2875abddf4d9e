import { exports } from "cloudflare:workers";
import { expect } from "vitest";

/** Helpers for tests of event notifications. */

export interface NotificationFrame {
  readonly id: string;
  readonly data: {
    readonly event: { readonly id: string; readonly metadata: Readonly<Record<string, string>> };
    readonly namespace?: string;
    readonly event_type: string;
    readonly plugin_info?: Readonly<Record<string, string>>;
  };
}

interface Options {
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
  /** Whether the client takes what comes. */
  readonly reads?: boolean;
}

type Sockets = Set<WebSocket>;
const open: Sockets = new Set();

export function closeSockets(): void {
  for (const socket of open) socket.close(1000, "the test is over");
  open.clear();
}

/** Requests a subscription, as `vault events subscribe` does. */
export const requestSubscription = (path: string, { token = "root", headers = {} }: Options = {}): Promise<Response> =>
  exports.default.fetch(`https://x/v1/sys/events/subscribe/${path}`, {
    headers: { Upgrade: "websocket", ...(token !== null && { "X-Vault-Token": token }), ...headers },
  });

/** Opens a subscription. */
export async function subscribe(path: string, options: Options = {}) {
  const response = await requestSubscription(path, options);
  const socket = response.webSocket;
  if (!socket) throw new Error(`no upgrade: ${response.status} ${await response.text()}`);
  open.add(socket);
  const frames: (string | ArrayBuffer)[] = [];
  let arrived = Promise.withResolvers<void>();
  let closed: { readonly code: number; readonly reason: string } | null = null;
  const wake = () => {
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    frames.push(data);
    wake();
  });
  socket.addEventListener("close", ({ code, reason }) => {
    closed = { code, reason };
    open.delete(socket);
    wake();
  });
  if (options.reads !== false) socket.accept();
  const next = async (): Promise<string | ArrayBuffer> => {
    for (;;) {
      const frame = frames.shift();
      if (frame !== undefined) return frame;
      if (closed) throw new Error(`closed: ${JSON.stringify(closed)}`);
      await arrived.promise;
    }
  };
  const nextEvent = async (): Promise<NotificationFrame> => {
    const frame = await next();
    expect(frame).toMatch(/\n$/);
    return JSON.parse(String(frame)) as NotificationFrame;
  };
  return {
    response,
    socket,
    next,
    nextEvent,
    /** The next events as `type path`. */
    events: async (count: number): Promise<string[]> => {
      const seen: string[] = [];
      while (seen.length < count) {
        const { data } = await nextEvent();
        seen.push(`${data.event_type} ${data.event.metadata["path"] ?? ""}`);
      }
      return seen;
    },
    closed: async () => {
      while (!closed) await arrived.promise;
      return closed;
    },
    unread: () => frames.length,
  };
}
