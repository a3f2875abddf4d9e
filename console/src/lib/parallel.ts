/**
 * Runs `perform` on each item, at most `limit` at a time. Resolves with the results in order, rejects with the first
 * failure.
 */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  limit: number,
  perform: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = new Array(items.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const at = next++;
      results[at] = await perform(items[at] as Item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
