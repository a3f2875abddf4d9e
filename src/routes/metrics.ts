import { badRequest } from "../platform/http/errors.ts";
import { CONTENT_TYPES, type Format, written } from "../platform/observability/metrics/exposition.ts";
import { flushCounts } from "../platform/observability/metrics/flush.ts";
import { allowsAgent } from "../rights/cluster-rights.ts";
import { metrics } from "../rpc/stubs.ts";
import { type AuthorisedCall, cluster, secrets } from "./server/route.ts";

/** Metrics (docs/operate/metrics.md), at the paths of both client families. */

const FORMATS: ReadonlySet<string> = new Set(Object.keys(CONTENT_TYPES));

/** The requested format, by name or `Accept`; upstream clients expect JSON, others text. */
function formatOf({ query, request, dialect }: AuthorisedCall): Format {
  const named = query.get("format");
  if (named) {
    if (!FORMATS.has(named)) throw badRequest(`format: one of ${[...FORMATS].join(", ")}`);
    return named as Format;
  }
  const accepted = (request.headers.get("Accept") ?? "").toLowerCase();
  if (accepted.includes("application/openmetrics-text")) return "openmetrics";
  if (accepted.includes("text/plain")) return "prometheus";
  return accepted.includes("application/json") || dialect === "upstream" ? "json" : "prometheus";
}

async function show(call: AuthorisedCall): Promise<Response> {
  const format = formatOf(call);
  // A scrape includes the counts of this isolate.
  await flushCounts();
  const series = await metrics(call.env).read();
  return new Response(written(format, series, new Date()), {
    headers: { "Content-Type": CONTENT_TYPES[format], "Cache-Control": "no-store" },
  });
}

export const metricsClusterRoutes = [
  cluster({ verb: "GET", path: "/metrics", rights: (rights) => allowsAgent(rights, "read"), handle: show }),
];

export const metricsRoutes = [secrets({ verb: "GET", path: "/sys/metrics", handle: show })];
