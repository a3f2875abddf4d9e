import type { RateLimit } from "../../lib/rate-limit.ts";
import { keyedHash } from "../crypto/keyed-hash.ts";
import { type Area, areaOf } from "./areas.ts";
import type { HeaderReader } from "./request-headers.ts";
import { MAX_PATH } from "./target.ts";

/** The caller of a request. Never holds the token. */
export interface Identity {
  readonly accessor: string;
  readonly name: string;
  /** Names of policies, also of those that the token holds by roles. */
  readonly policies: readonly string[];
  /** Roles of the cluster API; absent for none. */
  readonly roles?: readonly { readonly ID: string; readonly Name: string }[];
  /** The namespace the token belongs to. */
  readonly namespace: string;
  readonly root: boolean;
  /** The id of its entity; absent without one. */
  readonly entity?: string;
  /**
   * Only for batch tokens: the accessor of the parent, which holds leases issued to them, null for an orphan; and their
   * expiry, ms since 1970, which ends these leases.
   */
  readonly batch?: { readonly parent: string | null; readonly expires?: number | null };
}

/** Properties of one request, filled in while it is handled. Holds no token, query, header value or body. */
export interface Exchange {
  readonly requestId: string;
  readonly method: string;
  /** As sent, without the query; truncated at the maximum path length. */
  readonly path: string;
  readonly area: Area;
  /** Time of arrival, in ms since 1970. */
  readonly time: number;
  /** Keyed hash of the presented token; null without one, or while the service is sealed. */
  readonly tokenHash: string | null;
  /** The client address; null when the platform does not provide it. */
  readonly address: string | null;
  /** The declared length of the body in bytes; null when undeclared. */
  readonly bytes: number | null;
  /**
   * The matched route, as `LIST /v1/sys/mounts/:path+` or, in a mount, `GET /v1/{kv}/data/:path+`; null when unmatched.
   */
  route: string | null;
  /** The owner of the token, once authenticated. */
  caller: Identity | null;
  /** Secrets API: the namespace of the request. Cluster API: the namespace parameter, if any. */
  namespace: string | null;
  /** Secrets API: the identity of that namespace; a later namespace at its path has another one. */
  namespaceId: string | null;
  /** The path of the mount. */
  mount: string | null;
  /** The caller's limit by a quota, if one counts the request. */
  rate: RateLimit | null;
  /** The replica that authorized the request, where the caller named a place. */
  replica: string | null;
}

/** A completed exchange, as of the start of its answer: a stream continues behind it. */
export interface Answered extends Readonly<Exchange> {
  readonly status: number;
  readonly durationMs: number;
}

export function beginExchange(
  { method, headers }: { readonly method: string; readonly headers: HeaderReader },
  url: URL,
  token: string | null,
  env: Env,
): Exchange {
  const declared = headers.get("Content-Length");
  return {
    requestId: crypto.randomUUID(),
    method,
    path: url.pathname.slice(0, MAX_PATH),
    area: areaOf(url.pathname, headers),
    time: Date.now(),
    tokenHash: token === null ? null : keyedHash(env, token),
    address: headers.get("CF-Connecting-IP"),
    bytes: declared === null ? null : Number(declared),
    route: null,
    caller: null,
    namespace: null,
    namespaceId: null,
    mount: null,
    rate: null,
    replica: null,
  };
}

/** Records the caller and the target of a request. */
export function recordTarget(
  exchange: Exchange,
  {
    identity,
    namespace,
    namespaceId,
    mount,
  }: Pick<Exchange, "namespace" | "namespaceId"> & {
    readonly identity: Identity;
    readonly mount: { readonly path: string } | null;
  },
): void {
  exchange.caller = identity;
  if (exchange.area === "secrets") Object.assign(exchange, { namespace, namespaceId });
  exchange.mount = mount?.path ?? null;
}

/** The namespace parameter of a cluster request; null when absent or not a valid name. */
export function namespaceNamed(query: URLSearchParams): string | null {
  const named = query.get("namespace");
  return named !== null && NAMESPACE.test(named) ? named : null;
}

const NAMESPACE = /^(\*|[a-zA-Z0-9-]{1,128})$/;

export const endExchange = (exchange: Exchange, { status }: Response): Answered => ({
  ...exchange,
  status,
  durationMs: Math.max(0, Date.now() - exchange.time),
});
