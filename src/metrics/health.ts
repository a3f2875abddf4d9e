import { isDiskFull } from "../http/disk.ts";
import { textOf, warn } from "../log.ts";
import type { AccessControl } from "../objects/access-control.ts";
import { accessControl, clusterRegistry, eventLog, type Remote, syncControl } from "../objects/stubs.ts";
import { within } from "../within.ts";
import type { Vitals } from "./vitals.ts";

/** Which parts of the service can be reached, and what they say of themselves. */
export interface Health {
  /** What `AccessControl` says; null when it cannot be reached, and then nothing works. */
  readonly access: Awaited<ReturnType<Remote<AccessControl>["status"]>> | null;
  readonly parts: Readonly<Record<Part, Condition>>;
  /** Effects that are promised and not delivered yet, in the parts that were reached. */
  readonly outbox: { readonly rows: number; readonly oldestMs: number };
  /** Writes fail; reads go on. */
  readonly isDiskFull: boolean;
  /** Null when it cannot be read. */
  readonly agents: { readonly connected: number; readonly known: number } | null;
}

export const PARTS = ["access_control", "event_log", "cluster_registry", "sync_control", "listings", "outbox"] as const;
export type Part = (typeof PARTS)[number];

/** `behind`: what was promised long ago has not been delivered. */
export type Condition = "ok" | "unreachable" | "behind";

/** Whoever asks more often gets the same again, so that asking cannot load the service: this is open to everybody. */
const REUSE_MS = 1_000;
const DEADLINE_MS = 2_000;
/** A look that takes longer died with its request, without a word. */
const GONE_MS = 2 * DEADLINE_MS;
const LOOK_AGAIN_MS = 20;
/** Deliveries are tried again within seconds; this long means that somebody cannot be reached. */
const BEHIND_MS = 60_000;

let last: { readonly at: number; readonly health: Health } | null = null;
let lookingSince = 0;

/** What was seen is not known any more: the deployment is another one. */
export const forgetHealth = (): void => {
  last = null;
};

/** What `AccessControl` says of the deployment; null when it does not, within its time. */
export const accessStatus = (env: Env): Promise<Health["access"]> =>
  reached("access_control", () => accessControl(env).status());

/** How the service is, up to a second ago. One request of an isolate looks at a time, the others wait for what it sees. */
export async function health(env: Env): Promise<Health> {
  for (;;) {
    const now = Date.now();
    if (last && Math.abs(now - last.at) < REUSE_MS) return last.health;
    if (Math.abs(now - lookingSince) >= GONE_MS) break;
    await scheduler.wait(LOOK_AGAIN_MS);
  }
  lookingSince = Date.now();
  try {
    const seen = await look(env);
    last = { at: Date.now(), health: seen };
    return seen;
  } finally {
    lookingSince = 0;
  }
}

async function look(env: Env): Promise<Health> {
  const asked = {
    access_control: () => accessControl(env).vitals(),
    event_log: () => eventLog(env).vitals(),
    cluster_registry: () => clusterRegistry(env).vitals(),
    sync_control: () => syncControl(env).vitals(),
  };
  const [isFull, access, listings, ...vitals] = await Promise.all([
    isDiskFull(env),
    accessStatus(env),
    reached("listings", () => env.LISTINGS.prepare("SELECT 1 FROM destinations LIMIT 1").all()),
    ...Object.entries(asked).map(([part, ask]) => reached(part, ask)),
  ]);
  const [accessVitals, log, registry, control] = vitals;
  const outbox = outboxOf(vitals);
  const condition = (answer: unknown): Condition => (answer ? "ok" : "unreachable");
  return {
    access,
    parts: {
      access_control: condition(access && accessVitals),
      event_log: condition(log),
      cluster_registry: condition(registry),
      sync_control: condition(control),
      listings: condition(listings),
      outbox: outbox.oldestMs > BEHIND_MS ? "behind" : "ok",
    },
    outbox,
    isDiskFull: isFull,
    agents: registry ? agentsIn(registry) : null,
  };
}

/** What a part answers; null when it does not, within its time. */
export async function reached<T>(part: string, ask: () => Promise<T>): Promise<T | null> {
  try {
    return await within(DEADLINE_MS, ask());
  } catch (failure) {
    warn("part-unreachable", { part, because: textOf(failure) });
    return null;
  }
}

function outboxOf(vitals: readonly (Vitals | null | undefined)[]): Health["outbox"] {
  const states = vitals.flatMap((each) => (each ? [each.outbox] : []));
  return {
    rows: states.reduce((sum, { rows }) => sum + rows, 0),
    oldestMs: Math.max(0, ...states.map(({ oldestMs }) => oldestMs)),
  };
}

function agentsIn({ series }: Vitals): Health["agents"] {
  const agents = series.filter(({ name }) => name === "sallyport_agents");
  const number = (state: string) => Number(agents.find(({ labels }) => labels[0] === state)?.value ?? 0);
  return { connected: number("connected"), known: number("connected") + number("away") };
}
