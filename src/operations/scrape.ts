import { destinationName } from "../contracts/destination.ts";
import {
  accessControl,
  clusterRegistry,
  credentialEngine,
  eventLog,
  eventRelay,
  identityIssuer,
  kvStore,
  syncControl,
  syncDestination,
} from "../contracts/stubs.ts";
import { within } from "../lib/timeout.ts";
import { someDestinations } from "../listings/destinations.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { HealthStats } from "../platform/observability/metrics/health-stats.ts";
import { isWhole, type Series, series, withLabel } from "../platform/observability/metrics/series.ts";
import { VERSION } from "../platform/version.ts";

/** Asks the objects how they are. Each has its own deadline; one that does not answer is left out and counted. */

/** An object that takes longer to say how it is has trouble enough. */
const DEADLINE_MS = 2_000;
const AT_ONCE = 12;
/** Mounts and destinations that are asked; each is one call. */
const MOST_MOUNTS = 100;
const MOST_DESTINATIONS = 200;
const MOST_RELAYS = 100;

interface Asked {
  readonly kind: string;
  /** The label by which it is known: no uuid, but what people call it. */
  readonly name: string;
  readonly vitals: () => Promise<HealthStats>;
  /** Comes before the labels of its own series. */
  readonly whose?: string;
}

/** What there was to be asked, and what not, by kind of object. */
class Round {
  readonly series: Series[] = [];
  readonly #errors = new Map<string, number>();
  readonly #skipped = new Map<string, number>();

  failed(kind: string, failure: unknown): void {
    this.#errors.set(kind, (this.#errors.get(kind) ?? 0) + 1);
    warn("object-not-measured", { kind, because: textOf(failure) });
  }

  skipped(kind: string, n: number): void {
    if (n > 0) this.#skipped.set(kind, n);
  }

  /** Tells of every kind even when nothing went wrong: an alert needs a series to be about. */
  sums(): Series[] {
    return [
      ...[...ONE_OF, ...MANY_OF].map((kind) => series("sallyport_scrape_errors", this.#errors.get(kind) ?? 0, kind)),
      ...MANY_OF.map((kind) => series("sallyport_scrape_skipped_objects", this.#skipped.get(kind) ?? 0, kind)),
    ];
  }
}

const ONE_OF = ["AccessControl", "EventLog", "ClusterRegistry", "SyncControl", "IdentityIssuer", "Metrics"];
const MANY_OF = ["KvStore", "CredentialEngine", "SyncDestination", "EventRelay"];

/** @param own how the object is that asks, which cannot ask itself */
export async function gather(env: Env, own: HealthStats): Promise<Series[]> {
  const began = Date.now();
  const round = new Round();
  const one = (kind: string, name: string, vitals: () => Promise<HealthStats>): Asked => ({ kind, name, vitals });
  const singles = [
    one("AccessControl", "main", () => accessControl(env).vitals()),
    one("EventLog", "log", () => eventLog(env).vitals()),
    one("ClusterRegistry", "main", () => clusterRegistry(env).vitals()),
    one("SyncControl", "main", () => syncControl(env).vitals()),
    one("IdentityIssuer", "main", () => identityIssuer(env).vitals()),
    one("Metrics", "main", async () => own),
  ];
  const many = await Promise.all([mountsOf(env, round), destinationsOf(env, round), relaysOf(env, round)]);
  await askAll([...singles, ...many.flat()], round);
  return [
    series("sallyport_build_info", 1, VERSION),
    ...round.series,
    ...round.sums(),
    series("sallyport_scrape_duration_seconds", Math.max(0, Date.now() - began) / 1000),
  ];
}

async function mountsOf(env: Env, round: Round): Promise<Asked[]> {
  try {
    const mounts = await within(DEADLINE_MS, accessControl(env).everyMount(MOST_MOUNTS));
    round.skipped("KvStore", mounts.kv.total - mounts.kv.some.length);
    round.skipped("CredentialEngine", mounts["cloud-b"].total - mounts["cloud-b"].some.length);
    return [
      ...mounts.kv.some.map(({ name, uuid }) => ({ kind: "KvStore", name, vitals: () => kvStore(env, uuid).vitals() })),
      ...mounts["cloud-b"].some.map(({ name, uuid }) => ({
        ...{ kind: "CredentialEngine", name, whose: name },
        vitals: () => credentialEngine(env, uuid).vitals(),
      })),
    ];
  } catch (failure) {
    for (const kind of ["KvStore", "CredentialEngine"]) round.failed(kind, failure);
    return [];
  }
}

async function destinationsOf(env: Env, round: Round): Promise<Asked[]> {
  try {
    const listed = await within(DEADLINE_MS, someDestinations(env.LISTINGS, MOST_DESTINATIONS));
    round.skipped("SyncDestination", listed.total - listed.some.length);
    return listed.some.map(destinationName).map((name) => ({
      ...{ kind: "SyncDestination", name, whose: name },
      vitals: () => syncDestination(env, name).vitals(),
    }));
  } catch (failure) {
    round.failed("SyncDestination", failure);
    return [];
  }
}

/** Those that follow the log: they are awake, and where they belong. */
async function relaysOf(env: Env, round: Round): Promise<Asked[]> {
  try {
    const names = await within(DEADLINE_MS, eventLog(env).relays());
    round.skipped("EventRelay", names.length - MOST_RELAYS);
    return names.slice(0, MOST_RELAYS).map((name) => ({
      ...{ kind: "EventRelay", name },
      vitals: () => eventRelay(env, name).vitals(),
    }));
  } catch (failure) {
    round.failed("EventRelay", failure);
    return [];
  }
}

async function askAll(asked: readonly Asked[], round: Round): Promise<void> {
  const left = asked.values();
  const worker = async () => {
    for (const { kind, name, vitals, whose } of left) {
      try {
        round.series.push(...measured(kind, name, await within(DEADLINE_MS, vitals()), whose));
      } catch (failure) {
        round.failed(kind, failure);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
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
