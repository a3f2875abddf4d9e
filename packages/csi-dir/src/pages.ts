import { aborted, invalid } from "./refusal.ts";
import type { Shelf } from "./shelf.ts";

const LARGEST_PAGE = 10_000;

export interface Page<T> {
  readonly entries: readonly T[];
  readonly nextToken: string;
}

/**
 * A page of what a shelf holds and `keep` keeps. A token is the last id of the page before: it stays good when that is deleted,
 * and what was made meanwhile comes on a later page.
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
  const ids = (await shelf.ids()).filter((id) => id > startingToken);
  for (const id of ids) {
    const thing = await shelf.find(id);
    if (thing === undefined || !keep(thing)) continue;
    if (entries.length === most) return { entries, nextToken: entries.at(-1)?.id ?? "" };
    entries.push(thing);
  }
  return { entries, nextToken: "" };
}
