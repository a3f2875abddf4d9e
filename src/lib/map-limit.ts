/**
 * Maps items with at most `limit` calls at a time, begun in order.
 * @param goesOn checked before each item; once false, no further item is begun
 * @returns the results of the items that were begun, in order. Rejects with the first failure, after which no further
 *   item is begun, once all that were begun have ended: none of them goes on behind the answer
 */
export async function mapLimit<T, R>(
  items: Iterable<T>,
  limit: number,
  work: (item: T) => Promise<R>,
  goesOn: () => boolean = () => true,
): Promise<R[]> {
  const results: R[] = [];
  const left = items[Symbol.iterator]();
  let begun = 0;
  let failed: { readonly failure: unknown } | null = null;
  const worker = async (): Promise<void> => {
    while (failed === null && goesOn()) {
      const next = left.next();
      if (next.done) return;
      const at = begun++;
      try {
        results[at] = await work(next.value);
      } catch (failure) {
        failed ??= { failure };
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
  if (failed !== null) throw (failed as { readonly failure: unknown }).failure;
  return results;
}
