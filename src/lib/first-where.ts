/**
 * The first number from `low` on for which `holds` is true, by binary search; `high` if it is for none before that.
 * @param holds true for every number behind the first one
 */
export function firstWhere(low: number, high: number, holds: (at: number) => boolean): number {
  let [from, to] = [low, high];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
