import { keyedHash } from "../crypto/keyed-hash.ts";
import { type Area, areaOf } from "./areas.ts";
import { MAX_PATH } from "./target.ts";

/** Who calls. Never holds the token. */
export interface Identity {
  readonly accessor: string;
  readonly name: string;
  readonly policies: readonly string[];
  /** The namespace the token belongs to. */
  readonly namespace: string;
  readonly root: boolean;
}

/** What is known of one request, filled in on its way. Holds no token, no query, no header's value and no body. */
export interface Exchange {
  readonly requestId: string;
  readonly method: string;
  /** As it was sent, without the query; cut where paths are too long. */
  readonly path: string;
  readonly area: Area;
  /** When it came, in ms since 1970. */
  readonly time: number;
  /** Which token was presented, as a keyed hash; null without one, or while the service is sealed. */
  readonly tokenHash: string | null;
  /** Where it came from; null when the platform does not say. */
  readonly address: string | null;
  /** The length of its body in bytes, as declared; null when it is not. */
  readonly bytes: number | null;
  /** What it turned out to ask for, as `LIST /v1/sys/mounts/:path+` or, in a mount, `GET /v1/{kv}/data/:path+`; null: nothing there is. */
  route: string | null;
  /** Whose token it was, once that is known. */
  caller: Identity | null;
  /** Areas A and B: the namespace that it is in. C and D: the one that it names, if any. */
  namespace: string | null;
  /** Areas A and B: the identity of that namespace, which a later one at its path does not have. */
  namespaceId: string | null;
  /** The path of the mount that it is about. */
  mount: string | null;
}

/** An exchange that is over, as far as is known when its answer begins: a stream goes on behind it. */
export interface Answered extends Readonly<Exchange> {
  readonly status: number;
  readonly durationMs: number;
}

export function beginExchange(request: Request, url: URL, token: string | null, env: Env): Exchange {
  const { headers } = request;
  const declared = headers.get("Content-Length");
  return {
    requestId: crypto.randomUUID(),
    method: request.method,
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
  };
}

/** Notes who calls and what about. */
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

/** The namespace that a query of areas C and D names; null when it names none or what could not be the name of one. */
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
