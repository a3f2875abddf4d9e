/*
 * `npm test` and `npm run test:all` run a third of the rows of the tables that cut or kill something at every step, and
 * few rounds of the random suites. `npm run test:long` runs everything.
 */

declare const LONG_TESTS: boolean;
declare const RANDOM_STEPS: number;

export const isLong: boolean = LONG_TESTS;

/** One of how many rows runs outside of `npm run test:long`. */
const SHARE = 3;

/** All rows in the long run, else every third one from the row `first`. Tables mix steps and sides, so each kind is among them. */
export function part<T>(rows: readonly T[], first = 0, share = SHARE): T[] {
  return isLong ? [...rows] : rows.filter((_row, at) => at % share === first % share);
}

/** A number of rounds, of random requests, of kills, or of objects whose cost is counted. */
export const amount = (short: number, long: number): number => (isLong ? long : short);

/** Steps of a random walk; the environment may ask for another number. */
export const walkLength = (short: number, long: number): number => RANDOM_STEPS || amount(short, long);

/** Options of a test of random cases. It computes without a pause: a limit of time would only measure the machine. */
export const PROPERTY = { timeout: 0 } as const;
