import type { Bounds } from "../contracts/event-log.ts";
import type { LogView } from "../events/group.ts";
import { PermissionsUnavailable } from "../events/permissions.ts";
import { Readers } from "../events/readers.ts";
import type { Subscription } from "../events/subscription.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";
import { accessControl } from "../rpc/stubs.ts";

/* Shared by the log and its relays: serving streams. */

export const readersOf = (log: LogView, env: () => Env): Readers =>
  new Readers(
    log,
    (questions) => accessControl(env()).mayStream(questions),
    () => {
      const { EVENT_HEARTBEAT_MS: heartbeatMs, EVENT_STALL_MS: stallMs } = settings(env());
      return { heartbeatMs, stallMs };
    },
  );

/** Metrics of a stream server. */
export function readerSeries({ stats: { streams, lines, cut } }: Readers, server: string): Series[] {
  return [
    series("sallyport_event_streams", streams, server),
    ...Object.entries(cut).map(([reason, n]) => series("sallyport_event_streams_cut_total", n, server, reason)),
    series("sallyport_event_lines_delivered_total", lines, server),
  ];
}

/**
 * The first index of a stream: the asked one, or the next one for a negative index and for one that was not given out
 * yet. To wait for a line far ahead would mute the stream for ever, where its reader means new lines only.
 */
function startOf(from: number, { oldest, newest, assigned = newest }: Bounds): { from: number; isMoved: boolean } {
  const isMoved = from > assigned + 1;
  return from < 0 || isMoved ? { from: newest + 1, isMoved } : { from: Math.max(from, oldest), isMoved };
}

/**
 * Opens the stream of a subscription. 403 when its token lacks rights, 503 when access control is unreachable. The
 * answer names the oldest index from which on no line of the reader's is missing, and the first one of the stream if it
 * is before the asked one.
 * @param bounds of the log
 */
export async function stream(
  readers: Readers,
  subscription: Subscription,
  signal: AbortSignal,
  bounds: Bounds,
): Promise<Response> {
  try {
    const { from, isMoved } = startOf(subscription.from, bounds);
    const opened = await readers.open({ ...subscription, from }, signal);
    if (!opened) return new Response(null, { status: 403 });
    const { body, first, gap } = opened;
    // Lines that were evicted while the rights were asked for are a gap, and the answer shows it.
    const evicted = first > Math.max(from, 1) ? first : bounds.oldest;
    const oldest = gap === 0 ? evicted : Math.max(evicted, gap + 1);
    const headers = new Headers({ "x-oldest-index": String(oldest) });
    if (isMoved) headers.set("x-start-index", String(first));
    return new Response(body, { headers });
  } catch (failure) {
    if (!(failure instanceof PermissionsUnavailable)) throw failure;
    return new Response(null, { status: 503 });
  }
}
