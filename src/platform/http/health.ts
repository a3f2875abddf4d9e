/** What load balancers and operators ask to learn whether the service runs; it is answered whatever else is refused. */
const HEALTH = /^\/(?:(?:v1\/)?sys\/(?:health|seal-status|leader)|v1\/agent\/health)$/;

/** @param method of the request @param path as it was sent */
export const isHealthCheck = ({ method, path }: { readonly method: string; readonly path: string }): boolean =>
  (method === "GET" || method === "HEAD") && HEALTH.test(path);
