/** Requests as they are sent. */

export type Verb = "GET" | "LIST" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface WireRequest {
  readonly verb: Verb;
  /** With the query, as sent; starts with `/v1/`. */
  readonly target: string;
  readonly body?: unknown;
  /** Namespace of the secrets API; empty for the root namespace, and for requests of the cluster API. */
  readonly namespace: string;
}

/** First segments of the cluster API; its namespace is a query parameter. */
const CLUSTER =
  /^\/v1\/(acl|agents?|allocations?|cluster|deployments?|evaluations?|event|jobs?|metrics|namespaces?|nodes?|operator|plugins?|regions|search|services?|status|system|validate|volumes?)(\/|$|\?)/;

export const isCluster = (path: string): boolean => CLUSTER.test(path);

/** Encodes a path; its slashes separate segments. */
export const encodeSegments = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

/** A word for a POSIX shell. */
export const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
