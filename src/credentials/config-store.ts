import { backoff } from "../lib/backoff.ts";
import { type Refusal, refuse } from "../lib/result.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { DeploymentState } from "../platform/durable/deployment-state.ts";
import { Memo } from "../platform/durable/memo.ts";
import { type EngineConfig, nextRotation } from "./config.ts";

const ROTATION = ["rotation_schedule", "rotation_window", "rotation_period", "disable_automated_rotation"] as const;
/** A rotation that failed is tried again after a minute at first, and after an hour at most. */
const RETRY = { base: 60_000, cap: 3_600_000 };

/** The configuration of one engine, sealed, and when its secret is to be rotated next. Writes run inside the object's transaction. */
export class ConfigStore {
  readonly #sql: SqlStorage;
  readonly #keys: DataKeys;
  readonly #facts: DeploymentState;
  readonly #context: string;
  readonly #config: Memo<EngineConfig | null>;
  /** What every commit asks for. */
  readonly #state: Memo<{ readonly rotationDue: string | null; readonly closingUntil: number; readonly gone: boolean }>;

  constructor(sql: SqlStorage, keys: DataKeys, scope: string) {
    this.#sql = sql;
    this.#keys = keys;
    this.#facts = new DeploymentState(sql);
    this.#context = `${scope} config`;
    this.#config = new Memo(() => {
      const [row] = sql.exec<{ sealed: ArrayBuffer }>("SELECT sealed FROM config").toArray();
      return row ? (JSON.parse(keys.openText(row.sealed, this.#context)) as EngineConfig) : null;
    });
    this.#state = new Memo(() => ({
      rotationDue: this.#facts.get("rotation_due"),
      closingUntil: Number(this.#facts.get("closing_until") ?? 0),
      gone: this.#facts.get("gone") !== null,
    }));
  }

  /** What is kept of the rows in memory may not be true any more. */
  forgetMemos(): void {
    this.#config.forget();
    this.#state.forget();
  }

  /** @throws Sealed */
  find(): EngineConfig | null {
    return this.#config.get();
  }

  put(config: EngineConfig, now: number): void {
    const before = this.find();
    this.#store(config);
    // What else changes does not move the next rotation.
    if (!before || ROTATION.some((field) => before[field] !== config[field])) this.#schedule(nextRotation(config, now));
  }

  delete(): void {
    this.#sql.exec("DELETE FROM config");
    this.#config.forget();
    this.#schedule(null);
  }

  /** A new secret is in use from now on. */
  promote(secret: string, keyId: string, keyEnds: number, now: number): void {
    const config = this.find();
    this.#facts.set("rotation_failures", "0");
    if (!config) return;
    this.#store({ ...config, client_secret: secret, key_id: keyId, key_ends: keyEnds });
    this.#schedule(nextRotation(config, now));
  }

  /** When the secret is to be rotated, ms since 1970, or null for never by itself. */
  rotationDue(): number | null {
    const due = this.#state.get().rotationDue;
    return due ? Number(due) : null;
  }

  /** A rotation has begun: should nobody see its end, the next try comes by itself. */
  rotationBegun(now: number): void {
    if (this.rotationDue() !== null) this.#schedule(now + RETRY.cap);
  }

  /** Tried again later; when that is outside the window, at its next time. */
  rotationFailed(now: number): void {
    const config = this.find();
    const due = config && nextRotation(config, now);
    if (!config || due === null) {
      this.#schedule(null);
      return;
    }
    const failures = Number(this.#facts.get("rotation_failures") ?? 0);
    this.#facts.set("rotation_failures", String(failures + 1));
    const retry = now + backoff(failures, RETRY);
    const window = config.rotation_window * 1000;
    // The window that is open now, if any, began at the last time that the schedule names.
    const began = window > 0 ? (nextRotation(config, now - window) ?? now) : now;
    this.#schedule(window > 0 && (began > now || retry > began + window) ? due : retry);
  }

  #store(config: EngineConfig): void {
    this.#sql.exec(
      "INSERT INTO config VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed",
      this.#keys.seal(JSON.stringify(config), this.#context),
    );
    this.#config.forget();
  }

  /** Why nothing new is given out, if so. */
  refusesNew(now: number): Refusal | null {
    if (this.isGone()) return refuse("missing");
    return this.#closing(now) ? refuse("unavailable", "the mount is being disabled") : null;
  }

  closeUntil(until: number): void {
    this.#set("closing_until", String(until));
  }

  /** Whether the mount exists no more. */
  isGone(): boolean {
    return this.#state.get().gone;
  }

  leave(): void {
    this.#set("gone", "1");
  }

  /** Whether the mount is being disabled. */
  #closing(now: number): boolean {
    return this.#state.get().closingUntil > now;
  }

  #schedule(due: number | null): void {
    this.#set("rotation_due", due === null ? "" : String(due));
  }

  #set(name: string, value: string): void {
    this.#facts.set(name, value);
    this.#state.forget();
  }
}
