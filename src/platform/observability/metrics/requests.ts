import type { Answered } from "../../http/exchange.ts";
import { VERBS } from "../../http/target.ts";
import { flushCountsSoon } from "./flush.ts";
import { count, observe } from "./isolate-counters.ts";

/** The service area of a route for latencies, by the prefix of its path. */
const PARTS: readonly (readonly [prefix: string, part: string])[] = [
  ["/v1/{cloud-", "credentials"],
  ["/v1/{kv}", "secrets"],
  ["/v1/sys/sync", "sync"],
  ["/v1/event/", "events"],
  ["/v1/volume", "volumes"],
  ["/v1/sys/metrics", "operation"],
  ["/v1/metrics", "operation"],
  ["/v1/sys/health", "operation"],
];

const partOf = (path: string, area: Answered["area"]): string =>
  PARTS.find(([prefix]) => path.startsWith(prefix))?.[1] ?? (area === "cluster" ? "cluster" : "system");

/** Counts an answered request by its route, never by its path, which is unbounded. */
export function measureAnswer({ method, route, area, status, durationMs }: Answered): void {
  const [verb = "", path = ""] = route?.split(" ") ?? [VERBS.has(method) ? method : "other", "none"];
  count("sallyport_http_requests_total", path, verb, String(status));
  observe("sallyport_http_request_duration_seconds", durationMs / 1000, route === null ? "none" : partOf(path, area));
  flushCountsSoon();
}
