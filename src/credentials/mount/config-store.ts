import { backoff } from "../../lib/backoff.ts";
import { ok, type Refusal, refuse } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { Memo } from "../../platform/durable/memo.ts";
import { type Series, series } from "../../platform/observability/metrics/series.ts";
import type { EngineStates } from "../engines/engine-type.ts";
import { isMoved, nextRotation } from "./rotation-schedule.ts";

type EngineConfig = EngineStates["config"];

/** The time of the next rotation before the one in progress began. */
const PLANNED = "rotation_planned";

/** Back-off of a failed rotation: one minute at first, one hour at most. */
const RETRY = { base: 60_000, cap: 3_600_000 };

/** The window of the last scheduled time, in ms: open from `began` on, which is in the future when it has passed. */
function windowOf(config: EngineConfig, now: number): { readonly began: number; readonly window: number } {
  const window = config.rotation_window * 1000;
  return { began: window > 0 ? (nextRotation(config, now - window) ?? now) : now, window };
}

/**
 * The sealed configuration of one engine and the time of its next rotation. Read by every commit of the object, from
 * memory. Writes run inside the object's transaction.
 */
export class ConfigStore {
  readonly #state: DeploymentState;
  readonly #context: string;
  readonly #config: Memo<EngineConfig | null>;
  /** Values that every commit reads. */
  readonly #cached: Memo<{
    readonly rotationDue: string | null;
    readonly closingUntil: number;
    readonly gone: boolean;
  }>;

  constructor(
    private readonly sql: SqlStorage,
    private readonly keys: DataKeys,
    scope: string,
  ) {
    this.#state = new DeploymentState(sql);
    this.#context = `${scope} config`;
    this.#config = new Memo(() => {
      const [row] = sql.exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM config").toArray();
      return row ? (JSON.parse(keys.openText(row.sealed, this.#context)) as EngineConfig) : null;
    });
    this.#cached = new Memo(() => ({
      rotationDue: this.#state.get("rotation_due"),
      closingUntil: Number(this.#state.get("closing_until") ?? 0),
      gone: this.#state.get("gone") !== null,
    }));
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    this.#config.forget();
    this.#cached.forget();
  }

  /** @throws Sealed */
  find(): EngineConfig | null {
    return this.#config.get();
  }

  /** The end of the root credential; none while sealed, and where its provider states no end. */
  measured(now: number): Series[] {
    const config = refuseIfSealed(() => ok(this.find()));
    const ends = config.ok && config.value && "key_ends" in config.value ? config.value.key_ends : null;
    return typeof ends === "number" ? [series("sallyport_engine_root_ends_seconds", (ends - now) / 1000)] : [];
  }

  put(config: EngineConfig, now: number): void {
    const before = this.find();
    this.#store(config);
    // Only a change of the schedule moves the next rotation.
    if (!before || isMoved(before, config)) this.#schedule(nextRotation(config, now));
  }

  /** Whether a move of the mount is later than the recorded one. */
  isNewMove(seq: number): boolean {
    return seq > Number(this.#state.get("moved") ?? 0);
  }

  recordMove(seq: number): void {
    this.#state.set("moved", String(seq));
  }

  delete(): void {
    this.sql.exec("DELETE FROM config");
    this.#config.forget();
    this.#schedule(null);
  }

  /** Stores the new secret of a finished rotation, which `promoted` puts into the configuration. */
  promote(promoted: (config: EngineConfig) => EngineConfig, now: number): void {
    const config = this.find();
    this.#state.set("rotation_failures", "0");
    if (!config) return;
    this.#store(promoted(config));
    this.#schedule(nextRotation(config, now));
  }

  /** Time of the next rotation, ms since 1970; null without a schedule. */
  rotationDue(): number | null {
    const due = this.#cached.get().rotationDue;
    return due ? Number(due) : null;
  }

  /** Schedules a retry, in case the Worker that performs this rotation never reports. */
  rotationStarted(now: number): void {
    const due = this.rotationDue();
    if (due === null) return;
    this.#schedule(now + RETRY.cap);
    this.#state.set(PLANNED, String(due));
  }

  /** Restores the time that was scheduled before a rotation that was given up. */
  rotationStopped(): void {
    const planned = this.#planned();
    if (planned !== null) this.#schedule(planned);
  }

  /** Whether a rotation that is due would begin outside of its window, as after an outage. */
  isOutsideWindow(now: number): boolean {
    const config = this.find();
    return config !== null && config.rotation_window > 0 && windowOf(config, now).began > now;
  }

  /** Schedules the next rotation in place of one whose window was missed. */
  skipRotation(now: number): void {
    const config = this.find();
    this.#schedule(config && nextRotation(config, now));
  }

  /**
   * Schedules a retry; outside the rotation window, it waits for the next scheduled time. A rotation that was asked for
   * before it was due leaves the schedule as it was.
   */
  rotationFailed(now: number): void {
    const config = this.find();
    const due = config && nextRotation(config, now);
    if (!config || due === null) {
      this.#schedule(null);
      return;
    }
    const before = this.#planned() ?? this.rotationDue();
    if (before !== null && before > now) {
      this.#schedule(before);
      return;
    }
    const failures = Number(this.#state.get("rotation_failures") ?? 0);
    this.#state.set("rotation_failures", String(failures + 1));
    const retry = now + backoff(failures, RETRY);
    const { began, window } = windowOf(config, now);
    this.#schedule(window > 0 && (began > now || retry > began + window) ? due : retry);
  }

  /** The time that was scheduled before the rotation in progress; null without one, or when the schedule was changed. */
  #planned(): number | null {
    const planned = this.#state.get(PLANNED);
    return planned ? Number(planned) : null;
  }

  #store(config: EngineConfig): void {
    this.sql.exec(
      "INSERT INTO config VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed",
      this.keys.seal(JSON.stringify(config), this.#context),
    );
    this.#config.forget();
  }

  /** The refusal of new work while the mount is being disabled or after its deletion; null otherwise. */
  refusesNew(now: number): Refusal | null {
    if (this.isDeleted()) return refuse("missing");
    return this.#isClosing(now) ? refuse("unavailable", "the mount is being disabled") : null;
  }

  closeUntil(until: number): void {
    this.#set("closing_until", String(until));
  }

  /** Whether the mount is deleted. */
  isDeleted(): boolean {
    return this.#cached.get().gone;
  }

  markDeleted(): void {
    this.#set("gone", "1");
  }

  /** Whether the mount is being disabled. */
  #isClosing(now: number): boolean {
    return this.#cached.get().closingUntil > now;
  }

  #schedule(due: number | null): void {
    this.#set("rotation_due", due === null ? "" : String(due));
    if (this.#planned() !== null) this.#state.set(PLANNED, "");
  }

  #set(name: string, value: string): void {
    this.#state.set(name, value);
    this.#cached.forget();
  }
}
