import type { StoredLine } from "../contracts/event-log.ts";
import { within } from "../lib/timeout.ts";
import { Line } from "./line.ts";

/*
 * How lines travel from the log to its relays: a text line each, its index, its facts and its events with tabs between. JSON
 * holds no bare tab or line feed, so nothing needs to be escaped, and nothing of it is parsed on the way.
 */

export const storedLine = ({ index, storedFacts, text }: Line): StoredLine => [index, storedFacts, text];
export const lineFrom = ([index, facts, events]: StoredLine): Line => Line.stored(index, events, facts);

export const feedText = ({ index, storedFacts, text }: Line): string => `${index}\t${storedFacts ?? ""}\t${text}\n`;

function read(text: string): Line {
  const [index = "", facts = "", events = ""] = text.split("\t");
  return Line.stored(Number(index), events, facts || null);
}

/** What is read at once: the runtime hands out 4 KiB unless asked for more, and each piece wakes every reader. */
const CHUNK_BYTES = 64 * 1024;

/**
 * The lines of a feed as they come, none when it only gives a sign of life. Ends with the feed; throws when it breaks, or is
 * silent for `silentMs`.
 * @param feed a stream of bytes
 */
export async function* feedLines(feed: ReadableStream<Uint8Array>, silentMs: number): AsyncGenerator<Line[]> {
  const reader = feed.getReader({ mode: "byob" });
  const decoder = new TextDecoder();
  let rest = "";
  let buffer = new ArrayBuffer(CHUNK_BYTES);
  try {
    for (;;) {
      const { done, value } = await within(silentMs, reader.read(new Uint8Array(buffer)), `silent for ${silentMs} ms`);
      if (done) return;
      const texts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = texts.pop() ?? "";
      buffer = value.buffer;
      yield texts.filter((text) => text !== "").map(read);
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}
