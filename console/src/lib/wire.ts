/** Requests as they are sent. */

export type Verb = "GET" | "LIST" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface WireRequest {
  readonly verb: Verb;
  /** With the query, as sent; starts with `/v1/`. */
  readonly target: string;
  readonly body?: unknown;
  /** Namespace of the secrets API; empty for the root namespace, and for requests of the cluster API. */
  readonly namespace: string;
  /** Life of the single-use token that takes the place of the answer. */
  readonly wrapTtl?: string;
}

/** First segments of the cluster API; its namespace is a query parameter. */
const CLUSTER =
  /^\/v1\/(acl|agents?|allocations?|cluster|deployments?|evaluations?|event|jobs?|metrics|namespaces?|nodes?|operator|plugins?|regions|search|services?|status|system|validate|volumes?)(\/|$|\?)/;

export const isCluster = (path: string): boolean => CLUSTER.test(path);

const CAPABILITIES: Readonly<Record<Verb, string>> = {
  GET: "read",
  LIST: "list",
  POST: "update",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** The capability of a policy that a request needs. */
export const capabilityOfVerb = (verb: Verb): string => CAPABILITIES[verb];

/** The path of a request as policies name it: without `/v1/`, and decoded. */
export const pathOf = (target: string): string =>
  (target.split("?", 1)[0] ?? "").slice("/v1/".length).split("/").map(decodeURIComponent).join("/");

/** Path and capability that a policy needs for the request; null for the cluster API, whose rules name no paths. */
export function rightOf({ verb, target }: WireRequest): { readonly path: string; readonly capability: string } | null {
  const [, query] = target.split("?", 2);
  if (isCluster(target)) return null;
  const isList = verb === "GET" && new URLSearchParams(query).get("list") === "true";
  return { path: pathOf(target), capability: CAPABILITIES[isList ? "LIST" : verb] };
}

/** Encodes a path; its slashes separate segments. */
export const encodeSegments = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

/** Whether a path has a segment that a browser resolves, so that the request would go to another path. */
export const isResolved = (target: string): boolean => /\/(\.|%2e){1,2}(?=[/?#]|$)/i.test(target);

/** A word for a POSIX shell. */
export const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
