/** `<field> eq '<text>'` as OData writes it, a quote in the text doubled; null for anything else. */
export function readEquality(filter: string): { field: string; text: string } | null {
  const [, field = "", quoted = ""] = /^(\w+) eq '((?:[^']|'')*)'$/.exec(filter) ?? [];
  return field === "" ? null : { field, text: quoted.replaceAll("''", "'") };
}

/** Names are compared without regard to case. */
export const sameText = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();

export const isGuid = (text: string) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);

/**
 * One page of `all`, cut before `wanted` chooses from it, so it may be empty; with the token of the page after it. Null when
 * the token is not one that a page gave.
 */
export function pageOf<T>(
  all: readonly T[],
  { size, token, wanted }: { size: number; token: string | null; wanted: (one: T) => boolean },
): { items: T[]; next: string | null } | null {
  const start = token === null ? 0 : Number(/^page-(\d+)$/.exec(Buffer.from(token, "base64url").toString())?.[1]);
  if (Number.isNaN(start)) return null;
  const next = start + size < all.length ? Buffer.from(`page-${start + size}`).toString("base64url") : null;
  return { items: all.slice(start, start + size).filter(wanted), next };
}
