import { parseFlag } from "../../lib/go-bool.ts";
import type { Area } from "./areas.ts";
import { badRequest } from "./errors.ts";
import type { HeaderReader } from "./request-headers.ts";

/** The operation of a request. PUT counts as POST; LIST is also `GET ?list=true`. */
export type Verb = "GET" | "LIST" | "POST" | "PATCH" | "DELETE";

export interface Target {
  /**
   * SCAN is a LIST of everything below the path, and also `GET ?scan=true`. HELP asks for a description of the path; OTHER
   * is a method without routes.
   */
  readonly verb: Verb | "SCAN" | "OPTIONS" | "HELP" | "OTHER";
  /** Without `/v1`, each segment decoded and re-encoded, no empty segments; starts with `/`. Used to match routes. */
  readonly route: string;
  /** Decoded, without the leading slash; keeps a trailing one. Used to authorize. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** The verb of each known method. */
export const VERBS: ReadonlyMap<string, Target["verb"]> = new Map([
  ["GET", "GET"],
  ["HEAD", "GET"],
  ["LIST", "LIST"],
  ["SCAN", "SCAN"],
  ["POST", "POST"],
  ["PUT", "POST"],
  ["PATCH", "PATCH"],
  ["DELETE", "DELETE"],
  ["OPTIONS", "OPTIONS"],
]);
/** The longest path, in characters. */
export const MAX_PATH = 4_096;

/** Parses method and URL. @throws RequestError 400 when the path is too long or malformed */
export function parseTarget(request: Described, url: URL, area: Area): Target {
  const { pathname } = url;
  const collapsed = pathname.includes("//") ? pathname.replace(/\/{2,}/g, "/") : pathname;
  const encoded = withoutVersion(collapsed);
  if (encoded.length > MAX_PATH) throw badRequest(`path: longer than ${MAX_PATH} characters`);
  const query = url.search === "" ? NO_QUERY : url.searchParams;
  const verb = verbOf(request, query, area);
  if (PLAIN.test(encoded)) return { verb, route: encoded, path: encoded.slice(1), query };
  const path = decodePath(encoded.slice(1));
  // One spelling for each path: `%6dounts` is `mounts`, while an encoded slash stays inside its segment.
  const route = encoded.split("/").map(decodeURIComponent).map(encodeURIComponent).join("/");
  return { verb, route, path, query };
}

/** The parts of a request that name its operation; `Request` has them. */
interface Described {
  readonly method: string;
  readonly headers: HeaderReader;
}

/** The query of every request without one; read only. */
const NO_QUERY = new URLSearchParams();

/** Paths that are their own decoded and encoded form. The URL parser has resolved dots, and slashes are collapsed. */
const PLAIN = /^[\w.~/-]*$/;

function withoutVersion(path: string): string {
  if (path === "/v1") return "/";
  return path.startsWith("/v1/") ? path.slice(3) : path;
}

function verbOf({ method, headers }: Described, query: URLSearchParams, area: Area): Target["verb"] {
  const verb = VERBS.get(method) ?? "OTHER";
  // Lists of the cluster API are plain reads.
  if (verb !== "GET" || area === "cluster") return verb;
  if (query !== NO_QUERY && query.get("help")) return "HELP";
  // Only a read can be overridden, and only by another kind of read.
  const override = headers.get("X-HTTP-Method-Override")?.toUpperCase();
  const lists = override === "LIST" || isSet(query, "list");
  const scans = override === "SCAN" || isSet(query, "scan");
  if (lists && scans) throw badRequest("list and scan: a request may ask for one of them");
  if (scans) return "SCAN";
  return lists ? "LIST" : "GET";
}

const isSet = (query: URLSearchParams, name: string): boolean =>
  query !== NO_QUERY && parseFlag(query.get(name) ?? "") === true;

/**
 * Decodes a path by segments, once.
 * @throws RequestError 400 on bad encoding, control characters, dot and empty segments
 */
export function decodePath(encoded: string): string {
  if (PLAIN_SEGMENTS.test(encoded)) return encoded;
  let decoded: string;
  try {
    decoded = encoded.split("/").map(decodeURIComponent).join("/");
  } catch {
    throw badRequest("path: bad percent-encoding");
  }
  if (/[\p{Cc}\u2028\u2029]/u.test(decoded)) throw badRequest("path: must not hold control characters");
  // The URL parser has resolved plain and %2e dots and plain slashes are collapsed; the remaining ones were sent
  // encoded.
  const segments = decoded.split("/");
  if (segments.some((segment) => segment === "." || segment === ".."))
    throw badRequest("path: must not hold . or .. as a segment");
  if (segments.slice(0, -1).includes("")) throw badRequest("path: must not hold empty segments");
  return decoded;
}

/** Paths, without dots, that are their own decoded form and hold no empty segment but the last. */
const PLAIN_SEGMENTS = /^(?:[\w~-]+(?:\/[\w~-]+)*\/?)?$/;

/** Encodes a decoded path for route matching. */
export const encodePath = (path: string): string =>
  PLAIN.test(path) ? path : path.split("/").map(encodeURIComponent).join("/");
