/** Findings that need a person's attention, the worst first. */
import type { Schemas } from "../../api/client.ts";
import type { Caller } from "../../api/session.ts";
import { href } from "../../app/router.ts";
import type { Tone } from "../../components/status.tsx";
import { count, plural } from "../../lib/text.ts";
import { durationText } from "../../lib/time.ts";
import type { Figures } from "./figures.ts";

export interface Finding {
  readonly tone: Tone;
  /** One word for the status. */
  readonly word: string;
  readonly text: string;
  readonly href?: string;
}

/** Parts of the service in people's words. */
const PARTS: Readonly<Record<string, string>> = {
  access_control: "Tokens and policies",
  event_log: "The event log",
  cluster_registry: "Nodes and volumes",
  sync_control: "The control of sync",
  listings: "Listings",
  outbox: "Delivery between parts",
};

export function findingsOfHealth(health: Schemas["Health"]): Finding[] {
  const found: Finding[] = [];
  if (!health.initialized) found.push({ tone: "bad", word: "New", text: "The service has no first token yet." });
  if (health.sealed)
    found.push({
      tone: "bad",
      word: "Sealed",
      text: `Secrets cannot be opened: ${health.sealed_because ?? "a master key is missing or wrong"}.`,
    });
  for (const part of health.failing)
    found.push({
      tone: "bad",
      word: "Failing",
      text: `${PARTS[part] ?? part}: ${health.parts[part as keyof typeof health.parts] ?? "failing"}.`,
    });
  for (const part of health.degraded)
    found.push({
      tone: "warn",
      word: "Degraded",
      text: `${PARTS[part] ?? part}: ${health.parts[part as keyof typeof health.parts] ?? "degraded"}.`,
    });
  return found;
}

const SOON_MS = 15 * 60_000;
/** Effects that wait longer than this are late. */
const LATE_S = 60;

const destinationHref = (key: string): string => href("sync", key.split("/"));

export function findingsOfFigures(figures: Figures): Finding[] {
  const found: Finding[] = [];
  const add = (amount: number, tone: Tone, word: string, text: string, address?: string): void => {
    if (amount > 0) found.push({ tone, word, text, ...(address ? { href: address } : {}) });
  };
  add(figures.sum("sync_paused"), "warn", "Paused", "Sync is paused: no destination gets changes.", href("sync"));
  for (const { labels, value } of figures.series("sync_associations")) {
    const { destination = "", status = "" } = labels;
    const what = `${plural(value, "secret")} at ${destination}`;
    if (status === "CLIENT_SIDE_ERROR")
      add(value, "bad", "Failing", `${what}: refused by the provider.`, destinationHref(destination));
    if (status === "INTERNAL_ERROR")
      add(value, "bad", "Failing", `${what}: the service failed; tried again.`, destinationHref(destination));
    if (status === "EXTERNAL_SERVICE_ERROR")
      add(value, "warn", "Retrying", `${what}: the provider fails; tried again.`, destinationHref(destination));
    if (status === "UNKNOWN")
      add(value, "warn", "Retrying", `${what}: no answer came; tried again.`, destinationHref(destination));
  }
  const irrevocable = figures.sum("leases", { state: "irrevocable" });
  add(irrevocable, "bad", "Stuck", `${plural(irrevocable, "lease")} could not be revoked.`, href("credentials"));
  for (const [status, value] of figures.by("nodes", "status"))
    if (status !== "ready")
      add(
        value,
        status === "down" ? "bad" : "warn",
        status === "down" ? "Down" : "Node",
        `${plural(value, "node is", "nodes are")} ${status}.`,
        href("nodes"),
      );
  const away = figures.sum("agents", { state: "away" });
  add(away, "warn", "Away", `${plural(away, "agent has", "agents have")} no connection.`, href("nodes"));
  for (const { labels, value } of figures.series("csi_plugin_instances"))
    if (labels["health"] !== "healthy")
      add(
        value,
        "warn",
        "Unhealthy",
        `The ${labels["role"]} of the plugin ${labels["plugin"]} is ${labels["health"]}.`,
        href("storage"),
      );
  const unavailable = figures.sum("host_volumes", { state: "unavailable" });
  add(
    unavailable,
    "bad",
    "Unavailable",
    `${plural(unavailable, "host volume is", "host volumes are")} unavailable.`,
    href("storage"),
  );
  const claims = figures.sum("csi_claims", { health: "failing" });
  add(claims, "warn", "Failing", `${plural(claims, "claim")} on CSI volumes cannot go on.`, href("storage"));
  const age = figures.max("outbox_oldest_age_seconds");
  add(age - LATE_S, "warn", "Late", `An effect waits for delivery since ${durationText(age * 1000)}.`);
  const lag = figures.max("alarm_lag_seconds");
  add(lag - LATE_S, "warn", "Late", `Work that is due began ${durationText(lag * 1000)} late.`);
  for (const { labels } of figures.series("scrape_errors").filter(({ value }) => value > 0))
    add(1, "warn", "Not seen", `Figures are missing: ${labels["class"] ?? "a part"} did not answer.`);
  const lost = figures.sum("audit_lines_lost_total");
  add(lost, "warn", "Audit", `${plural(lost, "line")} of the audit log did not reach a sink.`, href(""));
  return found;
}

const SEVERITIES: Readonly<Record<Schemas["NotificationAlert"]["severity"], Tone>> = {
  critical: "bad",
  error: "bad",
  warning: "warn",
  info: "info",
};

/** Subjects for which the condition of a notification rule holds. */
export const findingsOfNotifications = (active: readonly Schemas["NotificationAlert"][]): Finding[] =>
  active
    .filter(({ state }) => state !== "ended")
    .map(({ rule, subject, detail, severity, state }) => ({
      tone: SEVERITIES[severity],
      word: state === "firing" ? "Notified" : "Begun",
      text: `Rule ${rule}: ${subject}${detail === "" ? "" : `, ${detail}`}.`,
      href: href("notifications"),
    }));

/** Findings about a token that ends within a quarter of an hour. */
export function findingsOfCaller(caller: Caller | null, at: number): Finding[] {
  if (!caller?.expires || caller.expires - at > SOON_MS) return [];
  return [{ tone: "warn", word: "Ends soon", text: `Your token ends in ${durationText(caller.expires - at)}.` }];
}

/** Work that waits or is under way. */
export function waiting(figures: Figures): Finding[] {
  const found: Finding[] = [];
  const add = (amount: number, text: string, address: string): void => {
    if (amount > 0) found.push({ tone: "wait", word: count(amount), text, href: address });
  };
  add(figures.sum("sync_pending"), "changes on their way to destinations", href("sync"));
  add(figures.sum("engine_jobs"), "tasks at clouds", href("credentials"));
  add(figures.sum("host_volumes", { state: "pending" }), "host volumes being created", href("storage"));
  add(figures.sum("volume_operations"), "operations of nodes on volumes", href("storage"));
  add(figures.sum("volume_claims", { state: "pending" }), "claims waiting for a volume", href("storage"));
  return found;
}

const ORDER: readonly Tone[] = ["bad", "warn", "info", "wait", "off", "ok"];

export const worstFirst = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted((a, b) => ORDER.indexOf(a.tone) - ORDER.indexOf(b.tone));
