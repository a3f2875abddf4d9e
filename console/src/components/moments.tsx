/** Times as text that stays right while the page is open. */
import { durationText, now, relativeText, timeOf, timeText } from "../lib/time.ts";

/** `4 min ago`; the full time behind it. */
export function Ago({
  at,
  none = "never",
}: {
  readonly at: string | number | null | undefined;
  readonly none?: string;
}) {
  const ms = timeOf(at);
  if (ms === null) return <span class="muted">{none}</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeText(ms)}>
      {relativeText(ms, now.value)}
    </time>
  );
}

const SOON_MS = 5 * 60_000;

/** Time left until `to`, counted down. */
export function Countdown({
  to,
  over = "ended",
  none = "no end",
}: {
  readonly to: string | number | null | undefined;
  readonly over?: string;
  readonly none?: string;
}) {
  const ms = timeOf(to);
  if (ms === null) return <span class="muted">{none}</span>;
  const left = ms - now.value;
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      title={timeText(ms)}
      class={left <= 0 ? "countdown over" : left < SOON_MS ? "countdown soon" : "countdown"}
    >
      {left <= 0 ? over : durationText(left)}
    </time>
  );
}
