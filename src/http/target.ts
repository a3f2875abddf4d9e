import { badRequest } from "./errors.ts";

/** What a request wants done. PUT counts as POST; LIST is also `GET ?list=true`. */
export type Verb = "GET" | "LIST" | "POST" | "PATCH" | "DELETE";

export interface Target {
  readonly verb: Verb | "OPTIONS";
  readonly head: boolean;
  readonly versioned: boolean;
  /** Percent-encoded, without `/v1`, no double slashes; starts with `/`. What routes are matched against. */
  readonly route: string;
  /** Decoded, without the leading slash; keeps a trailing one. What rights are judged by. */
  readonly path: string;
  readonly query: URLSearchParams;
}

const VERBS: Readonly<Record<string, Verb | "OPTIONS">> = {
  GET: "GET",
  HEAD: "GET",
  LIST: "LIST",
  POST: "POST",
  PUT: "POST",
  PATCH: "PATCH",
  DELETE: "DELETE",
  OPTIONS: "OPTIONS",
};
const MAX_PATH = 4_096;

/** Reads method and URL. @returns null when the method is none that this service knows */
export function parseTarget(request: Request): Target | null {
  const url = new URL(request.url);
  const override = request.method === "GET" ? request.headers.get("X-HTTP-Method-Override") : null;
  const verb = VERBS[override?.toUpperCase() === "LIST" ? "LIST" : request.method];
  if (!verb) return null;
  const collapsed = url.pathname.replace(/\/{2,}/g, "/");
  const versioned = collapsed === "/v1" || collapsed.startsWith("/v1/");
  const route = versioned ? collapsed.slice(3) || "/" : collapsed;
  if (route.length > MAX_PATH) throw badRequest(`path: longer than ${MAX_PATH} characters`);
  const listed = verb === "GET" && /^(1|t|true)$/i.test(url.searchParams.get("list") ?? "");
  return {
    verb: listed ? "LIST" : verb,
    head: request.method === "HEAD",
    versioned,
    route,
    path: decodePath(route.slice(1)),
    query: url.searchParams,
  };
}

/** Decodes a path by segments, once. @throws RequestError 400 on bad encoding, control characters and dot segments */
export function decodePath(encoded: string): string {
  let decoded: string;
  try {
    decoded = encoded.split("/").map(decodeURIComponent).join("/");
  } catch {
    throw badRequest("path: bad percent-encoding");
  }
  if (/[\p{Cc}\u2028\u2029]/u.test(decoded)) throw badRequest("path: must not hold control characters");
  // The URL parser has resolved plain and %2e dots; what is left came in behind an encoded slash.
  if (decoded.split("/").some((segment) => segment === "." || segment === ".."))
    throw badRequest("path: must not hold . or .. as a segment");
  return decoded;
}
