/** Chooses the lines of the local runtime that `npm start` prints. */

/**
 * Whether a line is the runtime's own diagnosis for its authors, such as an alarm that fires late.
 * https://github.com/cloudflare/workerd marks these `NOSENTRY`; the Worker reports its failures itself.
 */
export function isRuntimeNoise(line: string): boolean {
  return /(?:^|[\s:])NOSENTRY\b/.test(line);
}
