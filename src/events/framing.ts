import { upstreamEvent } from "../compat/event-names.ts";
import { feedText } from "./feed-line.ts";
import type { Line, View } from "./line.ts";
import type { Subscription } from "./subscription.ts";

/** How a stream is written: one JSON object and a line feed each, or as server-sent events (WHATWG HTML 9.2). */
export interface Framing {
  readonly name: string;
  readonly view: View | null;
  /** What comes before anything else; null when the head of the answer leaves with the first line or heartbeat. */
  readonly greeting: string | null;
  /** @param events a JSON array */
  line(index: number, events: string): string;
  /** Instead of `line`: a whole line, whatever is in it. */
  whole?(line: Line): string;
  /** Nothing new, up to `index`. */
  heartbeat(index: number): string;
  /** The last line of a stream that is cut. @param error a JSON object */
  parting(error: string): string;
}

const lineOf = (index: number, events: string): string => `{"Index":${index},"Events":${events}}`;

const lines: Framing = {
  name: "lines",
  view: null,
  greeting: null,
  line: (index, events) => `${lineOf(index, events)}\n`,
  heartbeat: (index) => `${lineOf(index, "[]")}\n`,
  parting: (error) => `${error}\n`,
};

/** Upstream clients expect an empty object when there is nothing new, and one before anything else. */
const upstreamLines: Framing = {
  ...lines,
  name: "lines, upstream",
  view: upstreamEvent,
  greeting: "{}\n",
  heartbeat: () => "{}\n",
};

/** How long a browser waits before it connects again. */
const RETRY_MS = 2_000;

const serverSent: Framing = {
  name: "server-sent events",
  view: null,
  greeting: `retry: ${RETRY_MS}\n\n`,
  line: (index, events) => `id: ${index}\ndata: ${lineOf(index, events)}\n\n`,
  // Without data nothing fires, yet the browser remembers the id, from which it resumes. A comment would not move it.
  heartbeat: (index) => `id: ${index}\n\n`,
  parting: (error) => `event: error\ndata: ${error}\n\n`,
};

const upstreamServerSent: Framing = { ...serverSent, name: "server-sent events, upstream", view: upstreamEvent };

/** What a relay reads: lines with their facts, and line feeds as signs of life. */
const feed: Framing = { ...lines, name: "feed", whole: feedText, heartbeat: () => "\n" };

export function framingOf({ format, dialect }: Pick<Subscription, "format" | "dialect">): Framing {
  if (format === "feed") return feed;
  if (format === "server-sent-events") return dialect === "upstream" ? upstreamServerSent : serverSent;
  return dialect === "upstream" ? upstreamLines : lines;
}
