import { speaksOrchestrator } from "../../compat/dialect.ts";
import type { HeaderReader } from "./request-headers.ts";

/**
 * The HTTP convention of a request and its answer: `secrets` (secrets and sync) or `cluster` (event stream and
 * volumes).
 */
export type Area = "secrets" | "cluster";

/** First path segments of the cluster API under `/v1`; mounts cannot use them. */
export const CLUSTER_ROOTS: ReadonlySet<string> = new Set(
  (
    "acl agent agents allocation allocations client cluster deployment deployments evaluation evaluations event job jobs " +
    "metrics namespace namespaces node nodes operator plugin plugins regions search service services status system " +
    "validate volume volumes"
  ).split(" "),
);

/** First path segments of the service itself in the secrets API. */
export const SERVICE_ROOTS: ReadonlySet<string> = new Set(
  "sys auth identity cubbyhole ui docs openapi.json .well-known".split(" "),
);

/**
 * Further roots of the upstream cluster API. They have no routes, and mounts may use these names; the refusal has the
 * form that cluster clients parse.
 */
const UPSTREAM_ROOTS: ReadonlySet<string> = new Set(
  "license licenses quota quota-usages quotas recommendation recommendations scaling sentinel var vars".split(" "),
);

/** The first segment below `/v1`, however many slashes stand around it. */
function rootOf(pathname: string): string {
  if (!pathname.startsWith("/v1/") || pathname.startsWith("/v1//")) return /^\/+v1\/+([^/]*)/.exec(pathname)?.[1] ?? "";
  const end = pathname.indexOf("/", 4);
  return pathname.slice(4, end < 0 ? undefined : end);
}

/**
 * The area of a path as received. The cluster API needs the `/v1` prefix; the secrets API answers with and without it.
 * Determined before any check, so that a malformed request is also refused in the form of its area.
 */
export function areaOf(pathname: string, headers?: HeaderReader): Area {
  const root = rootOf(pathname);
  if (CLUSTER_ROOTS.has(root)) return "cluster";
  return UPSTREAM_ROOTS.has(root) && headers !== undefined && speaksOrchestrator(headers) ? "cluster" : "secrets";
}
