import type { FeedPage, StoredLine } from "../contracts/event-log.ts";
import { storedLine } from "./feed-line.ts";
import { type LogView, SCAN_SIZE } from "./group.ts";

/** The visible lines after a cursor, within bounds. @param traces as in `LogView.after` */
export function feedPage(log: LogView, cursor: number, traces: readonly string[] | null): FeedPage {
  const [newest, evicted] = [log.newest(), log.evicted()];
  const lines: StoredLine[] = [];
  const slice = log.after(Math.max(cursor, evicted), traces);
  let [size, upTo] = [0, Math.min(slice?.upTo ?? 0, newest)];
  for (const line of slice?.lines ?? []) {
    if (line.index > newest) break;
    lines.push(storedLine(line));
    size += line.text.length;
    if (size < SCAN_SIZE) continue;
    upTo = line.index;
    break;
  }
  return { lines, upTo, evicted, gaps: log.gaps(Math.max(cursor, evicted)) };
}
