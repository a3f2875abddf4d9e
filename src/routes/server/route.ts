import { Router } from "itty-router";
import type * as z from "zod";
import type { Dialect } from "../../compat/dialect.ts";
import type { Grant } from "../../contracts/access-control.ts";
import type { ClusterRights } from "../../contracts/cluster-rights.ts";
import { decodePath, type Verb } from "../../platform/http/target.ts";

/** One request on its way through a route. */
export interface Call {
  readonly env: Env;
  readonly exec: ExecutionContext;
  readonly request: Request;
  readonly requestId: string;
  readonly dialect: Dialect;
  readonly token: string | null;
  /** The route's parameters, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** What `AccessControl` answered; only routes with `access: "none"` run without. */
  readonly grant: Grant | null;
}

/** A call whose caller is known: what every route but the open ones gets. */
export type AuthorisedCall = Call & {
  readonly grant: Grant;
  /**
   * Asks anew whether the caller may, for what is answered long after it was asked; `grant` is the new answer.
   * @throws RequestError 403 when not any more
   */
  readonly recheck: () => Promise<void>;
};

interface Common<Body> {
  readonly verb: Verb;
  /** In itty-router's notation: `/sys/mounts/:path+`. */
  readonly path: string;
  readonly body?: z.ZodType<Body>;
  /** Numbers in the body keep all their digits: those that JavaScript would change come as `RawJson`, which no object can be sent. */
  readonly exact?: true;
  /** The handler gets the body as it came, as text: for bodies that are not one JSON object. */
  readonly raw?: true;
  /** Largest body; `MAX_BODY_BYTES` when not given. */
  readonly maxBodyBytes?: number;
  /** Only says what is wrong with its path: no operation of the API. */
  readonly refuses?: true;
  /** The handler reads the body itself, of any size, as it comes. */
  readonly streams?: true;
  /** Must see a revocation at once, so the answer of `AccessControl` is never taken from the cache. */
  readonly fresh?: true;
}

/** A route of areas A and B, KV, auth and sys: judged by the path's capabilities. */
export interface SecretsRoute<Body = unknown> extends Common<Body> {
  /**
   * `path` (default): the capability that the verb stands for. `sudo`: that and `sudo`. `token`: any valid token; the
   * handler judges. `none`: open to everyone.
   */
  readonly access?: "path" | "sudo" | "token";
  /** A POST that may create: `create` suffices too, and the handler learns which of the two the caller holds. */
  readonly creates?: true;
  readonly handle: (call: AuthorisedCall, body: Body) => Promise<Response>;
}

export interface OpenRoute<Body = unknown> extends Common<Body> {
  readonly access: "none";
  readonly handle: (call: Call, body: Body) => Promise<Response>;
}

/** A route of areas C and D: judged by the token's cluster rights. */
export interface ClusterRoute<Body = unknown> extends Common<Body> {
  readonly access?: never;
  /** Whether the rights suffice; `any` = every valid token, the handler judges. */
  readonly rights: "any" | "management" | ((rights: ClusterRights, call: AuthorisedCall) => boolean);
  readonly handle: (call: AuthorisedCall, body: Body) => Promise<Response>;
}

export type AnyRoute = SecretsRoute | OpenRoute | ClusterRoute;

/*
 * Each builder forgets the body's type once schema and handler are known to agree. A table of routes holds routes of many
 * bodies, and only the schema's own output ever reaches the handler.
 */
export const secrets = <Body = undefined>(route: SecretsRoute<Body>): SecretsRoute => route as unknown as SecretsRoute;
export const open = <Body = undefined>(route: Omit<OpenRoute<Body>, "access">): OpenRoute =>
  ({ ...route, access: "none" }) as unknown as OpenRoute;
export const cluster = <Body = undefined>(route: ClusterRoute<Body>): ClusterRoute => route as unknown as ClusterRoute;

type Found<R> = { readonly route: R; readonly params: Record<string, string> };

/**
 * A table of routes, matched in order. The router reads the patterns; choosing one is a plain loop, because what follows
 * needs the route itself (its rights, its schema) before anything runs.
 */
export class RouteTable<out R extends { verb: Verb; path: string }> {
  readonly routes: readonly R[];
  readonly #patterns: readonly { readonly route: R; readonly pattern: RegExp }[];

  constructor(routes: readonly R[]) {
    this.routes = routes;
    this.#patterns = routes.map((route) => {
      const [entry] = Router().all(route.path).routes;
      if (!entry) throw new Error(`no pattern for ${route.path}`);
      return { route, pattern: entry[1] };
    });
  }

  /** The route for a verb and an encoded path, its parameters decoded. */
  match(verb: string, path: string): Found<R> | null {
    for (const { route, pattern } of this.#patterns) {
      const found = route.verb === verb ? pattern.exec(path) : null;
      if (!found) continue;
      const params = Object.entries(found.groups ?? {}).map(([name, value = ""]) => [name, decodePath(value)]);
      return { route, params: Object.fromEntries(params) as Record<string, string> };
    }
    return null;
  }

  /** The verbs that a path knows; empty when it is unknown. */
  verbs(path: string): Verb[] {
    const known = this.#patterns.filter(({ pattern }) => pattern.test(path)).map(({ route }) => route.verb);
    return [...new Set(known)];
  }
}
