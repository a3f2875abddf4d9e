import { parseGoBool } from "../../lib/go-bool.ts";
import { parseGoDuration } from "../../lib/go-duration.ts";
import { badRequest } from "./errors.ts";

/**
 * Query parameters shared by the reads of the cluster API
 * (https://developer.hashicorp.com/nomad/api-docs#blocking-queries).
 */
interface ReadQuery {
  /** Page size; 0 = unlimited. */
  readonly perPage: number;
  /** Start of the page; empty = first page. */
  readonly nextToken: string;
  /** Filter expression; empty = all rows. */
  readonly filter: string;
  readonly reverse: boolean;
  /** Maximum wait for a change, before jitter. */
  readonly waitMs: number;
  /** The index to wait beyond; 0 = do not wait. */
  readonly index: number;
}

const MAX_WAIT_MS = 300_000;
const MAX_INT32 = 2 ** 31 - 1;
const MAX_UINT64 = 2n ** 64n - 1n;

/** Parses the parameters in the documented order. @throws RequestError 400 at the first invalid one */
export function readQuery(query: URLSearchParams): ReadQuery {
  // Every read is consistent, so staleness changes nothing; an invalid value is still an error.
  const stale = query.get("stale") ?? "";
  if (stale !== "" && parseGoBool(stale) === null)
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
    waitMs: wait > 0 ? Math.min(Math.ceil(wait), MAX_WAIT_MS) : MAX_WAIT_MS,
    index: Number(index),
  };
}
