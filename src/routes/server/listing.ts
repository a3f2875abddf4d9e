import { compileFilter } from "../../lib/bexpr/compile.ts";
import type { Kind } from "../../lib/bexpr/kinds.ts";
import { jsonList } from "../../lib/json-list.ts";
import { badRequest } from "../../platform/http/errors.ts";
import { readQuery } from "../../platform/http/read-query.ts";
import type { Reading } from "./blocking.ts";
import { clusterText, textStream, wantsPretty } from "./respond.ts";
import type { Call } from "./route.ts";

/** A page of a table: rows in token order. */
export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Token of the next row, or null after the last one. */
  readonly next: string | null;
  /** Index of the table. */
  readonly index: number;
}

/** List definition of one record type in the cluster API. */
export interface Listing<Row> {
  /** At most `limit` rows from the token `from` (inclusive); from the beginning when it is empty. */
  fetch(from: string, limit: number, reverse: boolean): Promise<Page<Row>>;
  /** Sort key of a row. */
  token(row: Row): string;
  /** List view of a row. */
  stub(row: Row): unknown;
  /** Filterable fields of a row; without, `filter` has no effect. */
  readonly fields?: Kind;
  /** Work of one filter; default: see `compileFilter`. */
  readonly mostSteps?: number;
  /** Whether the caller may see a row. */
  visible?(row: Row): boolean;
  /** The list is a member of this name, beside `NextToken`; without, it is a bare array. */
  readonly wrap?: string | undefined;
  /** Whether `per_page` is required. */
  readonly paged?: boolean;
}

const MAX_ROWS = 1_000;
/**
 * Maximum of table reads per page; the page ends early and its token continues it. A page is built completely before it
 * is sent, because its token is a header.
 */
const MAX_FETCHES = 200;
/** Maximum of further reads to find a token: a token must not name a row that is invisible to the caller. */
const MAX_FETCHES_FOR_TOKEN = 800;
const MAX_CHARACTERS = 8 * 1024 * 1024;

/**
 * Answers a list (https://developer.hashicorp.com/nomad/api-docs#pagination).
 * @throws RequestError 400 for an invalid parameter or filter
 */
export const list = async <Row>(call: Pick<Call, "query">, listing: Listing<Row>): Promise<Response> =>
  (await readList(call, listing)).respond();

/** A list for `blocking`: reads its first page now, the rest when it is answered. */
export async function readList<Row>(call: Pick<Call, "query">, listing: Listing<Row>): Promise<Reading> {
  const { perPage, nextToken, reverse, filter } = readQuery(call.query);
  if (listing.paged) mustPage(call);
  const matches =
    filter !== "" && listing.fields ? compileFilter<Row>(filter, listing.fields, listing.mostSteps) : () => true;
  const visible = (row: Row): boolean => listing.visible?.(row) ?? true;
  const keep = (row: Row): boolean => visible(row) && matches(row);
  const limit = perPage === 0 ? MAX_ROWS : Math.min(perPage + 1, MAX_ROWS);
  const first = await listing.fetch(decodeToken(nextToken), limit, reverse);
  const pages = () => following(listing, first, limit, reverse);
  const json = jsonList(wantsPretty(call), listing.wrap);
  const { index } = first;

  async function* whole(): AsyncGenerator<string> {
    yield json.open;
    let empty = true;
    for await (const { rows } of pages()) {
      for (const row of rows) {
        if (!keep(row)) continue;
        yield json.item(listing.stub(row), empty);
        empty = false;
      }
    }
    yield json.close(empty, "");
  }

  /** One page, and the token of the next page's first row. */
  async function page(): Promise<{ text: string; next: string | null }> {
    let text = json.open;
    let taken = 0;
    const end = (next: string | null) => ({ text: text + json.close(taken === 0, encodeToken(next ?? "")), next });
    let fetches = 0;
    for await (const { rows } of pages()) {
      for (const row of rows) {
        if (fetches >= MAX_FETCHES && visible(row)) return end(listing.token(row));
        if (!keep(row)) continue;
        if (taken === perPage || text.length > MAX_CHARACTERS) return end(listing.token(row));
        text += json.item(listing.stub(row), taken === 0);
        taken += 1;
      }
      fetches += 1;
      if (fetches === MAX_FETCHES_FOR_TOKEN)
        throw badRequest("too many rows that you may not see lie before the next one: ask for one namespace");
    }
    return end(null);
  }

  const respond = async (): Promise<Response> => {
    if (perPage > 0) {
      const { text, next } = await page();
      return clusterText(text, { index, nextToken: next === null ? null : encodeToken(next) });
    }
    if (first.next !== null) return clusterText(textStream(whole()), { index });
    return clusterText((await Array.fromAsync(whole())).join(""), { index });
  };
  return { index, respond };
}

/** @throws RequestError 400 unless the query has the size of a page */
export function mustPage({ query }: Pick<Call, "query">): void {
  if (!query.get("per_page")) throw badRequest("per_page: is required");
}

/** The first page and the following ones. With a selective filter, read sizes grow. */
async function* following<Row>(
  listing: Listing<Row>,
  first: Page<Row>,
  limit: number,
  reverse: boolean,
): AsyncGenerator<Page<Row>> {
  yield first;
  let page = first;
  for (let size = limit; page.next !== null; ) {
    size = Math.min(size * 2, MAX_ROWS);
    const from = page.next;
    page = await listing.fetch(from, size, reverse);
    if (page.next === from) throw new Error("a page of a list leads back to itself");
    yield page;
  }
}

/** All pages of a table. */
export async function* everyPage<Part extends { readonly next: string | null }>(
  read: (from: string) => Promise<Part>,
): AsyncGenerator<Part> {
  for (let from: string | null = ""; from !== null; ) {
    const page: Part = await read(from);
    yield page;
    from = page.next;
  }
}

/** Tokens contain names of any characters, headers only printable ASCII. */
const encodeToken = (token: string): string =>
  token.toWellFormed().replace(/[^\x21-\x7e]|%/gu, (character) => encodeURIComponent(character));

/** A token as sent by the caller: issued by us, or built from a row's fields. */
function decodeToken(token: string): string {
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}
