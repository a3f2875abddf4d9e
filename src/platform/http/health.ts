/** Paths of health checks by load balancers and operators; they are answered even while other requests are refused. */
const HEALTH = /^\/(?:(?:v1\/)?sys\/(?:health|seal-status|leader)|v1\/agent\/health)$/;

/** @param method of the request @param path as sent */
export const isHealthCheck = ({ method, path }: { readonly method: string; readonly path: string }): boolean =>
  (method === "GET" || method === "HEAD") && HEALTH.test(path);
