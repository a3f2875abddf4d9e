/**
 * A subscription to event notifications, as server-sent events: it begins at a button, because KV mounts publish their
 * events only while there is a subscriber. It resumes after each loss at the index that follows.
 */

import type { WireRequest } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import { signal } from "../../lib/signal.ts";
import { keepConnected, opened, type StreamState } from "./stream.ts";

export interface Notice {
  readonly index: number;
  readonly type: string;
  /** When it happened, as an ISO date. */
  readonly time: string;
  readonly path: string;
  /** The namespace and the fields of the event, for the person who asks for more. */
  readonly details: string;
}

interface Received {
  readonly time?: string;
  readonly data?: {
    readonly event_type?: string;
    readonly event?: { readonly metadata?: Readonly<Record<string, string>> };
    readonly namespace?: string;
  };
}

/** Notices that the page keeps. */
export const MAX_NOTICES = 1_000;

const detailsOf = ({ path: _, operation: _o, index: _i, modified: _m, ...rest }: Readonly<Record<string, string>>) =>
  Object.entries(rest)
    .map(([name, value]) => `${name}: ${value}`)
    .join(", ");

export class Subscription {
  readonly state = signal<StreamState>({ name: "paused" });
  /** Newest first. */
  readonly notices = signal<readonly Notice[]>([]);
  #type = "*";
  #filter = "";
  #last: number | null = null;
  #running: AbortController | null = null;

  get request(): WireRequest {
    return this.requestOf(this.#type, this.#filter);
  }

  requestOf(type: string, filter: string): WireRequest {
    const query = new URLSearchParams(filter ? { filter } : {});
    if (this.#last !== null) query.set("index", String(this.#last + 1));
    const search = query.size > 0 ? `?${query}` : "";
    const target = `/v1/sys/events/subscribe/${encodeURIComponent(type || "*").replaceAll("%2F", "/")}${search}`;
    return { verb: "GET", target, namespace: secretsNamespace.value };
  }

  start(type: string, filter: string): void {
    this.stop();
    this.#type = type;
    this.#filter = filter;
    this.#last = null;
    this.notices.value = [];
    const running = new AbortController();
    this.#running = running;
    void keepConnected(this.state, running.signal, (onOpen) => this.#read(running.signal, onOpen));
  }

  stop(): void {
    this.#running?.abort();
    this.#running = null;
    this.state.value = { name: "paused" };
  }

  /** One connection until its end. @throws ApiError */
  async #read(ending: AbortSignal, onOpen: () => void): Promise<undefined> {
    const response = await opened(this.request, ending, "text/event-stream");
    onOpen();
    // A first connection that is lost before an event resumes where it began.
    this.#last ??= Number(response.headers.get("X-Orch-Start-Index") ?? 0) - 1;
    this.state.value = { name: "live" };
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      if (done || value === undefined) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      const added = lines.flatMap((line) => (line.startsWith("data:") ? [this.#notice(line.slice(5))] : []));
      if (added.length > 0) this.notices.value = [...added.reverse(), ...this.notices.value].slice(0, MAX_NOTICES);
    }
  }

  #notice(text: string): Notice {
    const { time = "", data = {} } = JSON.parse(text) as Received;
    const metadata = data.event?.metadata ?? {};
    const index = Number(metadata["index"] ?? 0);
    this.#last = Math.max(this.#last ?? 0, index);
    const { event_type: type = "", namespace = "" } = data;
    const path = namespace + (metadata["path"] ?? "");
    return { index, type, time, path, details: detailsOf(metadata) };
  }
}
