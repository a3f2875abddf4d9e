import type { StoredLine } from "../contracts/event-log.ts";
import { within } from "../lib/timeout.ts";
import { Line } from "./line.ts";

/*
 * Format of lines between the log and its relays: one text line each, with its index, headers and events separated by
 * tabs. JSON contains no raw tab or line feed, so no escaping is needed, and relays parse nothing.
 */

export const lineFrom = ([index, headers, events]: StoredLine): Line => Line.stored(index, events, headers);

export const feedText = ({ index, storedHeaders, text }: Line): string => `${index}\t${storedHeaders ?? ""}\t${text}\n`;

function read(text: string): Line {
  const [index = "", headers = "", events = ""] = text.split("\t");
  return Line.stored(Number(index), events, headers || null);
}

/** Read buffer size: the runtime's default is 4 KiB, and each chunk wakes every reader. */
const CHUNK_BYTES = 64 * 1024;

/**
 * The lines of a feed as they arrive; an empty array for a heartbeat. Ends with the feed; throws when it breaks, or is
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
