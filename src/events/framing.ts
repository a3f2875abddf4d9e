import { upstreamEvent } from "../compat/event-names.ts";
import { feedText } from "./feed-line.ts";
import type { Line, View } from "./line.ts";
import type { Subscription } from "./subscription.ts";

/** Output format of a stream: one JSON object and a line feed each, or server-sent events (WHATWG HTML 9.2). */
export interface Framing {
  readonly name: string;
  readonly view: View | null;
  /** First bytes of a stream; null when the response head is sent with the first line or heartbeat. */
  readonly greeting: string | null;
  /** @param events a JSON array */
  line(index: number, events: string): string;
  /** Replaces `line`: formats a whole line, without filtering. */
  whole?(line: Line): string;
  /** Reports that no event follows up to `index`. */
  heartbeat(index: number): string;
  /** The last line of a cut stream. @param error a JSON object */
  lastLine(error: string): string;
}

const lineOf = (index: number, events: string): string => `{"Index":${index},"Events":${events}}`;

const lines: Framing = {
  name: "lines",
  view: null,
  greeting: null,
  line: (index, events) => `${lineOf(index, events)}\n`,
  heartbeat: (index) => `${lineOf(index, "[]")}\n`,
  lastLine: (error) => `${error}\n`,
};

/** Upstream clients expect an empty object as heartbeat, and one as greeting. */
const upstreamLines: Framing = {
  ...lines,
  name: "lines, upstream",
  view: upstreamEvent,
  greeting: "{}\n",
  heartbeat: () => "{}\n",
};

/** Reconnect delay of browsers. */
const RETRY_MS = 2_000;

const serverSent: Framing = {
  name: "server-sent events",
  view: null,
  greeting: `retry: ${RETRY_MS}\n\n`,
  line: (index, events) => `id: ${index}\ndata: ${lineOf(index, events)}\n\n`,
  // Without data no event fires, but the browser stores the id and resumes from it. A comment would not change the id.
  heartbeat: (index) => `id: ${index}\n\n`,
  lastLine: (error) => `event: error\ndata: ${error}\n\n`,
};

const upstreamServerSent: Framing = { ...serverSent, name: "server-sent events, upstream", view: upstreamEvent };

/** The format of relays: lines with their headers, and line feeds as heartbeats. */
const feed: Framing = { ...lines, name: "feed", whole: feedText, heartbeat: () => "\n" };

export function framingOf({ format, dialect }: Pick<Subscription, "format" | "dialect">): Framing {
  if (format === "feed") return feed;
  if (format === "server-sent-events") return dialect === "upstream" ? upstreamServerSent : serverSent;
  return dialect === "upstream" ? upstreamLines : lines;
}
