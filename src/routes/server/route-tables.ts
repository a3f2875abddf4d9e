import type { AuthType } from "../../contracts/auth.ts";
import type { AnyRoute, Call, ClusterRoute, OpenRoute, RouteTable, SecretsRoute } from "./route.ts";

/** The tables of all routes. */
export interface RouteTables {
  /** The secrets API at fixed paths. */
  readonly secrets: RouteTable<SecretsRoute | OpenRoute>;
  /** Routes of a type of mount, relative to it. */
  mounts(type: string): RouteTable<SecretsRoute>;
  /** Routes of each type of auth method, relative to its mount. */
  readonly auth: Readonly<Record<AuthType, RouteTable<SecretsRoute | OpenRoute>>>;
  readonly cluster: RouteTable<ClusterRoute | OpenRoute>;
}

/** Where a path leads: the table with its routes, the base path of that table, and the path relative to it. */
export interface RoutedPath {
  readonly table: RouteTable<AnyRoute>;
  readonly root: string;
  readonly path: string;
}

/** The help on a path; null when there is nothing at it. */
export type Help = (call: Pick<Call, "env">, at: RoutedPath) => Promise<Response | null>;

/** The routes that requests reach, and the help on their paths. */
export interface Routes {
  readonly tables: RouteTables;
  readonly help: Help;
}
