import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { EventSourceParser } from "../event-source.ts";
import type { SeenEvent, SeenLine, Wish } from "../events-reference.ts";

/** One connection of a reader. */
export interface Asked {
  readonly base: string;
  /** Null: the first token. */
  readonly accessor: string | null;
  readonly secret: string;
  readonly wish: Wish;
  /** The first requested index; negative = new lines only. */
  readonly from: number;
  readonly format: "lines" | "server-sent-events";
  readonly errors: boolean;
}

/** The test's knowledge at one moment. */
export interface Moment {
  readonly time: number;
  /** The number of writes of rights sent so far. */
  readonly sent: number;
  /** The newest index in any answer. */
  readonly known: number;
  /** The service's base URL; empty during its shutdown. */
  readonly base: string;
}

export interface Visit extends Asked {
  readonly begun: Moment;
  /** 0: no answer. */
  status: number;
  answered: Moment;
  /** The oldest available index at its start. */
  oldest: number;
  lines: (SeenLine & { readonly at: Moment })[];
  /** The index of the first received line, heartbeats included, and of the last. */
  first: number | null;
  reached: number;
  error: { readonly Code: string; readonly LastIndex: number } | null;
  /** `left`: the reader disconnected. `over`: the service ended it. `cut`: the connection broke. */
  end: "left" | "over" | "cut";
  ended: Moment;
  /** Received data that is not a line of a stream. */
  broken: string[];
}

export interface Pace {
  /** Milliseconds before the next chunk is read. */
  pause(): number;
  /** Whether to disconnect now. */
  leaves(visit: Visit): boolean;
}

export function urlOf({ base, wish, from, errors, format }: Asked): string {
  const query = new URLSearchParams();
  for (const [topic, key] of wish.topics) query.append("topic", key === "*" ? topic : `${topic}:${key}`);
  query.set("namespace", wish.namespace);
  if (format === "lines" || from < 0) query.set("index", String(from));
  if (errors) query.set("errors", "true");
  return `${base}/v1/event/stream?${query}`;
}

/** Connects once and reads until the stream ends or the reader disconnects. Never rejects. */
export async function read(asked: Asked, pace: Pace, now: () => Moment): Promise<Visit> {
  const begun = now();
  const visit: Visit = {
    ...asked,
    begun,
    status: 0,
    answered: begun,
    oldest: 0,
    lines: [],
    first: null,
    reached: Math.max(0, asked.from - 1),
    error: null,
    end: "cut",
    ended: begun,
    broken: [],
  };
  const controller = new AbortController();
  const sse = asked.format === "server-sent-events";
  const watch = setInterval(() => {
    if (!pace.leaves(visit)) return;
    visit.end = "left";
    controller.abort();
  }, 50);
  try {
    const answer = await fetch(urlOf(asked), {
      headers: {
        "X-Orch-Token": asked.secret,
        ...(sse && { Accept: "text/event-stream" }),
        ...(sse && asked.from >= 0 && { "Last-Event-ID": String(Math.max(0, asked.from - 1)) }),
      },
      signal: controller.signal,
    });
    visit.status = answer.status;
    visit.answered = now();
    visit.oldest = Number(answer.headers.get("X-Orch-Oldest-Index"));
    if (answer.status !== 200 || !answer.body) {
      await answer.text();
      visit.end = "over";
    } else await readBody(answer.body, visit, pace, now, sse ? sseReader(visit, now) : lineReader(visit, now));
  } catch {
    // Disconnected or broken, see `end`.
  }
  clearInterval(watch);
  visit.ended = now();
  return visit;
}

async function readBody(
  body: ReadableStream<Uint8Array>,
  visit: Visit,
  pace: Pace,
  now: () => Moment,
  take: (text: string) => void,
): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    take(decoder.decode(bytes, { stream: true }));
    if (visit.end === "left") return;
    const pause = pace.pause();
    if (pause > 0) await sleep(pause);
  }
  visit.end = "over";
  visit.ended = now();
}

const LONG = 20_000;

/** Digests of large payloads for comparison, because many readers store their lines. */
function short(event: SeenEvent): SeenEvent {
  const text = JSON.stringify(event.Payload);
  if (text.length < LONG) return event;
  const [object] = Object.values<{ Mark: string }>(event.Payload);
  return {
    ...event,
    Payload: { Long: { Mark: object?.Mark, digest: createHash("sha256").update(text).digest("hex") } },
  };
}

type Parsed = { Index: number; Events: SeenEvent[]; Error?: undefined } | { Error: Visit["error"] };

function takeObject(visit: Visit, text: string, now: () => Moment): number | null {
  if (visit.error) visit.broken.push(`after the last line: ${text.slice(0, 200)}`);
  const parsed: Parsed = JSON.parse(text);
  if (parsed.Error !== undefined) {
    visit.error = parsed.Error;
    visit.reached = Math.max(visit.reached, visit.error?.LastIndex ?? 0);
    return null;
  }
  const { Index, Events } = parsed;
  visit.first ??= Events.length > 0 ? Index - 1 : Index;
  if (Events.length > 0) visit.lines.push({ Index, Events: Events.map(short), at: now() });
  visit.reached = Math.max(visit.reached, Index);
  return Index;
}

function lineReader(visit: Visit, now: () => Moment): (text: string) => void {
  let rest = "";
  return (text) => {
    const complete = (rest + text).split("\n");
    rest = complete.pop() ?? "";
    for (const line of complete) {
      try {
        takeObject(visit, line, now);
      } catch {
        visit.broken.push(line.slice(0, 200));
      }
    }
  };
}

function sseReader(visit: Visit, now: () => Moment): (text: string) => void {
  const parser = new EventSourceParser();
  return (text) => {
    for (const { type, data, lastEventId } of parser.feed(text)) {
      const index = takeObject(visit, data, now);
      if (type !== (visit.error ? "error" : "message")) visit.broken.push(`an event of type ${type}`);
      if (index !== null && String(index) !== lastEventId) visit.broken.push(`line ${index} has id ${lastEventId}`);
    }
    // Heartbeats dispatch no event but change the last event id.
    if (parser.lastEventId !== "") {
      visit.first ??= Number(parser.lastEventId);
      visit.reached = Math.max(visit.reached, Number(parser.lastEventId));
    }
  };
}
