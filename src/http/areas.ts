import type { Area } from "./respond.ts";
import type { Target } from "./target.ts";

/** First path segments that belong to areas C and D under `/v1`; no mount may take them. */
export const CLUSTER_ROOTS: ReadonlySet<string> = new Set(
  (
    "acl agent allocation allocations client cluster deployment deployments evaluation evaluations event job jobs " +
    "metrics namespace namespaces node nodes operator plugin plugins regions search service services status system " +
    "validate volume volumes"
  ).split(" "),
);

/** First path segments that belong to the service itself in areas A and B. */
export const SERVICE_ROOTS: ReadonlySet<string> = new Set(["sys", "auth", "identity", "cubbyhole", "v1", "ui", "docs"]);

/** Areas C and D need the `/v1` prefix; A and B answer with and without. */
export const areaOf = (target: Target): Area =>
  target.versioned && CLUSTER_ROOTS.has(target.path.split("/", 1)[0] ?? "") ? "cluster" : "secrets";
