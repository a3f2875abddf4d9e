import type { Area } from "./areas.ts";
import { badRequest } from "./errors.ts";

/** The operation of a request. PUT counts as POST; LIST is also `GET ?list=true`. */
export type Verb = "GET" | "LIST" | "POST" | "PATCH" | "DELETE";

export interface Target {
  /** HELP asks for a description of the path; OTHER is a method without routes. */
  readonly verb: Verb | "OPTIONS" | "HELP" | "OTHER";
  /** Without `/v1`, each segment decoded and re-encoded, no empty segments; starts with `/`. Used to match routes. */
  readonly route: string;
  /** Decoded, without the leading slash; keeps a trailing one. Used to authorize. */
  readonly path: string;
  readonly query: URLSearchParams;
}

const VERBS: ReadonlyMap<string, Target["verb"]> = new Map([
  ["GET", "GET"],
  ["HEAD", "GET"],
  ["LIST", "LIST"],
  ["POST", "POST"],
  ["PUT", "POST"],
  ["PATCH", "PATCH"],
  ["DELETE", "DELETE"],
  ["OPTIONS", "OPTIONS"],
]);
/** The longest path, in characters. */
export const MAX_PATH = 4_096;

/** Parses method and URL. @throws RequestError 400 when the path is too long or malformed */
export function parseTarget(request: Request, url: URL, area: Area): Target {
  const collapsed = url.pathname.replace(/\/{2,}/g, "/");
  const encoded = collapsed.replace(/^\/v1(?=\/|$)/, "") || "/";
  if (encoded.length > MAX_PATH) throw badRequest(`path: longer than ${MAX_PATH} characters`);
  const path = decodePath(encoded.slice(1));
  // One spelling for each path: `%6dounts` is `mounts`, while an encoded slash stays inside its segment.
  const route = encoded.split("/").map(decodeURIComponent).map(encodeURIComponent).join("/");
  return { verb: verbOf(request, url, area), route, path, query: url.searchParams };
}

function verbOf(request: Request, url: URL, area: Area): Target["verb"] {
  const verb = VERBS.get(request.method) ?? "OTHER";
  // Lists of the cluster API are plain reads.
  if (verb !== "GET" || area === "cluster") return verb;
  if (url.searchParams.get("help")) return "HELP";
  // Only a read can be overridden, and only by another kind of read.
  const override = request.headers.get("X-HTTP-Method-Override")?.toUpperCase() === "LIST";
  return override || /^(1|t|true)$/i.test(url.searchParams.get("list") ?? "") ? "LIST" : "GET";
}

/**
 * Decodes a path by segments, once.
 * @throws RequestError 400 on bad encoding, control characters, dot and empty segments
 */
export function decodePath(encoded: string): string {
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

/** Encodes a decoded path for route matching. */
export const encodePath = (path: string): string => path.split("/").map(encodeURIComponent).join("/");
