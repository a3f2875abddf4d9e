import type { FeedPage } from "../../contracts/event-log.ts";
import type { SubscriptionDefinition } from "../../contracts/event-subscription.ts";
import { Line } from "../line.ts";
import type { Matcher } from "../subscription.ts";
import { isMessageType } from "./formats/formats.ts";

const MAX_LINES = 100;
const MAX_BYTES = 256 * 1024;
/** Below the 128 KB that Cloudflare Queues allows for a message, with its metadata. */
export const MAX_QUEUE_BYTES = 120_000;

/** Lines to deliver in one call. */
export interface Batch {
  /** JSON objects, comma-separated; null when no line up to `upTo` matches. */
  readonly lines: string | null;
  /** The batch is complete up to this index. */
  readonly upTo: number;
}

/** The matching lines of a page, within the bounds of one delivery. A single larger line is delivered alone. */
export function batchOf({ lines, upTo }: FeedPage, matcher: Matcher, type: SubscriptionDefinition["type"]): Batch {
  const most = type === "queue" ? MAX_QUEUE_BYTES - 1_000 : MAX_BYTES;
  // A message of a service is about one line.
  const maxLines = isMessageType(type) ? 1 : MAX_LINES;
  const shown: string[] = [];
  let bytes = 0;
  for (const [index, headers, text] of lines) {
    const events = Line.stored(index, text, headers).textFor(matcher, null);
    if (events === null) continue;
    const line = `{"Index":${index},"Events":${events}}`;
    bytes += Buffer.byteLength(line) + 1;
    if (shown.length > 0 && (shown.length === maxLines || bytes > most)) {
      return { lines: shown.join(","), upTo: index - 1 };
    }
    shown.push(line);
  }
  return { lines: shown.length > 0 ? shown.join(",") : null, upTo };
}
