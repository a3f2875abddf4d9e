import { accessControl } from "../contracts/stubs.ts";
import type { LogView } from "../events/group.ts";
import { PermissionsUnavailable } from "../events/permissions.ts";
import { Readers } from "../events/readers.ts";
import type { Subscription } from "../events/subscription.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { settings } from "../platform/settings.ts";

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
 * Opens the stream of a subscription. 403 when its token lacks rights, 503 when access control is unreachable.
 * @param oldest the oldest index once the stream is open
 */
export async function stream(
  readers: Readers,
  subscription: Subscription,
  signal: AbortSignal,
  oldest: () => number,
): Promise<Response> {
  try {
    const opened = await readers.open(subscription, signal);
    if (!opened) return new Response(null, { status: 403 });
    return new Response(opened, { headers: { "x-oldest-index": String(oldest()) } });
  } catch (failure) {
    if (!(failure instanceof PermissionsUnavailable)) throw failure;
    return new Response(null, { status: 503 });
  }
}
