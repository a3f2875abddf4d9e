import { aborted, invalid } from "./refusal.ts";
import type { Shelf } from "./shelf.ts";

const LARGEST_PAGE = 10_000;

export interface Page<T> {
  readonly entries: readonly T[];
  readonly nextToken: string;
}

/**
 * One page of a shelf's records that `keep` accepts. A token is the last id of the previous page: it survives that
 * record's deletion, and newer records appear on later pages.
 */
export async function pageOf<T extends { id: string; name: string }>(
  shelf: Shelf<T>,
  { maxEntries, startingToken }: { maxEntries: number; startingToken: string },
  surplus: number,
  keep: (thing: T) => boolean = () => true,
): Promise<Page<T>> {
  if (maxEntries < 0) throw invalid("max_entries is negative");
  if (startingToken !== "" && !shelf.isId(startingToken)) throw aborted("starting_token is not one of ours");
  const most = (maxEntries || LARGEST_PAGE) + surplus;
  const entries: T[] = [];
  const ids = await shelf.ids();
  for (let at = firstAfter(ids, startingToken); at < ids.length; at++) {
    const thing = await shelf.find(ids[at] ?? "");
    if (thing === undefined || !keep(thing)) continue;
    if (entries.length === most) return { entries, nextToken: entries.at(-1)?.id ?? "" };
    entries.push(thing);
  }
  return { entries, nextToken: "" };
}

/** The position of the first id after `token` in a sorted list. */
function firstAfter(ids: readonly string[], token: string): number {
  let [from, to] = [0, ids.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((ids[middle] ?? "") > token) to = middle;
    else from = middle + 1;
  }
  return from;
}
