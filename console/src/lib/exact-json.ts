/**
 * JSON with numbers that keep their digits. Where a browser lacks source text access, large numbers are rounded as
 * usual.
 */

interface RawJson {
  readonly rawJSON: string;
}

const native = JSON as JSON & { rawJSON?: (text: string) => RawJson };

type Reviver = (this: unknown, key: string, value: unknown, context?: { readonly source?: string }) => unknown;

export function parseExact(text: string): unknown {
  const revive: Reviver = (_key, value, context) => {
    if (typeof value !== "number" || !context?.source || !native.rawJSON) return value;
    return Number.isSafeInteger(value) || String(value) === context.source ? value : native.rawJSON(context.source);
  };
  return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]);
}

/** A value as a person reads it: texts as they are, everything else as JSON. */
export const shown = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
