import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ShiftedClock, SKIPPED_WAIT_MS, skipWaits } from "./clock.ts";
import { checkInRounds, workersRest } from "./running-workers.ts";

/** The objects that a test's alarms are run of, besides those that there is one of. */
export interface Alarmed {
  /** Ids of mounts. */
  readonly mounts: readonly string[];
  /** `type/name` of destinations. */
  readonly destinations: readonly string[];
}

/** How far the clock has been moved; files that use this set `clock.moves`. */
export class PassingTime {
  readonly #alarmed: Alarmed;
  readonly #clock = new ShiftedClock();

  constructor(alarmed: Alarmed) {
    this.#alarmed = alarmed;
  }

  /** Lets time pass, and the alarms that come due in it run. */
  async pass(ms: number): Promise<void> {
    this.#clock.advance(ms);
    const { mounts, destinations } = this.#alarmed;
    for (const object of [
      env.ACCESS_CONTROL.getByName("main"),
      env.EVENT_LOG.getByName("log"),
      env.SYNC_CONTROL.getByName("main"),
      ...mounts.map((uuid) => env.KV_STORE.getByName(uuid)),
      ...destinations.map((name) => env.SYNC_DESTINATION.getByName(name)),
    ] as DurableObjectStub[]) {
      // One that a test kills meanwhile has its alarm again.
      await runDurableObjectAlarm(object).catch(() => false);
    }
    await workersRest();
  }

  /** Has the waits of Workers pass at once, until the returned function is called. */
  skipWaits(): () => void {
    return skipWaits({ clock: this.#clock, from: SKIPPED_WAIT_MS });
  }

  /** How far the clock has been moved, in ms; the time that a test takes is not part of it. */
  get passed(): number {
    return this.#clock.ahead;
  }

  end(): void {
    this.#clock.end();
  }
}

/**
 * Advances the clock for all objects and runs the alarms of one, until `check` holds, without any request.
 * @param quiet rounds before the clock moves: work that is due already needs none
 */
export async function alarmsUntil(
  object: () => DurableObjectStub,
  check: () => Promise<void>,
  { rounds = 30, quiet = 0, step = 10_000 } = {},
): Promise<void> {
  const clock = new ShiftedClock();
  try {
    await checkInRounds(rounds, check, async (round) => {
      if (round > quiet) clock.advance(step);
      // One that a test kills meanwhile has its alarm again.
      await runDurableObjectAlarm(object()).catch(() => false);
    });
  } finally {
    clock.end();
  }
}

/** Providers refuse signatures of a clock that is further ahead: 5 minutes at AWS and Google, 1 at GitHub. */
const MAX_MS = 240_000;

/**
 * Advances the clock for all objects, leases, back-offs and waits of Workers included, until `check` holds, without any
 * request.
 * @param most how far the clock may be ahead of the providers' in the end, in ms
 * @param skips whether waits of Workers pass at once
 */
export async function byItself(
  alarmed: Alarmed,
  check: () => Promise<void>,
  { step = 10_000, rounds = 60, most = MAX_MS, skips = true } = {},
): Promise<void> {
  const time = new PassingTime(alarmed);
  const goOn = skips ? time.skipWaits() : () => undefined;
  try {
    await checkInRounds(rounds, check, (round) =>
      time.pass(round > 3 ? Math.max(0, Math.min(step, most - time.passed)) : 0),
    );
  } finally {
    goOn();
    time.end();
  }
}
