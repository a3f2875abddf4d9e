import * as z from "zod";
import { CONTENT_TYPES, type Format, written } from "../platform/observability/metrics/exposition.ts";
import { flushCounts } from "../platform/observability/metrics/flush.ts";
import { allowsAgent } from "../rights/cluster-rights.ts";
import { metrics } from "../rpc/stubs.ts";
import { type Asked, type AuthorisedCall, cluster, secrets } from "./server/route.ts";

/** Metrics (docs/operate/metrics.md), at the paths of both client families. */

const FORMATS = Object.keys(CONTENT_TYPES) as Format[];

const MetricsQuery = z.object({
  format: z.preprocess((given) => given || undefined, z.enum(FORMATS, `one of ${FORMATS.join(", ")}`).optional()),
});
type MetricsCall = AuthorisedCall & Asked<typeof MetricsQuery>;

/** The requested format, by name or `Accept`; upstream clients expect JSON, others text. */
function formatOf({ asked, request, dialect }: MetricsCall): Format {
  if (asked.format) return asked.format;
  const accepted = (request.headers.get("Accept") ?? "").toLowerCase();
  if (accepted.includes("application/openmetrics-text")) return "openmetrics";
  if (accepted.includes("text/plain")) return "prometheus";
  return accepted.includes("application/json") || dialect === "upstream" ? "json" : "prometheus";
}

async function show(call: MetricsCall): Promise<Response> {
  const format = formatOf(call);
  // A scrape includes the counts of this isolate.
  await flushCounts();
  const series = await metrics(call.env).read();
  return new Response(written(format, series, new Date()), {
    headers: { "Content-Type": CONTENT_TYPES[format], "Cache-Control": "no-store" },
  });
}

export const metricsClusterRoutes = [
  cluster("GET /metrics", { rights: (rights) => allowsAgent(rights, "read"), query: MetricsQuery }, show),
];

export const metricsRoutes = [secrets("GET /sys/metrics", { query: MetricsQuery }, show)];
