const FIRST_MS = 250;
const MAX_MS = 30_000;

/** Exponential back-off with jitter: from half of it to the whole. */
export const backoffMs = (attempt: number, longestMs = MAX_MS): number => {
  const most = Math.min(longestMs, FIRST_MS * 2 ** Math.min(attempt, 20));
  return most / 2 + (Math.random() * most) / 2;
};

/** Resolves after `ms`, or at once when aborted. */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });

/** Maps with a bounded number of calls at once, in the order of the items. The first failure rejects. */
export async function mapLimit<From, To>(
  items: readonly From[],
  limit: number,
  map: (item: From) => Promise<To>,
): Promise<To[]> {
  const results: To[] = [];
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) results[at] = await map(items[at] as From);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
