import type { NodePage } from "../../contracts/node.ts";
import type { ConditionName, NotificationRule } from "../../contracts/notification-rule.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { within } from "../../lib/timeout.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import type { MetricName } from "../../platform/observability/metrics/catalogue.ts";
import type { Series } from "../../platform/observability/metrics/series.ts";
import { destinationKeyOf } from "../../rpc/destination-name.ts";
import { accessControl, clusterRegistry, kvStore } from "../../rpc/stubs.ts";
import type { Seen } from "./judge.ts";

/*
 * The conditions of notification rules: where each is seen. A scrape of the metrics is the source of most, shared by all
 * rules of a round; names that metrics do not have are read from their object, only while the metric says there are any.
 */

/** One round: a scrape, and the objects behind it. */
export interface Round {
  readonly env: Env;
  readonly series: readonly Series[];
}

/** Values that a rule may set for its condition, with their defaults. */
interface Limits {
  readonly withinSeconds?: number;
  readonly percent?: number;
}

interface Condition {
  readonly limits: Limits;
  readonly seen: (round: Round, rule: Pick<NotificationRule, "withinSeconds" | "percent">) => Seen | Promise<Seen>;
}

const PAGE = 500;
const DAY_MS = 86_400_000;
const MAX_MOUNTS = 100;
const MAX_SECRETS = 1_000;
const MAX_CONCURRENT = 6;
/** Time limit of one secrets engine. */
const MOUNT_MS = 5_000;
/** Nodes that are read to find those which are down. */
const MAX_NODES = 10_000;

const amountOf = ({ value }: Series): number => (typeof value === "number" ? value : value.sum);

const ofName = ({ series }: Round, name: MetricName): readonly Series[] => series.filter((each) => each.name === name);

const sumOf = (round: Round, name: MetricName): number =>
  ofName(round, name).reduce((total, each) => total + amountOf(each), 0);

/** Whether all objects of a class were asked, and have answered. Without it, missing subjects are no news. */
const hasAnswered = (round: Round, kind: string): boolean =>
  ofName(round, "sallyport_scrape_errors").some((each) => each.labels[0] === kind && amountOf(each) === 0) &&
  ofName(round, "sallyport_scrape_skipped_objects").every(({ labels, value }) => labels[0] !== kind || value === 0);

/** Whether an object of a class has not answered. */
const hasFailures = (round: Round, kind: string): boolean =>
  ofName(round, "sallyport_scrape_errors").some(({ labels, value }) => labels[0] === kind && value !== 0);

/** Whether the object of a class with the name of a subject has answered. */
function answering(round: Round, kind: string): (subject: string) => boolean {
  const sizes = ofName(round, "sallyport_object_size_bytes").filter(({ labels }) => labels[0] === kind);
  const names = new Set(sizes.map(({ labels }) => labels[1]));
  return (subject) => names.has(subject);
}

/** The order in which destinations are listed. */
function orderOf(destination: string): string {
  const { namespace, type, name } = destinationKeyOf(destination);
  return [namespace, type, name].join("\0");
}

/** As `answering`, of destinations: the first ones are asked, so that one before the last of them is gone. */
function destinationAnswering(round: Round): (subject: string) => boolean {
  const kind = "SyncDestination";
  const asked = ofName(round, "sallyport_object_size_bytes").filter(({ labels }) => labels[0] === kind);
  const last =
    asked
      .map(({ labels }) => orderOf(labels[1] ?? ""))
      .sort()
      .at(-1) ?? "";
  const isFailing = hasFailures(round, kind);
  const hasAnswer = answering(round, kind);
  return (subject) => hasAnswer(subject) || (!isFailing && orderOf(subject) < last);
}

/** As `answering`, of engines: the first ones of each type are asked, so that one before the last of them is gone. */
async function engineAnswering(round: Round): Promise<(subject: string) => boolean> {
  const kind = "CredentialEngine";
  const hasAnswer = answering(round, kind);
  if (hasAnswered(round, kind) || hasFailures(round, kind)) return hasAnswer;
  const { kv: _, ...engines } = await accessControl(round.env).everyMount(MAX_MOUNTS);
  const isGone = (subject: string) =>
    Object.values(engines).every(
      ({ total, some }) =>
        !some.some(({ name }) => name === subject) && (total <= some.length || subject < (some.at(-1)?.name ?? "")),
    );
  return (subject) => hasAnswer(subject) || isGone(subject);
}

/** The amount of each subject, which is the first label of its series; none for 0. */
const amounts = (some: readonly Series[], unit: string): Seen["subjects"] =>
  new Map(some.filter(({ value }) => value !== 0).map(({ labels, value }) => [labels[0] ?? "", `${value} ${unit}`]));

/** One subject, or none. */
const one = (subject: string, holds: boolean, detail: string): Seen["subjects"] =>
  new Map(holds ? [[subject, detail]] : []);

const hours = (seconds: number): string => `${Math.floor(seconds / 3_600)} h`;

const FAILING: ReadonlySet<string> = new Set([
  "CLIENT_SIDE_ERROR",
  "INTERNAL_ERROR",
  "EXTERNAL_SERVICE_ERROR",
  "UNKNOWN",
]);

function failingDestinations(round: Round): Seen {
  const details = new Map<string, string[]>();
  for (const { labels, value } of ofName(round, "sallyport_sync_associations")) {
    const [destination = "", status = ""] = labels;
    if (!FAILING.has(status) || value === 0) continue;
    details.set(destination, [...(details.get(destination) ?? []), `${value} ${status}`]);
  }
  const subjects = new Map([...details].map(([destination, parts]) => [destination, parts.join(", ")]));
  return {
    subjects,
    isWhole: hasAnswered(round, "SyncDestination"),
    lookedAt: destinationAnswering(round),
  };
}

async function nodesDown(round: Round): Promise<Seen> {
  const isWhole = hasAnswered(round, "ClusterRegistry");
  const down = ofName(round, "sallyport_nodes").some(({ labels, value }) => labels[0] === "down" && value !== 0);
  const subjects = new Map<string, string>();
  /** Nodes that were read and are not down. */
  const up = new Set<string>();
  let from: string | null = down ? "" : null;
  for (let read = 0; from !== null && read < MAX_NODES; read += PAGE) {
    const page: NodePage = await clusterRegistry(round.env).nodes({ from, limit: PAGE });
    for (const { id, body } of page.rows) {
      const { Status, Name } = JSON.parse(body) as { readonly Status: string; readonly Name: string };
      const subject = Name === "" ? id : `${Name} (${id.slice(0, 8)})`;
      if (Status === "down") subjects.set(subject, "");
      else up.add(subject);
    }
    from = page.next;
  }
  return { subjects, isWhole: isWhole && from === null, lookedAt: (subject) => up.has(subject) };
}

/** Before an end, the default of `within`. */
const WARNED_S = 14 * 86_400;

/** `ends in 3 d`, or `ended`, by whole days, so that the text seldom changes. */
function endText(ms: number): string {
  if (ms <= 0) return "ended";
  return ms < DAY_MS ? "ends within a day" : `ends in ${Math.floor(ms / DAY_MS)} d`;
}

/** Secrets by their custom metadata; an expired one counts until that is changed, or the secret is deleted. */
async function secretsExpiring({ env }: Round, withinSeconds: number): Promise<Seen> {
  const { total, some } = (await accessControl(env).everyMount(MAX_MOUNTS))["kv"] ?? { total: 0, some: [] };
  const now = Date.now();
  const subjects = new Map<string, string>();
  /** Mounts of which all such secrets were read. */
  const whole: string[] = [];
  await mapLimit(some, MAX_CONCURRENT, async ({ name, uuid }) => {
    const asked = kvStore(env, uuid).expiring(now + withinSeconds * 1000, MAX_SECRETS);
    // An engine that does not answer hides no other.
    const found = await within(MOUNT_MS, asked).catch((failure: unknown) => {
      warn("secrets-not-looked-at", { mount: name, because: textOf(failure) });
      return { secrets: [], isWhole: false };
    });
    if (found.isWhole) whole.push(name);
    for (const { path, at } of found.secrets) {
      subjects.set(name + path, `${endText(at - now)} (${new Date(at).toISOString()})`);
    }
  });
  const last = some.at(-1)?.name ?? "";
  // The first mounts by name are read, so that another one before the last of them is gone.
  const isGone = (subject: string) => subject < last && !some.some(({ name }) => subject.startsWith(name));
  const lookedAt = (subject: string) => whole.some((mount) => subject.startsWith(mount)) || isGone(subject);
  return { subjects, isWhole: whole.length === total, lookedAt };
}

/** Subjects whose end, a gauge of seconds by object of a class, is near or past. */
const ending =
  (gauge: MetricName, kind: string, ...listed: readonly string[]): Condition["seen"] =>
  async (round, { withinSeconds }) => {
    const near = ofName(round, gauge).filter((each) => amountOf(each) <= (withinSeconds ?? WARNED_S));
    const subjects = new Map(near.map((each) => [each.labels[0] ?? "", endText(amountOf(each) * 1000)]));
    const isWhole = [kind, ...listed].every((each) => hasAnswered(round, each));
    const lookedAt = kind === "SyncDestination" ? destinationAnswering(round) : await engineAnswering(round);
    return { subjects, isWhole, lookedAt };
  };

/** The limits of each condition, and its subjects in a round. */
export const conditions: Readonly<Record<ConditionName, Condition>> = {
  "sync-failing": { limits: {}, seen: failingDestinations },
  "sync-paused": {
    limits: {},
    seen: (round) => ({
      subjects: one("sync", sumOf(round, "sallyport_sync_paused") > 0, "no destination gets changes"),
      isWhole: hasAnswered(round, "SyncControl"),
    }),
  },
  "sync-queue-full": {
    limits: { percent: 90 },
    seen: (round, { percent }) => {
      const capacity = sumOf(round, "sallyport_sync_queue_capacity");
      const pending = sumOf(round, "sallyport_sync_pending");
      const share = capacity > 0 ? (pending / capacity) * 100 : 0;
      const detail = `${pending} of ${capacity} operations wait`;
      const isWhole = hasAnswered(round, "SyncControl") && hasAnswered(round, "SyncDestination");
      return { subjects: one("queue", share >= (percent ?? 90), detail), isWhole };
    },
  },
  "lease-irrevocable": {
    limits: {},
    seen: async (round) => {
      const stuck = ofName(round, "sallyport_leases").filter(({ labels }) => labels[1] === "irrevocable");
      const isWhole = hasAnswered(round, "CredentialEngine") && hasAnswered(round, "AccessControl");
      return { subjects: amounts(stuck, "leases"), isWhole, lookedAt: await engineAnswering(round) };
    },
  },
  "secret-expires": {
    limits: { withinSeconds: WARNED_S },
    seen: (round, { withinSeconds }) => secretsExpiring(round, withinSeconds ?? WARNED_S),
  },
  "root-secret-ends": {
    limits: { withinSeconds: WARNED_S },
    seen: ending("sallyport_engine_root_ends_seconds", "CredentialEngine", "AccessControl"),
  },
  "destination-key-ends": {
    limits: { withinSeconds: WARNED_S },
    seen: ending("sallyport_sync_credentials_end_seconds", "SyncDestination"),
  },
  "node-down": { limits: {}, seen: nodesDown },
  "agent-away": {
    limits: {},
    seen: (round) => {
      const away = ofName(round, "sallyport_agents").filter(({ labels }) => labels[0] === "away");
      const count = away.reduce((total, each) => total + amountOf(each), 0);
      return { subjects: one("agents", count > 0, `${count} away`), isWhole: hasAnswered(round, "ClusterRegistry") };
    },
  },
  "backup-missing": {
    limits: { withinSeconds: 86_400 },
    seen: (round, { withinSeconds }) => {
      const age = ofName(round, "sallyport_snapshot_read_age_seconds")[0];
      // A bucket that could not be listed counts as late, too; the age tells if that lasts.
      const isListed = ofName(round, "sallyport_snapshots_stored").length > 0;
      const isLate = sumOf(round, "sallyport_snapshot_late") > 0;
      const isOld = age === undefined || amountOf(age) > (withinSeconds ?? 86_400);
      const detail = age === undefined ? "no snapshot was taken" : `the last snapshot is ${hours(amountOf(age))} old`;
      const known = hasAnswered(round, "AccessControl");
      // Without an answer of its object the age is missing, too.
      const holds = known && (isOld || (isLate && isListed));
      return { subjects: one("snapshot", holds, detail), isWhole: known && (isListed || !isLate) };
    },
  },
  "delivery-failing": {
    limits: {},
    seen: (round) => {
      const subjects = amounts(ofName(round, "sallyport_event_dead_letters"), "dead letters");
      const kind = "EventSubscription";
      return { subjects, isWhole: hasAnswered(round, kind), lookedAt: answering(round, kind) };
    },
  },
};
