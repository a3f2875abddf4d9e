/** Reads of secret sync, and what the answers mean. */
import { api, apiFull, isDenied, type Schemas } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import type { Tone } from "../../components/status.tsx";
import { syncTone } from "../../lib/sync-status.ts";
import { byName } from "../../lib/text.ts";

export type Destination = Schemas["Destination"];
export type Association = Schemas["Association"];
export type PlannedObject = Schemas["PlannedObject"];

export interface DestinationRef {
  readonly type: string;
  readonly name: string;
}

export const keyOf = ({ type, name }: DestinationRef): string => `${type}/${name}`;

/** Reads at a time, where each row of a list needs one. */
export const MAX_CONCURRENT = 6;

/** All destinations of the namespace, by type and name. */
export async function readDestinations(signal: AbortSignal): Promise<DestinationRef[]> {
  const { status, body } = await apiFull("LIST /v1/sys/sync/destinations", { signal, accept: [404] });
  if (status === 404) return [];
  return Object.entries(body.data.key_info)
    .flatMap(([type, names]) => names.map((name) => ({ type: type.replace(/\/$/, ""), name })))
    .sort((a, b) => byName(a.name, b.name) || byName(a.type, b.type));
}

/** `quiet` keeps a read out of the record of commands. */
interface Reading {
  readonly quiet?: boolean;
}

export async function readDestination(
  path: DestinationRef,
  signal?: AbortSignal,
  { quiet = false }: Reading = {},
): Promise<Destination> {
  return (await api("GET /v1/sys/sync/destinations/{type}/{name}", { path: { ...path }, signal, quiet })).data;
}

/** Null where the caller's namespace or rights do not show it. */
export async function readConfig(signal: AbortSignal): Promise<Schemas["SyncConfig"] | null> {
  try {
    return (await api("GET /v1/sys/sync/config", { signal, quiet: true })).data;
  } catch (failure) {
    if (isDenied(failure)) return null;
    throw failure;
  }
}

/** Figures of a destination; times of two reads give its pace. */
export interface Figures {
  readonly byStatus: Readonly<Record<string, number>>;
  readonly queued: number;
  /** Wait for room in the queue. */
  readonly waiting: number;
  /** Tries since the service counts them, by outcome. */
  readonly tries: number;
}

export interface SyncMetrics {
  readonly at: number;
  readonly granted: number | null;
  readonly byDestination: ReadonlyMap<string, Figures>;
}

const NO_FIGURES: Figures = { byStatus: {}, queued: 0, waiting: 0, tries: 0 };

/** Figures of all destinations; null outside the root namespace and for tokens that may not read them. */
export async function readMetrics(signal: AbortSignal): Promise<SyncMetrics | null> {
  if (secretsNamespace.peek() !== "") return null;
  let metrics: Schemas["Metrics"];
  try {
    metrics = await api("GET /v1/sys/metrics", { query: { format: "json" }, signal, quiet: true });
  } catch (failure) {
    if (isDenied(failure)) return null;
    throw failure;
  }
  const found = new Map<string, Figures>();
  const change = (key: string | undefined, edit: (figures: Figures) => Partial<Figures>): void => {
    if (key === undefined) return;
    const figures = found.get(key) ?? NO_FIGURES;
    found.set(key, { ...figures, ...edit(figures) });
  };
  let granted: number | null = null;
  for (const { Name, Labels, Value } of metrics.Gauges) {
    const { destination, status = "", state } = Labels;
    if (Name === "sallyport_sync_queue_granted") granted = Value;
    if (Name === "sallyport_sync_associations")
      change(destination, ({ byStatus }) => ({ byStatus: { ...byStatus, [status]: Value } }));
    if (Name === "sallyport_sync_pending")
      change(destination, () => (state === "waiting" ? { waiting: Value } : { queued: Value }));
  }
  for (const { Name, Labels, Sum } of metrics.Counters)
    if (Name === "sallyport_sync_tasks_total") change(Labels["destination"], ({ tries }) => ({ tries: tries + Sum }));
  return { at: Date.parse(metrics.Timestamp) || Date.now(), granted, byDestination: found };
}

/** Whether a status is a failure. */
export const isFailing = (status: string): boolean => !["PENDING", "SYNCED", "UNSYNCED"].includes(status);

const ORDER = [
  "INTERNAL_ERROR",
  "CLIENT_SIDE_ERROR",
  "EXTERNAL_SERVICE_ERROR",
  "UNKNOWN",
  "PENDING",
  "SYNCED",
  "UNSYNCED",
];

/** The association that needs attention most. */
export const worstOf = (entries: readonly Association[]): Association | undefined =>
  entries.toSorted((a, b) => ORDER.indexOf(a.sync_status) - ORDER.indexOf(b.sync_status))[0];

interface Health {
  readonly tone: Tone;
  readonly word: string;
}

/** Health of a destination from its state and its counts by status. */
export function healthOf(destination: Destination, counts: Readonly<Record<string, number>> | undefined): Health {
  if (destination.purge_error) return { tone: "bad", word: "Purge failed" };
  if (destination.purge_initiated_at) return { tone: "wait", word: "Purge under way" };
  if (destination.circuit_breaker) return { tone: "bad", word: "Paused after failures" };
  if (!counts) return { tone: "ok", word: "Ready" };
  const failing = failuresOf(counts);
  if (failing) return failing;
  const pending = counts["PENDING"] ?? 0;
  if (pending > 0) return { tone: "wait", word: `${pending} pending` };
  return totalOf(counts) > 0 ? { tone: "ok", word: "In sync" } : { tone: "off", word: "No secrets" };
}

/** Failures in one word, the worse kind first; null for none. */
export function failuresOf(counts: Readonly<Record<string, number>>): Health | null {
  const sum = (tone: Tone): number =>
    Object.entries(counts).reduce((all, [status, n]) => all + (syncTone(status) === tone ? n : 0), 0);
  const failing = sum("bad");
  if (failing > 0) return { tone: "bad", word: `${failing} failing` };
  const retrying = sum("warn");
  return retrying > 0 ? { tone: "warn", word: `${retrying} retrying` } : null;
}

export const totalOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, n) => sum + n, 0);

/** Paths of mounts by accessor, without slashes at the end; accessors of mounts that the caller may not see are absent. */
export async function readMountPaths(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { signal, quiet: true });
  return new Map(
    Object.entries(data.secret).flatMap(([path, mount]) =>
      "accessor" in mount ? [[mount.accessor, path.replace(/\/$/, "")] as const] : [],
    ),
  );
}

/** A page of associations of a destination. */
interface AssociationPage {
  readonly entries: readonly (readonly [key: string, Association])[];
  readonly next: string | null;
}

const PAGE = 1_000;

export async function readAssociations(
  path: DestinationRef,
  after: string | null,
  signal?: AbortSignal,
  { quiet = after !== null }: Reading = {},
): Promise<AssociationPage> {
  const { data } = await api("GET /v1/sys/sync/destinations/{type}/{name}/associations", {
    path: { ...path },
    query: { limit: PAGE, ...(after === null ? {} : { after }) },
    signal,
    quiet,
  });
  return { entries: Object.entries(data.associated_secrets), next: data.next || null };
}

/** Pushes a secret again. */
export const setSecret = (path: DestinationRef, mount: string, secretName: string) =>
  api("POST /v1/sys/sync/destinations/{type}/{name}/associations/set", {
    path: { ...path },
    body: { mount, secret_name: secretName },
  });
