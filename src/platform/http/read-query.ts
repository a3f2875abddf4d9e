import { parseGoDuration } from "../../lib/go-duration.ts";
import { badRequest } from "./errors.ts";

/** What the reads of areas C and D share in their query strings (contract: events-and-volumes 2.1). */
export interface ReadQuery {
  /** Rows to a page; 0 = all of them. */
  readonly perPage: number;
  /** Where the page begins; empty = at the beginning. */
  readonly nextToken: string;
  /** A filter expression; empty = every row. */
  readonly filter: string;
  readonly reverse: boolean;
  /** How long to wait for a change, before jitter. */
  readonly waitMs: number;
  /** The index to wait beyond; 0 = do not wait. */
  readonly index: number;
}

const LONGEST_WAIT_MS = 300_000;
const MAX_INT32 = 2 ** 31 - 1;
const MAX_UINT64 = 2n ** 64n - 1n;
const TRUTH = /^(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False)$/;

/** Reads the parameters in the contract's order. @throws RequestError 400 at the first bad one */
export function readQuery(query: URLSearchParams): ReadQuery {
  // Every read is answered by whoever decides, so staleness changes nothing; a wrong word is still a mistake.
  const stale = query.get("stale") ?? "";
  if (stale !== "" && !TRUTH.test(stale))
    throw badRequest("Expect `true` or `false` for `stale` query string parameter");
  const perPage = query.get("per_page") || "0";
  if (!/^\+?\d+$/.test(perPage) || Number(perPage) > MAX_INT32)
    throw badRequest("Expect a number for `per_page` query string parameter");
  const wait = parseGoDuration(query.get("wait") || "0");
  if (wait === null) throw badRequest("Invalid wait time");
  const index = query.get("index") || "0";
  if (!/^\d{1,100}$/.test(index) || BigInt(index) > MAX_UINT64) throw badRequest("Invalid index");
  return {
    perPage: Number(perPage),
    nextToken: query.get("next_token") ?? "",
    filter: query.get("filter") ?? "",
    reverse: query.get("reverse") === "true",
    waitMs: wait > 0 ? Math.min(Math.ceil(wait), LONGEST_WAIT_MS) : LONGEST_WAIT_MS,
    index: Number(index),
  };
}
