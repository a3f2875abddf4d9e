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

/**
 * The results in the order of the items, with a bounded number of calls at once. A failure ends it after the results
 * before it.
 */
export async function* inOrder<From, To>(
  items: readonly From[],
  limit: number,
  work: (item: From) => Promise<To>,
): AsyncGenerator<To> {
  const running: Promise<To>[] = [];
  for (const item of items) {
    const one = work(item);
    // Reported when its turn comes.
    one.catch(() => undefined);
    running.push(one);
    if (running.length >= limit) yield running.shift() as Promise<To>;
  }
  yield* running;
}
