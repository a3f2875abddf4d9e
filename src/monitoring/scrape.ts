import { mapLimit } from "../lib/map-limit.ts";
import { within } from "../lib/timeout.ts";
import { someDestinations } from "../listings/destinations.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";
import { isWhole, type Series, series, withLabel } from "../platform/observability/metrics/series.ts";
import { RELEASE } from "../platform/version.ts";
import { destinationName } from "../rpc/destination-name.ts";
import {
  accessControl,
  clusterRegistry,
  credentialEngine,
  eventLog,
  eventRelay,
  eventSubscription,
  identityIssuer,
  kvStore,
  syncControl,
  syncDestination,
} from "../rpc/stubs.ts";
import { lastSnapshotSeries, snapshotState } from "./snapshots.ts";

/**
 * Collects health stats of all objects. Each object has its own deadline; objects without an answer are omitted and
 * counted.
 */

/** A slower object counts as unreachable. */
const DEADLINE_MS = 2_000;
const MAX_CONCURRENT = 12;
/** Maximum of mounts and destinations per scrape; each costs one call. */
const MAX_MOUNTS = 100;
const MAX_DESTINATIONS = 200;
/** Maximum of relays, and of event subscriptions. */
const MAX_NAMED_OBJECTS = 100;

interface Scraped {
  readonly kind: string;
  /** Its label: a path or name instead of a uuid. */
  readonly name: string;
  readonly vitals: () => Promise<HealthStats>;
  /** Label in front of its own series. */
  readonly whose?: string;
}

/** Result of a scrape: reachable and unreachable objects by type. */
class Round {
  readonly series: Series[] = [];
  readonly #errors = new Map<string, number>();
  readonly #skipped = new Map<string, number>();

  failed(kind: string, failure: unknown): void {
    this.#errors.set(kind, (this.#errors.get(kind) ?? 0) + 1);
    warn("object-not-measured", { kind, because: textOf(failure) });
  }

  skipped(kind: string, n: number): void {
    if (n > 0) this.#skipped.set(kind, (this.#skipped.get(kind) ?? 0) + n);
  }

  /** Contains every object type, also without failures: alerts need existing series. */
  sums(): Series[] {
    return [
      ...[...ONE_OF, ...MANY_OF].map((kind) => series("sallyport_scrape_errors", this.#errors.get(kind) ?? 0, kind)),
      ...MANY_OF.map((kind) => series("sallyport_scrape_skipped_objects", this.#skipped.get(kind) ?? 0, kind)),
    ];
  }
}

const ONE_OF = ["AccessControl", "EventLog", "ClusterRegistry", "SyncControl", "IdentityIssuer", "Metrics"];
const MANY_OF = ["KvStore", "CredentialEngine", "SyncDestination", "EventRelay", "EventSubscription"];

/** @param own health stats of the calling object, which cannot call itself */
export async function scrapeObjects(env: Env, own: HealthStats): Promise<Series[]> {
  const began = Date.now();
  const round = new Round();
  const one = (kind: string, name: string, vitals: () => Promise<HealthStats>): Scraped => ({ kind, name, vitals });
  const singles = [
    one("AccessControl", "main", () => accessControl(env).vitals()),
    one("EventLog", "log", () => eventLog(env).vitals()),
    one("ClusterRegistry", "main", () => clusterRegistry(env).vitals()),
    one("SyncControl", "main", () => syncControl(env).vitals()),
    one("IdentityIssuer", "main", () => identityIssuer(env).vitals()),
    one("Metrics", "main", async () => own),
  ];
  const many = await Promise.all([mountsOf, destinationsOf, relaysOf, subscriptionsOf].map((list) => list(env, round)));
  await scrapeAll([...singles, ...many.flat()], round);
  const lastSnapshot = await lastSnapshotSeries(env).catch((failure: unknown) => {
    round.failed("AccessControl", failure);
    return [];
  });
  return [
    series("sallyport_build_info", 1, RELEASE),
    ...round.series,
    ...((await snapshotState(env))?.series ?? []),
    ...lastSnapshot,
    ...round.sums(),
    series("sallyport_scrape_duration_seconds", Math.max(0, Date.now() - began) / 1000),
  ];
}

async function mountsOf(env: Env, round: Round): Promise<Scraped[]> {
  try {
    const mounts = await within(DEADLINE_MS, accessControl(env).everyMount(MAX_MOUNTS));
    return Object.entries(mounts).flatMap(([type, { total, some }]) => {
      const kind = type === "kv" ? "KvStore" : "CredentialEngine";
      round.skipped(kind, total - some.length);
      return some.map(({ name, uuid }) =>
        type === "kv"
          ? { kind, name, vitals: () => kvStore(env, uuid).vitals() }
          : { kind, name, whose: name, vitals: () => credentialEngine(env, uuid).vitals() },
      );
    });
  } catch (failure) {
    for (const kind of ["KvStore", "CredentialEngine"]) round.failed(kind, failure);
    return [];
  }
}

async function destinationsOf(env: Env, round: Round): Promise<Scraped[]> {
  try {
    const listed = await within(DEADLINE_MS, someDestinations(env.LISTINGS, MAX_DESTINATIONS));
    round.skipped("SyncDestination", listed.total - listed.some.length);
    return listed.some.map(destinationName).map((name) => ({
      kind: "SyncDestination",
      name,
      whose: name,
      vitals: () => syncDestination(env, name).vitals(),
    }));
  } catch (failure) {
    round.failed("SyncDestination", failure);
    return [];
  }
}

/** Relays connected to the log: they are awake and at their place. */
const relaysOf = (env: Env, round: Round): Promise<Scraped[]> =>
  namedBy(eventLog(env).relays(), "EventRelay", round, (name) => ({ vitals: () => eventRelay(env, name).vitals() }));

const subscriptionsOf = (env: Env, round: Round): Promise<Scraped[]> =>
  namedBy(eventLog(env).subscriptions(), "EventSubscription", round, (name) => ({
    whose: name,
    vitals: () => eventSubscription(env, name).vitals(),
  }));

async function namedBy(
  names: Promise<readonly string[]>,
  kind: string,
  round: Round,
  one: (name: string) => Omit<Scraped, "kind" | "name">,
): Promise<Scraped[]> {
  try {
    const all = await within(DEADLINE_MS, names);
    round.skipped(kind, all.length - MAX_NAMED_OBJECTS);
    return all.slice(0, MAX_NAMED_OBJECTS).map((name) => ({ kind, name, ...one(name) }));
  } catch (failure) {
    round.failed(kind, failure);
    return [];
  }
}

async function scrapeAll(objects: readonly Scraped[], round: Round): Promise<void> {
  await mapLimit(objects, MAX_CONCURRENT, async ({ kind, name, vitals, whose }) => {
    try {
      round.series.push(...measured(kind, name, await within(DEADLINE_MS, vitals()), whose));
    } catch (failure) {
      round.failed(kind, failure);
    }
  });
}

function measured(
  kind: string,
  name: string,
  { bytes, outbox, alarmLagMs, series: own }: HealthStats,
  whose?: string,
): Series[] {
  return [
    series("sallyport_object_size_bytes", bytes, kind, name),
    series("sallyport_outbox_rows", outbox.rows, kind, name),
    series("sallyport_outbox_oldest_age_seconds", outbox.oldestMs / 1000, kind, name),
    series("sallyport_alarm_lag_seconds", alarmLagMs / 1000, kind, name),
    ...own.map((each) => (whose === undefined ? each : withLabel(whose, each))).filter(isWhole),
  ];
}
