import { registerHooks } from "node:module";
import type { Area } from "../../src/platform/http/areas.ts";
import type { AnyRoute, RouteTable } from "../../src/routes/server/route.ts";

/*
 * The route table of the service, read by plain Node: a route that is added there is abused from its first day. Modules that only
 * the Workers runtime provides are stubbed by empty ones, because no handler runs here.
 */
const EMPTY_RUNTIME = `data:text/javascript,${encodeURIComponent(`
  export class DurableObject {}
  export class RpcTarget {}
  export class WorkerEntrypoint {}
  export const env = {};
  export const exports = {};
  export const waitUntil = () => {};
  export const tracing = {};
`)}`;
const EMPTY_TEXT = 'data:text/javascript,export default ""';
registerHooks({
  resolve: (specifier, context, next) => {
    if (specifier.startsWith("cloudflare:")) return { url: EMPTY_RUNTIME, shortCircuit: true };
    // Files that the service serves verbatim: the bundler imports them as text.
    if (/\.(html|json)$/.test(specifier) && context.importAttributes["type"] === undefined)
      return { url: EMPTY_TEXT, shortCircuit: true };
    return next(specifier, context);
  },
});
const { clusterRoutes, mountedRoutes, secretsRoutes } = await import("../../src/routes/table.ts");

/** A route at the place where the service answers it. */
export interface Place {
  /** As it is called in reports: `POST /v1/kv/data/:path+`. */
  readonly name: string;
  /** The first segments of its path: what reports count by. */
  readonly group: string;
  readonly area: Area;
  readonly route: AnyRoute;
  readonly table: RouteTable<AnyRoute>;
  /** `/v1`, or `/v1/` and a mount. */
  readonly prefix: string;
}

function placesOf(area: Area, table: RouteTable<AnyRoute>, prefix: string): Place[] {
  return table.routes.map((route) => {
    const path = prefix + route.path;
    const group = path
      .split("/")
      .slice(0, 4)
      .join("/")
      .replace(/\/:.*$/, "");
    return { name: `${route.verb} ${path}`, group, area, route, table, prefix };
  });
}

/** Every route there is. */
export const places: readonly Place[] = [
  ...placesOf("secrets", secretsRoutes, "/v1"),
  ...Object.entries(mountedRoutes).flatMap(([type, table]) => placesOf("secrets", table, `/v1/${type}`)),
  ...placesOf("cluster", clusterRoutes, "/v1"),
];
