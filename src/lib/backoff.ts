/**
 * Delay before attempt `attempts + 1`, in ms: `base` doubled per attempt, capped, with full jitter so that simultaneous
 * failures do not retry simultaneously.
 */
export function backoff(
  attempts: number,
  {
    base = 1_000,
    cap = 300_000,
    random = Math.random,
  }: { readonly base?: number; readonly cap?: number | undefined; readonly random?: () => number } = {},
): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempts, 30));
  return Math.round(ceiling / 2 + (ceiling / 2) * random());
}
