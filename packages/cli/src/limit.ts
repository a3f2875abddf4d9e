/** Runs a bounded number of calls at once over items that may still be arriving. The first failure rejects. */
export async function forEachLimit<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  limit: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let failure: unknown;
  for await (const item of items) {
    const one = work(item)
      .catch((reason: unknown) => {
        failure ??= reason ?? new Error("failed");
      })
      .finally(() => running.delete(one));
    running.add(one);
    if (running.size >= limit) await Promise.race(running);
    if (failure !== undefined) break;
  }
  await Promise.all(running);
  if (failure !== undefined) throw failure;
}
