import { describe, expect, it } from "vitest";
import { memoryEngine } from "../../../test/memory-engine.ts";
import { changeConfig, type EngineConfig } from "../engines/azure/config.ts";
import type { ConfigStore } from "./config-store.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** A Monday, 00:00 UTC. */
const MIDNIGHT = Date.UTC(2026, 0, 5);

const stored = (config: ConfigStore) => config.find() as EngineConfig | null;

/** A configuration with the secret of a rotation. */
const promoted = (client_secret: string, key_ends: number) => (config: object) =>
  ({ ...config, client_secret, key_id: "key", key_ends }) as EngineConfig;

/** A store whose configuration was written at `now`. */
function configured(changes: Partial<EngineConfig>, now = MIDNIGHT) {
  const { config } = memoryEngine();
  const before = stored(config);
  if (!before) throw new Error("no configuration");
  config.put({ ...before, ...changes }, now);
  return config;
}

describe("the next rotation", () => {
  it("follows one period after a rotation", () => {
    const config = configured({ rotation_period: 3_600 });
    expect(config.rotationDue()).toBe(MIDNIGHT + HOUR_MS);
    config.promote(promoted("secret", MIDNIGHT + 24 * HOUR_MS), MIDNIGHT + 10 * HOUR_MS);
    expect(config.rotationDue()).toBe(MIDNIGHT + 11 * HOUR_MS);
  });

  it("stays when something other than the schedule is written", () => {
    const config = configured({ rotation_period: 3_600 });
    const before = stored(config);
    if (before) config.put({ ...before, subscription_id: "another" } as EngineConfig, MIDNIGHT + MINUTE_MS);
    expect(config.rotationDue()).toBe(MIDNIGHT + HOUR_MS);
  });

  it("follows a failure after a minute, then after twice as long each time, until a rotation succeeds", () => {
    const config = configured({ rotation_period: 24 * 3_600 });
    const delay = () => {
      const due = config.rotationDue() ?? 0;
      config.rotationFailed(due);
      return (config.rotationDue() ?? 0) - due;
    };
    for (const ceiling of [1, 2, 4, 8, 16]) {
      const ms = delay();
      expect(ms, `at most ${ceiling} minutes`).toBeLessThanOrEqual(ceiling * MINUTE_MS);
      expect(ms, `at least half of ${ceiling} minutes`).toBeGreaterThanOrEqual((ceiling * MINUTE_MS) / 2);
    }
    config.promote(promoted("secret", MIDNIGHT + 24 * HOUR_MS), MIDNIGHT);
    expect(delay()).toBeLessThanOrEqual(MINUTE_MS);
  });
});

describe("a retry of a failed rotation with a window of an hour from midnight", () => {
  const daily = { rotation_schedule: "0 0 * * *", rotation_window: 3_600 };
  const tomorrow = MIDNIGHT + 24 * HOUR_MS;
  const dueAfterFailureAt = (now: number) => {
    const config = configured(daily, MIDNIGHT - HOUR_MS);
    config.rotationFailed(now);
    return config.rotationDue();
  };

  it("is within the open window", () => {
    const due = dueAfterFailureAt(MIDNIGHT + 10 * MINUTE_MS) ?? 0;
    expect(due).toBeGreaterThan(MIDNIGHT + 10 * MINUTE_MS);
    expect(due).toBeLessThanOrEqual(MIDNIGHT + 11 * MINUTE_MS);
  });

  it("waits for the next window when it would come after the end of this one", () => {
    expect(dueAfterFailureAt(MIDNIGHT + HOUR_MS - 10_000)).toBe(tomorrow);
  });

  it("waits for the next window when none is open", () => {
    expect(dueAfterFailureAt(MIDNIGHT + 5 * HOUR_MS)).toBe(tomorrow);
  });
});

describe("a rotation with a window of an hour from midnight", () => {
  it.each([
    ["begins within it", 59 * MINUTE_MS, true],
    ["waits for the next one after it", HOUR_MS, false],
    ["waits for the next one after an outage", 57 * HOUR_MS, false],
  ])("%s", (_name, late, begins) => {
    const engine = memoryEngine();
    const before = stored(engine.config);
    const schedule = { rotation_schedule: "0 0 * * SUN", rotation_window: 3_600 };
    engine.config.put({ ...before, ...schedule } as EngineConfig, MIDNIGHT);
    const due = engine.config.rotationDue() ?? 0;
    expect(engine.root.rotateIfDue(due + late)).toBe(begins);
    expect(engine.jobs.count("rotation")).toBe(begins ? 1 : 0);
    if (!begins) expect(engine.config.rotationDue()).toBe(due + 7 * 24 * HOUR_MS);
  });
});

describe("a rotation that was asked for before it is due", () => {
  const period = { rotation_period: 90 * 24 * 3_600 };

  /** Starts a rotation of an engine whose next one is due in 90 days. */
  function rotating() {
    const engine = memoryEngine();
    const now = Date.now();
    engine.config.put({ ...stored(engine.config), ...period } as EngineConfig, now);
    const due = engine.config.rotationDue();
    expect(engine.root.rotate().ok).toBe(true);
    expect(engine.config.rotationDue()).toBeLessThan(now + 2 * HOUR_MS);
    return { engine, now, due };
  }

  it("leaves the schedule as it was when it fails", () => {
    const { engine, now, due } = rotating();
    engine.outcomes.rotationFailed("refused", now + MINUTE_MS);
    expect(engine.config.rotationDue()).toBe(due);
  });

  it("leaves the schedule as it was when another secret is written", () => {
    const { engine, due } = rotating();
    expect(engine.root.configure({ client_secret: "other" }, "neutral", null).ok).toBe(true);
    expect(engine.config.rotationDue()).toBe(due);
  });

  it("leaves a schedule that is written meanwhile", () => {
    const { engine, now } = rotating();
    expect(engine.root.configure({ rotation_period: 30 * 24 * 3_600 }, "neutral", null).ok).toBe(true);
    const due = engine.config.rotationDue();
    engine.outcomes.rotationFailed("refused", now + MINUTE_MS);
    expect(engine.config.rotationDue()).toBe(due);
  });

  it("moves it when it succeeds", () => {
    const { engine, now } = rotating();
    engine.config.promote(promoted("secret", now), now + HOUR_MS);
    expect(engine.config.rotationDue()).toBe(now + HOUR_MS + period.rotation_period * 1_000);
    engine.config.rotationStopped();
    expect(engine.config.rotationDue()).toBe(now + HOUR_MS + period.rotation_period * 1_000);
  });
});

describe("the id of the root secret", () => {
  it("is deleted when another secret or client is written", () => {
    const { config } = memoryEngine();
    config.promote(promoted("made", 9), 0);
    const before = stored(config);
    for (const [body, keyId] of [
      [{ client_secret: "other" }, null],
      [{ client_id: "other" }, null],
      [{ subscription_id: crypto.randomUUID() }, "key"],
    ] as const) {
      expect(changeConfig(before, body, {}, true, null), JSON.stringify(body)).toMatchObject({
        value: { key_id: keyId },
      });
    }
  });
});
