import { Router } from "itty-router";
import type * as z from "zod";
import type { Dialect } from "../../compat/dialect.ts";
import type { Grant } from "../../contracts/access-control.ts";
import type { AuthMount } from "../../contracts/auth.ts";
import type { ClusterRights } from "../../contracts/cluster-rights.ts";
import type { Mount } from "../../contracts/mount.ts";
import type { Capability } from "../../contracts/policies.ts";
import { decodePath, type Verb } from "../../platform/http/target.ts";
import { RouteIndex } from "./route-index.ts";

/**
 * One request while it is handled by a route.
 * @typeParam Params names of the parameters in the route's path
 * @typeParam Perhaps names of those that only some of the routes of a handler have
 */
export interface Call<Params extends string = never, Perhaps extends string = never> {
  readonly env: Env;
  readonly exec: ExecutionContext;
  readonly request: Request;
  readonly requestId: string;
  readonly dialect: Dialect;
  readonly token: string | null;
  /** The route's parameters, decoded. */
  readonly params: Readonly<Record<Params, string>> & { readonly [Name in Perhaps]?: string };
  readonly query: URLSearchParams;
  /** Whether a LIST asks for everything below its path. */
  readonly scan?: boolean;
  /** The grant of `AccessControl`; null only for routes with `access: "none"`. */
  readonly grant: Grant | null;
  /** The auth method of the path; null for other paths. */
  readonly authMount: AuthMount | null;
  /** Lifetime of the wrapped answer in seconds; 0 = the answer is not wrapped. */
  readonly wrapTtl: number;
  /**
   * Authorizes the caller of a route with `access: "none"` that presents a token.
   * @throws RequestError 403
   */
  readonly identify: () => Promise<Grant>;
}

/** A call with an authorized caller: the input of every route except the unauthenticated ones. */
export type AuthorisedCall<Params extends string = never, Perhaps extends string = never> = Call<Params, Perhaps> & {
  /** Empty for a caller of the cluster API without one. */
  readonly token: string;
  readonly grant: Grant;
  /**
   * Authorizes the caller again, for answers long after the request; `grant` is the new grant.
   * @throws RequestError 403 when the right is gone
   */
  readonly recheck: () => Promise<void>;
};

/** The query parameters that a route's schema names, parsed. */
export interface Asked<Schema extends z.ZodObject> {
  readonly asked: z.output<Schema>;
}

/** The mount of a route below one. */
export interface InMount {
  readonly mount: Mount;
}

/** The auth method of a route below one. */
export interface InMethod {
  readonly authMount: AuthMount;
}

/** A call of a route of a mount. */
export type MountCall<Params extends string = never, Perhaps extends string = never> = AuthorisedCall<Params, Perhaps> &
  InMount;
/** A call of a route of an auth method. */
export type MethodCall<Params extends string = never> = Call<Params> & InMethod;
/** The same with an authenticated caller. */
export type AuthorisedMethodCall<Params extends string = never> = AuthorisedCall<Params> & InMethod;

/** The names of the parameters in a path: `type` and `name` of `/destinations/:type/:name`. */
type ParamsOf<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer More}`
    ? Bare<Name> | ParamsOf<`/${More}`>
    : Bare<Rest>
  : never;
type Bare<Name extends string> = Name extends `${infer Plain}+` ? Plain : Name;

/** The calls of a path. Those of one path among several have the parameters that all of them name. */
type CallAt<Path extends string> = Path extends unknown ? Call<ParamsOf<Path>> : never;
type AuthorisedCallAt<Path extends string> = Path extends unknown ? AuthorisedCall<ParamsOf<Path>> : never;

interface Common<Body> {
  readonly verb: Verb;
  /** In itty-router's notation: `/sys/mounts/:path+`. */
  readonly path: string;
  readonly body?: z.ZodType<Body>;
  /** The route's own query parameters, given to the handler as `asked`; those that all lists share are read by these. */
  readonly query?: z.ZodObject;
  /**
   * Numbers in the body keep all digits: those beyond JavaScript's precision become `RawJson`, which cannot be sent
   * over RPC.
   */
  readonly exact?: true;
  /** Null members of the body are kept: the body is stored as sent. */
  readonly whole?: true;
  /** The handler gets the body as received text: for bodies other than one JSON object. */
  readonly raw?: true;
  /** Maximum body size; default `MAX_BODY_BYTES`. */
  readonly maxBodyBytes?: number;
  /** Only explains an invalid path: not an operation of the API. */
  readonly refuses?: true;
  /** The handler reads the body as a stream, of any size. */
  readonly streams?: true;
  /** The answer is never wrapped: it holds no secret, or is a wrapping token. */
  readonly unwrapped?: true;
  /**
   * Never uses a cached grant, so that a revocation applies immediately. `owner`: nor a replica, because its change ends
   * every grant there: one that it had taken would be recalled.
   */
  readonly fresh?: true | "owner";
}

/** A route of the secrets API: authorized by path capabilities. */
export interface SecretsRoute<Body = unknown, Own = AuthorisedCall> extends Common<Body> {
  /**
   * `path` (default): the capability of the verb. `sudo`: additionally `sudo`. `token`: any valid token; the handler
   * authorizes. `none`: unauthenticated.
   */
  readonly access?: "path" | "sudo" | "token";
  /** A POST that may create: `create` suffices too, and the handler gets the capability that the caller has. */
  readonly creates?: true;
  /** A LIST that also answers SCAN, for which the caller needs `scan`. */
  readonly scans?: true;
  /** The grant holds the caller's own token, unless a namespace leads the path. */
  readonly self?: true;
  readonly withoutToken?: never;
  readonly handle: (call: Own, body: Body) => Promise<Response>;
}

export interface OpenRoute<Body = unknown, Own = Call> extends Common<Body> {
  readonly access: "none";
  readonly withoutToken?: never;
  readonly handle: (call: Own, body: Body) => Promise<Response>;
}

/** A route of the cluster API: authorized by the token's cluster rights. */
export interface ClusterRoute<Body = unknown, Own = AuthorisedCall> extends Common<Body> {
  readonly access?: never;
  readonly self?: never;
  /** Answers a request without a token; otherwise it has the rights of the policy `anonymous`. */
  readonly withoutToken?: (call: Call) => Promise<Response>;
  /** Whether the rights suffice; `any` = every valid token, the handler authorizes. */
  readonly rights: "any" | "management" | ((rights: ClusterRights, call: Own) => boolean);
  readonly handle: (call: Own, body: Body) => Promise<Response>;
}

export type AnyRoute = SecretsRoute | OpenRoute | ClusterRoute;

type WithoutToken = ClusterRoute & Required<Pick<ClusterRoute, "withoutToken">>;

/** Whether a request needs no authorization. @param token of the request; null for none */
export const isOpen = (route: AnyRoute, token: string | null): route is OpenRoute | WithoutToken =>
  route.access === "none" || (token === null && route.withoutToken !== undefined);

/** The name of a route, as documents, examples and logs write it: `GET /sys/mounts/:path+`. */
type Name<Path extends string> = `${Verb} ${Path}`;
/** The fields of a route beside its name, its query and its handler. */
type Options<Route> = Omit<Route, "verb" | "path" | "query" | "handle">;
type Handler<Own, Body = undefined> = (call: Own, body: Body) => Promise<Response>;
type NoQuery = z.ZodObject<Record<never, never>>;

/*
 * Each builder erases the types of body, query and call after path, schemas and handler were checked against each other. A route
 * table holds routes of many types, and only the schema's own output and the path's own parameters reach the handler.
 */
interface SecretsBuilder<Place> {
  <const Path extends string>(name: Name<Path>, handle: Handler<AuthorisedCallAt<Path> & Place>): SecretsRoute;
  <const Path extends string, Body = undefined, Query extends z.ZodObject = NoQuery>(
    name: Name<Path>,
    options: Options<SecretsRoute<Body>> & { readonly query?: Query },
    handle: Handler<AuthorisedCallAt<Path> & Place & Asked<Query>, Body>,
  ): SecretsRoute;
}
interface OpenBuilder<Place> {
  <const Path extends string>(name: Name<Path>, handle: Handler<CallAt<Path> & Place>): OpenRoute;
  <const Path extends string, Body = undefined, Query extends z.ZodObject = NoQuery>(
    name: Name<Path>,
    options: Omit<Options<OpenRoute<Body>>, "access"> & { readonly query?: Query },
    handle: Handler<CallAt<Path> & Place & Asked<Query>, Body>,
  ): OpenRoute;
}
type ClusterBuilder = <const Path extends string, Body = undefined, Query extends z.ZodObject = NoQuery>(
  name: Name<Path>,
  options: Options<ClusterRoute<Body, AuthorisedCallAt<Path> & Asked<Query>>> & { readonly query?: Query },
  handle: Handler<AuthorisedCallAt<Path> & Asked<Query>, Body>,
) => ClusterRoute;
/** A mount's route that is made from a description is given as an object. */
interface MountBuilder extends SecretsBuilder<InMount> {
  <const Path extends string, Body = undefined, Query extends z.ZodObject = NoQuery>(
    route: Omit<SecretsRoute<Body, AuthorisedCallAt<Path> & InMount & Asked<Query>>, "path" | "query"> & {
      readonly path: Path;
      readonly query?: Query;
    },
  ): SecretsRoute;
}

const builder = <Builder>(fixed: object = {}): Builder =>
  ((name: string | object, ...rest: [handle: unknown] | [options: object, handle: unknown]) => {
    if (typeof name === "object") return name;
    const [verb, path] = name.split(" ");
    const [options, handle] = rest.length === 1 ? [{}, ...rest] : rest;
    return { verb, path, ...options, handle, ...fixed };
  }) as Builder;

/** A route of the secrets API. */
export const secrets = builder<SecretsBuilder<unknown>>();
/** A route of a mount: matched only where a mount of its type is. */
export const inMount = builder<MountBuilder>();
/** A route of an auth method: matched only where a method of its type is mounted. */
export const inMethod = builder<SecretsBuilder<InMethod>>();
/** A route without authentication. */
export const open = builder<OpenBuilder<unknown>>({ access: "none" });
/** A route of an auth method without authentication: a login. */
export const openInMethod = builder<OpenBuilder<InMethod>>({ access: "none" });
/** A route of the cluster API. */
export const cluster = builder<ClusterBuilder>();

/** The capability that a verb needs on its path. */
export const capabilityOf: Readonly<Record<Verb, Capability>> = {
  GET: "read",
  LIST: "list",
  POST: "update",
  PATCH: "patch",
  DELETE: "delete",
};

type Found<R> = { readonly route: R; readonly params: Record<string, string> };

/**
 * A route table, matched in order. The router compiles the patterns; selection is a plain loop over the few that may
 * match, because the caller needs the route itself (its rights, its schema) before anything runs.
 */
export class RouteTable<out R extends { verb: Verb; path: string }> {
  readonly #index: RouteIndex<{ readonly path: string; readonly route: R; readonly pattern: RegExp }>;

  constructor(readonly routes: readonly R[]) {
    const patterns = routes.map((route) => {
      const [entry] = Router().all(route.path).routes;
      if (!entry) throw new Error(`no pattern for ${route.path}`);
      return { path: route.path, route, pattern: entry[1] };
    });
    this.#index = new RouteIndex(patterns);
  }

  /** The route of a verb and an encoded path, its parameters decoded. */
  match(verb: string, path: string): Found<R> | null {
    for (const { route, pattern } of this.#index.candidates(path)) {
      const found = route.verb === verb ? pattern.exec(path) : null;
      if (!found) continue;
      const params: Record<string, string> = {};
      for (const name in found.groups) params[name] = decodePath(found.groups[name] ?? "");
      return { route, params };
    }
    return null;
  }

  /** The routes of a path, one for each of its verbs. */
  at(path: string): R[] {
    return this.#index
      .candidates(path)
      .filter(({ pattern }) => pattern.test(path))
      .map(({ route }) => route);
  }

  /** The verbs of a path; empty when it is unknown. */
  verbs(path: string): Verb[] {
    return [...new Set(this.at(path).map(({ verb }) => verb))];
  }
}
