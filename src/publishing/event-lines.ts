import type { NewEvent } from "../contracts/event.ts";
import { warn } from "../platform/observability/log.ts";

/*
 * Sizes of event lines, in bytes of UTF-8. A line is one row of an outbox and one of the event log, and a row holds 2 MB
 * (https://developers.cloudflare.com/durable-objects/platform/limits/).
 */

const LINE_BYTES = 1_000_000;
/** The event log stores a larger line without its payload, too. */
const MAX_EVENT_BYTES = 1_700_000;

/**
 * Splits events into lines of bounded size, in their order. An event that fits no row loses its payload.
 * @param mostEvents bound of the events of a line
 */
export function linesOf(events: readonly NewEvent[], mostEvents = Number.POSITIVE_INFINITY): NewEvent[][] {
  const lines: NewEvent[][] = [];
  let bytes = 0;
  for (const given of events) {
    const { event, size } = fitting(given);
    const line = lines.at(-1);
    if (line && line.length < mostEvents && bytes + size <= LINE_BYTES) {
      line.push(event);
      bytes += size;
    } else {
      lines.push([event]);
      bytes = size;
    }
  }
  return lines;
}

function fitting(event: NewEvent): { readonly event: NewEvent; readonly size: number } {
  const size = bytesOf(event);
  if (size <= MAX_EVENT_BYTES) return { event, size };
  warn("event-payload-dropped", { topic: event.Topic, type: event.Type, bytes: size });
  const bare = { ...event, Payload: {} };
  return { event: bare, size: bytesOf(bare) };
}

const bytesOf = (event: NewEvent): number => Buffer.byteLength(JSON.stringify(event));
