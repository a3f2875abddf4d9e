/**
 * Scheduled backups of `npm run serve`: a snapshot in a directory or bucket, and the newest few of them kept. The schedule
 * is in the names of the backups, so a restart neither skips nor repeats one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type BackupStore, backupName, timeOfBackup } from "./backup-store.ts";
import { logEvent } from "./json-lines.ts";
import type { BackupSettings } from "./serve-settings.ts";

const FIRST_RETRY_MS = 60_000;
const MAX_RETRY_MS = 3_600_000;
/** The longest timer of Node is 24 days. */
const MAX_SLEEP_MS = 86_400_000;
/** Clocks of machines that share a bucket may differ. */
const MOST_SKEW_MS = 300_000;

/** The runtime behind the gateway, and the headers of requests to it. */
export interface RunningService {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export class Backups {
  readonly #settings: BackupSettings;
  readonly #store: BackupStore;
  readonly #service: () => RunningService | undefined;

  /** @param service undefined while it is down */
  constructor(settings: BackupSettings, store: BackupStore, service: () => RunningService | undefined) {
    this.#settings = settings;
    this.#store = store;
    this.#service = service;
  }

  /** Takes each backup when it is due, until `signal` aborts. A failed one is repeated with a growing pause. */
  async run(signal: AbortSignal): Promise<void> {
    let pause = FIRST_RETRY_MS;
    while (!signal.aborted) {
      try {
        const newest = (await this.#names(signal)).findLast((name) => !isAhead(name)) ?? "";
        const due = timeOfBackup(newest) + this.#settings.everyMs;
        if (Date.now() < due) {
          await this.#wait(due - Date.now(), signal);
          continue;
        }
        await this.take(signal);
        pause = FIRST_RETRY_MS;
      } catch (failure) {
        if (signal.aborted) return;
        logEvent("error", "backup_failed", { message: failure instanceof Error ? failure.message : String(failure) });
        await this.#wait(pause, signal);
        pause = Math.min(pause * 2, MAX_RETRY_MS);
      }
    }
  }

  /** The oldest first. Those that a wrong clock has put into the future neither put off the next one nor outlive it. */
  async #names(signal: AbortSignal): Promise<string[]> {
    const names = await this.#store.names(signal);
    const ahead = names.filter(isAhead);
    if (ahead.length > 0) logEvent("warn", "backups_ahead_of_clock", { files: ahead.join(", ") });
    return [...ahead, ...names.filter((name) => !isAhead(name))];
  }

  #wait(ms: number, signal: AbortSignal): Promise<void> {
    return sleep(Math.min(ms, MAX_SLEEP_MS), undefined, { signal }).catch(() => {});
  }

  /** Takes one now. */
  async take(signal: AbortSignal): Promise<void> {
    const { token, keep } = this.#settings;
    const service = this.#service();
    if (!service) throw new Error("the service is down");
    const began = Date.now();
    const { url } = service;
    const headers = { ...service.headers, "X-Orch-Token": token };
    // Extends a periodic token; others cannot be renewed for ever, and then the snapshot says so.
    await fetch(`${url}/v1/auth/token/renew-self`, { method: "POST", headers, signal }).then((answer) => answer.text());
    const answer = await fetch(`${url}/v1/sys/snapshot`, { headers, signal });
    if (!answer.ok || !answer.body)
      throw new Error(`the snapshot was refused: ${answer.status} ${await answer.text()}`);
    const { place, bytes } = await this.#store.put(backupName(began), answer.body, signal);
    logEvent("info", "backup_taken", { file: place, bytes, ms: Date.now() - began });
    await this.#prune(keep, signal).catch((failure: unknown) => {
      // The backup is whole, and the next one prunes again.
      logEvent("warn", "backups_not_pruned", { message: String(failure) });
    });
  }

  async #prune(keep: number, signal: AbortSignal): Promise<void> {
    const names = await this.#names(signal);
    for (const old of names.slice(0, -keep)) await this.#store.remove(old, signal);
  }
}

const isAhead = (name: string): boolean => timeOfBackup(name) > Date.now() + MOST_SKEW_MS;
