/** Chooses the lines of the local runtime that `npm start` prints. */

/** A host that cannot be resolved, and the addresses of the runtime's own code where it was noticed. */
const LOOKUP = /^e = rust\/\S+: failed: failed to lookup address information\b/;
const STACK = /^stack: \S*\bworkerd@[0-9a-f]+ /;

/**
 * Whether a line is the runtime's own diagnosis for its authors, such as an alarm that fires late.
 * https://github.com/cloudflare/workerd marks these `NOSENTRY`; the Worker reports its failures itself, also that of a
 * call to a host that cannot be resolved.
 */
export function isRuntimeNoise(line: string): boolean {
  return /(?:^|[\s:])NOSENTRY\b/.test(line) || LOOKUP.test(line) || STACK.test(line);
}
