/** Times and durations as text, and one clock for all of them. */
import { computed, signal } from "./signal.ts";

/** The time in ms since 1970, each second while the page is visible. */
export const now = signal(Date.now());
/** The same, each minute: for what needs no countdown. */
export const minute = computed(() => Math.floor(now.value / 60_000) * 60_000);

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) now.value = Date.now();
  });
}

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
] as const;

/** The two largest units: `2 h 5 min`, `41 s`. */
export function durationText(ms: number): string {
  let seconds = Math.max(0, Math.floor(ms / 1000));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    seconds -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

/** ms since 1970 of an RFC 3339 text, of seconds or of nanoseconds since 1970; null for none. */
export function timeOf(value: string | number | null | undefined): number | null {
  if (value === null || value === undefined || value === "" || value === 0) return null;
  if (typeof value === "number") return value > 1e15 ? value / 1e6 : value > 1e12 ? value : value * 1000;
  const ms = Date.parse(value);
  return Number.isNaN(ms) || ms <= 0 ? null : ms;
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const timeText = (ms: number): string => absolute.format(ms);

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** `16:45:41` of today, `24 Nov 16:45:41` of another day: for rows of lists. */
export function momentText(ms: number): string {
  const time = clock.format(ms);
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  return isToday ? time : `${day.format(ms)} ${time}`;
}

/** The largest unit only. */
const roughly = (ms: number): string => durationText(ms).split(" ").slice(0, 2).join(" ");

/** `4 min ago`, `in 2 h 5 min`, `just now`. */
export function relativeText(ms: number, at: number): string {
  const gap = ms - at;
  if (Math.abs(gap) < 2_000) return "just now";
  return gap < 0 ? `${roughly(-gap)} ago` : `in ${durationText(gap)}`;
}
