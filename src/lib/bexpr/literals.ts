import { parseGoBool } from "../go-bool.ts";

/** The text between double quotes with Go's escapes resolved; null for an invalid escape. */
export function resolveEscapes(text: string): string | null {
  if (!/[\\\n]/.test(text)) return text;
  if (text.includes("\n")) return null;
  const bytes: number[] = [];
  for (const [token] of text.matchAll(
    /\\x[\da-fA-F]{2}|\\[0-7]{3}|\\u[\da-fA-F]{4}|\\U[\da-fA-F]{8}|\\.|[^\\]+|\\$/gsu,
  )) {
    const piece = token.startsWith("\\") ? escaped(token) : token;
    if (piece === null) return null;
    if (typeof piece === "number") bytes.push(piece);
    else bytes.push(...new TextEncoder().encode(piece));
  }
  // By bytes, because `\xc3\xa9` is one letter.
  return new TextDecoder("utf-8", { fatal: false, ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

const SIMPLE: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
};

/** Value of one escape: a byte, or text; null when invalid. */
function escaped(token: string): number | string | null {
  const code = token.slice(1);
  if (/^x../.test(code)) return Number.parseInt(code.slice(1), 16);
  if (/^[0-7]{3}$/.test(code)) return Number.parseInt(code, 8) < 256 ? Number.parseInt(code, 8) : null;
  if (code.length > 2) {
    const point = Number.parseInt(code.slice(1), 16);
    const isCharacter = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    return isCharacter ? String.fromCodePoint(point) : null;
  }
  return SIMPLE[code] ?? null;
}

/** Errors in the wording of Go's strconv. */
export type Unreadable = "invalid syntax" | "value out of range";

const INTEGER = /^([+-]?)(0[xX](?:_?[\da-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0(?:_?[0-7])*|[1-9](?:_?\d)*)$/;

/** A 64-bit integer: decimal, `0x1f`, `0o17`, `017` or `0b1`. Beyond 2^53 it is the nearest representable number. */
export function readInteger(text: string): number | Unreadable {
  const [, sign, written] = INTEGER.exec(text) ?? [];
  if (written === undefined) return "invalid syntax";
  const digits = written.replaceAll("_", "");
  const size = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits);
  const value = sign === "-" ? -size : size;
  return BigInt.asIntN(64, value) === value ? Number(value) : "value out of range";
}

/** A number with an optional fraction. */
export const readNumber = (text: string): number | Unreadable =>
  /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? Number(text) : "invalid syntax";

export const readBoolean = (text: string): boolean | Unreadable => parseGoBool(text) ?? "invalid syntax";
