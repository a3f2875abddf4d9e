import { badRequest } from "../../platform/http/errors.ts";

/** The part of a list of names that a request asks for (https://openbao.org/api-docs/#pagination). */
interface KeyPage {
  /** Only names after this one; it need not exist. */
  readonly after: string;
  readonly limit: number;
}

/** @throws RequestError 400 unless `limit` is a number or `max`; 0, `max` or less than 0 are no limit */
export function keyPage(query: URLSearchParams): KeyPage {
  const limit = query.get("limit") || "0";
  if (limit !== "max" && !/^-?\d{1,15}$/.test(limit)) throw badRequest("limit: must be a number, 0 or more");
  const most = limit === "max" ? 0 : Number(limit);
  return { after: query.get("after") ?? "", limit: most > 0 ? most : Number.POSITIVE_INFINITY };
}

/** The names of a page, in the order of `keys` unless a part was asked for. */
export function inPage(keys: readonly string[], query: URLSearchParams): readonly string[] {
  const { after, limit } = keyPage(query);
  if (after === "" && keys.length <= limit) return keys;
  return [...keys]
    .filter((key) => key > after)
    .sort()
    .slice(0, limit);
}
