/** Where the hyphens of a UUID stand, counted in digits. */
const HYPHENS = new Set([8, 12, 16, 20]);

/**
 * The ids that begin with a prefix, as a range of text: from the first on, before the second. Prefixes stand for bytes
 * (docs/internals/wire/nomad.md): hexadecimal digits, an even number of them, hyphens or not.
 * @returns null when it is no such prefix
 */
export function hexRange(prefix: string): readonly [string, string] | null {
  const digits = prefix.replaceAll("-", "").toLowerCase();
  if (!/^([0-9a-f]{2}){0,16}$/.test(digits)) return null;
  const text = [...digits].map((digit, at) => (HYPHENS.has(at) ? `-${digit}` : digit)).join("");
  // "g" follows the last digit and the hyphen.
  return [text, `${text}g`];
}

export const HEX_PREFIX_RULE = "must be an even number of hexadecimal digits (0-9, a-f), hyphens apart";
