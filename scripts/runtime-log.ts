/** Chooses the lines of the local runtime that `npm start` prints. */

/**
 * Whether a line is the runtime's own diagnosis for its authors, such as an alarm that fires late.
 * workerd marks these `NOSENTRY` (workerd, src/workerd/io/worker-entrypoint.c++); the Worker reports its failures itself.
 */
export function isRuntimeNoise(line: string): boolean {
  return /(?:^|[\s:])NOSENTRY\b/.test(line);
}
