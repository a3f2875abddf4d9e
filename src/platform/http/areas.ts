import { speaksOrchestrator } from "../../compat/dialect.ts";

/** Which of the two conventions of design 2.2 a request and its answer follow: areas A and B, or areas C and D. */
export type Area = "secrets" | "cluster";

/** First path segments that belong to areas C and D under `/v1`; no mount may take them. */
export const CLUSTER_ROOTS: ReadonlySet<string> = new Set(
  (
    "acl agent agents allocation allocations client cluster deployment deployments evaluation evaluations event job jobs " +
    "metrics namespace namespaces node nodes operator plugin plugins regions search service services status system " +
    "validate volume volumes"
  ).split(" "),
);

/** First path segments that belong to the service itself in areas A and B. */
export const SERVICE_ROOTS: ReadonlySet<string> = new Set(
  "sys auth identity cubbyhole v1 ui docs openapi.json".split(" "),
);

/**
 * Upstream's other roots of areas C and D. Nothing is there, and mounts may have these names; a client of those areas reads the
 * refusal in its own form.
 */
const UPSTREAM_ROOTS: ReadonlySet<string> = new Set(
  "license licenses quota quota-usages quotas recommendation recommendations scaling sentinel var vars".split(" "),
);

/**
 * The area of a path as it came in. Areas C and D need the `/v1` prefix, A and B answer with and without. Known before
 * anything is checked, so that even a malformed request is refused in the convention of its area.
 */
export function areaOf(pathname: string, headers?: Headers): Area {
  const [, root = ""] = /^\/+v1\/+([^/]*)/.exec(pathname) ?? [];
  if (CLUSTER_ROOTS.has(root)) return "cluster";
  return UPSTREAM_ROOTS.has(root) && headers !== undefined && speaksOrchestrator(headers) ? "cluster" : "secrets";
}
