/** Figures of all destinations, and how fast they work. */
import { useRef } from "preact/hooks";
import { useResource } from "../../lib/resource.ts";
import { readMetrics, type SyncMetrics } from "./reads.ts";

const EVERY_MS = 5_000;
/** The pace is that of the last minute. */
const WINDOW_MS = 60_000;

export interface SyncFigures {
  /** Null where the caller may not read them, undefined before the first answer. */
  readonly metrics: SyncMetrics | null | undefined;
  /** Pushes a minute by destination; null before the second answer. */
  readonly pace: ReadonlyMap<string, number> | null;
}

export function useSyncFigures(): SyncFigures {
  const seen = useRef<SyncMetrics[]>([]);
  const { value: metrics, error } = useResource(
    ["sync metrics"],
    async (signal) => {
      const read = await readMetrics(signal);
      if (read) {
        const recent = seen.current.filter(({ at }) => read.at - at <= WINDOW_MS && read.at !== at);
        seen.current = [...recent, read];
      }
      return read;
    },
    { everyMs: EVERY_MS },
  );
  const [first, last] = [seen.current[0], seen.current.at(-1)];
  const minutes = first && last ? (last.at - first.at) / 60_000 : 0;
  const pace =
    first && last && minutes > 0
      ? new Map(
          [...last.byDestination].map(([key, { tries }]) => {
            const before = first.byDestination.get(key)?.tries ?? 0;
            return [key, Math.max(0, tries - before) / minutes];
          }),
        )
      : null;
  return { metrics: metrics === undefined && error !== null ? null : metrics, pace };
}
