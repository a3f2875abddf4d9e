import type { AccessControlApi } from "../contracts/access-control.ts";
import { within } from "../lib/timeout.ts";
import { readDestination } from "../listings/destinations.ts";
import { isStorageLost } from "../platform/durable/birth.ts";
import { isJurisdictionChanged } from "../platform/durable/jurisdiction.ts";
import { type ObjectName, textOfObject } from "../platform/durable/object-kinds.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import { isDiskFull } from "../platform/http/disk.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";
import { ACCESS_CONTROL, storedObject } from "../rpc/stored-objects.ts";
import { accessControl, clusterRegistry, eventLog, syncControl } from "../rpc/stubs.ts";
import { clearSnapshotCache, snapshotState } from "./snapshots.ts";

/** Reachable components and their state. */
export interface Health {
  /** Status of `AccessControl`; null when unreachable, which means the service is down. */
  readonly access: Awaited<ReturnType<Remote<AccessControlApi>["status"]>> | null;
  readonly parts: Readonly<Record<Part, Condition>>;
  /** Undelivered outbox rows of the reachable components. */
  readonly outbox: { readonly rows: number; readonly oldestMs: number };
  /** Objects, as `kind name`, with empty storage although they held data before. They refuse all requests. */
  readonly lost: readonly string[];
  /** Writes fail; reads continue. */
  readonly isDiskFull: boolean;
  /** A scheduled snapshot has been due for more than an hour. */
  readonly isSnapshotLate: boolean;
  /** Null when unreadable. */
  readonly agents: { readonly connected: number; readonly known: number } | null;
}

export const PARTS = ["access_control", "event_log", "cluster_registry", "sync_control", "listings", "outbox"] as const;
type Part = (typeof PARTS)[number];

/**
 * `behind`: old outbox rows are undelivered. `lost`: its storage is empty although it held data before. `misplaced`: the
 * data is in the jurisdiction of the first start, and `JURISDICTION` names another.
 */
export const CONDITIONS = ["ok", "unreachable", "behind", "lost", "misplaced"] as const;
type Condition = (typeof CONDITIONS)[number];

/** More frequent requests share one result, so that unauthenticated health checks cannot load the service. */
const CACHE_TTL_MS = 1_000;
const DEADLINE_MS = 2_000;
/** A longer check was lost with its request. */
const STALE_AFTER_MS = 2 * DEADLINE_MS;
const POLL_MS = 20;
/** Deliveries are retried within seconds; this age means an unreachable receiver. */
const BEHIND_MS = 60_000;

let last: { readonly at: number; readonly health: Health } | null = null;
let checkingSince = 0;

/** Clears the cached result, for tests with a new deployment. */
export const clearHealthCache = (): void => {
  last = null;
  clearSnapshotCache();
};

/** Status of the deployment from `AccessControl`; null after its deadline. */
export const accessStatus = (env: Env, failed?: Failed): Promise<Health["access"]> =>
  reached("access_control", () => accessControl(env).status(), failed);

/**
 * Health of the service, up to one second old, except that the first token counts at once. One request of an isolate
 * runs the check, concurrent ones share its result.
 */
export async function health(env: Env): Promise<Health> {
  for (;;) {
    const now = Date.now();
    if (last && Math.abs(now - last.at) < CACHE_TTL_MS) return initializedSince(env, last.health);
    if (Math.abs(now - checkingSince) >= STALE_AFTER_MS) break;
    await scheduler.wait(POLL_MS);
  }
  checkingSince = Date.now();
  try {
    const checked = await check(env);
    last = { at: Date.now(), health: checked };
    return checked;
  } finally {
    checkingSince = 0;
  }
}

/** A recent result; the deployment may have been given its first token since then. */
async function initializedSince(env: Env, recent: Health): Promise<Health> {
  if (recent.access?.bootstrapped !== false) return recent;
  return { ...recent, access: (await accessStatus(env)) ?? recent.access };
}

async function check(env: Env): Promise<Health> {
  const reads = {
    access_control: () => accessControl(env).vitals(),
    event_log: () => eventLog(env).vitals(),
    cluster_registry: () => clusterRegistry(env).vitals(),
    sync_control: () => syncControl(env).vitals(),
  };
  const refusals = new Map<string, Condition>();
  const noteRefusal = (part: string) => (failure: unknown) => {
    if (isStorageLost(failure)) refusals.set(part, "lost");
    if (isJurisdictionChanged(failure)) refusals.set(part, "misplaced");
  };
  const [isFull, snapshots, access, listings, ...vitals] = await Promise.all([
    isDiskFull(env),
    snapshotState(env),
    accessStatus(env, noteRefusal("access_control")),
    reached("listings", () => readDestination(env.LISTINGS)),
    ...Object.entries(reads).map(([part, read]) => reached(part, read, noteRefusal(part))),
  ]);
  const [accessVitals, log, registry, control] = vitals;
  const outbox = outboxOf(vitals);
  const condition = (part: Part, answer: unknown): Condition => (answer ? "ok" : (refusals.get(part) ?? "unreachable"));
  return {
    access,
    parts: {
      access_control: condition("access_control", access && accessVitals),
      event_log: condition("event_log", log),
      cluster_registry: condition("cluster_registry", registry),
      sync_control: condition("sync_control", control),
      listings: condition("listings", listings),
      outbox: outbox.oldestMs > BEHIND_MS ? "behind" : "ok",
    },
    outbox,
    lost: access
      ? await stillLost(env, access.lost)
      : refusals.get("access_control") === "lost"
        ? [textOfObject(ACCESS_CONTROL)]
        : [],
    isDiskFull: isFull,
    isSnapshotLate: snapshots?.isLate ?? false,
    agents: registry ? agentsIn(registry) : null,
  };
}

/** The lost objects that are still lost. */
async function stillLost(env: Env, lost: readonly ObjectName[]): Promise<string[]> {
  const looked = lost.map(async (object) => {
    const name = textOfObject(object);
    if (!(await reached(name, () => storedObject(env, object).vitals()))) return [name];
    await reached("access_control", () => accessControl(env).isFound(object));
    return [];
  });
  return (await Promise.all(looked)).flat();
}

/** Receives the reason why a component is unreachable. */
type Failed = (failure: unknown) => void;

/** Answer of a component; null after its deadline. */
export async function reached<T>(part: string, read: () => Promise<T>, failed?: Failed): Promise<T | null> {
  try {
    return await within(DEADLINE_MS, read());
  } catch (failure) {
    failed?.(failure);
    warn("part-unreachable", { part, because: textOf(failure) });
    return null;
  }
}

function outboxOf(vitals: readonly (HealthStats | null | undefined)[]): Health["outbox"] {
  const states = vitals.flatMap((each) => (each ? [each.outbox] : []));
  return {
    rows: states.reduce((sum, { rows }) => sum + rows, 0),
    oldestMs: Math.max(0, ...states.map(({ oldestMs }) => oldestMs)),
  };
}

function agentsIn({ series }: HealthStats): Health["agents"] {
  const agents = series.filter(({ name }) => name === "sallyport_agents");
  const number = (state: string) => Number(agents.find(({ labels }) => labels[0] === state)?.value ?? 0);
  return { connected: number("connected"), known: number("connected") + number("away") };
}
