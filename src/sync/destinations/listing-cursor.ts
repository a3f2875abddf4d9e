import { failure } from "../../providers/outcome.ts";

/** Cursors of listings. The caller of an import sends them back, so a type accepts only cursors of its own form. */

/** The failure of a listing from a cursor that no page has answered. */
export const CURSOR_REFUSED = failure("client", "cursor_invalid", "The position is not one of an earlier page.");

/** The number in a cursor that counts pages; null when it has none. */
export function pageNumber(cursor: string): number | null {
  if (cursor === "") return 1;
  return /^[1-9]\d{0,5}$/.test(cursor) ? Number(cursor) : null;
}
