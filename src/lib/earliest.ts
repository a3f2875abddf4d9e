/** The earliest of some times (ms since 1970), of which any may be missing; null when all are. */
export function earliest(...times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null);
  return known.length === 0 ? null : Math.min(...known);
}
