import { neutralPath } from "../../compat/sync-paths.ts";
import type { Grant } from "../../contracts/access-control.ts";
import type { AuthMount, AuthPlace } from "../../contracts/auth.ts";
import { textBefore } from "../../lib/text-before.ts";
import { SERVICE_ROOTS } from "../../platform/http/areas.ts";
import { encodePath } from "../../platform/http/target.ts";
import type { EarlyBody } from "./body.ts";
import type { RoutedPath, RouteTables } from "./route-tables.ts";

/* The places to which paths lead: the service, an auth mount or a mount, with the table of routes there. */

/** Result of the route look-up. `grant` is set when the look-up had to authenticate the caller. */
export interface Place extends RoutedPath {
  readonly grant: Grant | null;
  /** Whether `grant` may come from the cache. */
  readonly cached: boolean;
  /** Whether the path used an upstream name; `path` is normalized. */
  readonly upstream: boolean;
  readonly authMount: AuthMount | null;
  /** Whether quotas may count a request without a token. */
  readonly counted: boolean;
  /** The body, where the look-up has begun to read it. */
  readonly early: EarlyBody | null;
}

/** A system path. Routes use neutral names only, `AccessControl` either. */
export function systemPlace(tables: RouteTables, written: string, grant: Grant | null): Place {
  const path = neutralPath(written);
  const upstream = path !== written;
  return { ...PLACE_DEFAULTS, table: tables.secrets, path: `/${path}`, grant, upstream };
}

/** A path below an auth mount. Logins have no token yet, so the mount is found without one. */
export function authPlace(tables: RouteTables, { mount, path, counted = false }: AuthPlace): Place {
  const { type } = mount;
  return {
    ...PLACE_DEFAULTS,
    table: tables.auth[type],
    path: `/${encodePath(path)}`,
    root: `/v1/auth/{${type}}`,
    authMount: mount,
    counted,
  };
}

export const PLACE_DEFAULTS = {
  root: "/v1",
  grant: null,
  cached: false,
  upstream: false,
  authMount: null,
  counted: false,
  early: null,
} as const;

/** Paths below `auth/`, also inside a namespace; `auth/token` has fixed routes. */
export const LEADS_TO_AUTH = /(?:^|\/)auth\/(?!token(?:\/|$))[^/]/;

/**
 * Paths that may resolve to a system route, such as `ns1/sys/policies/acl/p`, are always authorized without the cache.
 */
export const MAY_BE_SYSTEM = new RegExp(`/(${[...SERVICE_ROOTS].join("|")})/`);

/** Unauthenticated paths inside a namespace prefix. */
export const PUBLIC_IN_NAMESPACE =
  /\/(?:identity\/oidc\/(?:plugins|secrets-sync)\/\.well-known\/[^/]+|sys\/wrapping\/(?:lookup|rewrap|unwrap))$/;

export const isSystemPath = (path: string): boolean => SERVICE_ROOTS.has(textBefore(path, "/"));
