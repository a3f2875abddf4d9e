/** Positions of a UUID's hyphens, counted in digits. */
const HYPHENS = new Set([8, 12, 16, 20]);

/**
 * The range of ids that begin with a prefix: first inclusive, second exclusive. A prefix (docs/internals/wire/nomad.md)
 * consists of whole bytes: an even number of hexadecimal digits, hyphens optional.
 * @returns null for an invalid prefix
 */
export function hexRange(prefix: string): readonly [string, string] | null {
  const digits = prefix.replaceAll("-", "").toLowerCase();
  if (!/^([0-9a-f]{2}){0,16}$/.test(digits)) return null;
  const text = [...digits].map((digit, at) => (HYPHENS.has(at) ? `-${digit}` : digit)).join("");
  // "g" sorts after the last digit and the hyphen.
  return [text, `${text}g`];
}

export const HEX_PREFIX_RULE = "must be an even number of hexadecimal digits (0-9, a-f), hyphens apart";
