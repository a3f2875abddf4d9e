/**
 * Scheduled backups of `npm run serve`: a snapshot in a directory, and the newest few of them kept. The schedule is in the
 * names of the files, so a restart neither skips nor repeats one.
 */
import {
  closeSync,
  createWriteStream,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { logEvent } from "./json-lines.ts";
import type { BackupSettings } from "./serve-settings.ts";

const NAME = /^sallyport-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.snapshot$/;
const PARTIAL = /^sallyport-\w+\.snapshot\.partial$/;
const FIRST_RETRY_MS = 60_000;
const LONGEST_RETRY_MS = 3_600_000;
/** The longest timer of Node is 24 days. */
const LONGEST_SLEEP_MS = 86_400_000;

export class Backups {
  readonly #settings: BackupSettings;
  readonly #url: () => string | undefined;

  /** @param url of the running service, behind the gateway; undefined while it is down */
  constructor(settings: BackupSettings, url: () => string | undefined) {
    this.#settings = settings;
    this.#url = url;
    mkdirSync(settings.dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(settings.dir)) if (PARTIAL.test(name)) rmSync(join(settings.dir, name));
  }

  /** Takes each backup when it is due, until `signal` aborts. A failed one is repeated with a growing pause. */
  async run(signal: AbortSignal): Promise<void> {
    let pause = FIRST_RETRY_MS;
    let notBefore = 0;
    while (!signal.aborted) {
      const due = Math.max(notBefore, this.#newest() + this.#settings.everyMs);
      if (Date.now() < due) {
        await sleep(Math.min(due - Date.now(), LONGEST_SLEEP_MS), undefined, { signal }).catch(() => {});
        continue;
      }
      try {
        await this.take(signal);
        pause = FIRST_RETRY_MS;
      } catch (failure) {
        if (signal.aborted) return;
        logEvent("error", "backup_failed", { message: failure instanceof Error ? failure.message : String(failure) });
        notBefore = Date.now() + pause;
        pause = Math.min(pause * 2, LONGEST_RETRY_MS);
      }
    }
  }

  /** Takes one now. @returns its path */
  async take(signal: AbortSignal): Promise<string> {
    const { dir, token } = this.#settings;
    const url = this.#url();
    if (!url) throw new Error("the service is down");
    const began = Date.now();
    const headers = { "X-Orch-Token": token };
    // Extends a periodic token; others cannot be renewed for ever, and then the snapshot says so.
    await fetch(`${url}/v1/auth/token/renew-self`, { method: "POST", headers, signal }).then((answer) => answer.text());
    const answer = await fetch(`${url}/v1/sys/snapshot`, { headers, signal });
    if (!answer.ok || !answer.body)
      throw new Error(`the snapshot was refused: ${answer.status} ${await answer.text()}`);
    const path = join(dir, nameAt(began));
    try {
      await pipeline(Readable.fromWeb(answer.body), createWriteStream(`${path}.partial`, { mode: 0o600, flush: true }));
      renameSync(`${path}.partial`, path);
      synchronise(dir);
    } catch (failure) {
      rmSync(`${path}.partial`, { force: true });
      throw failure;
    }
    logEvent("info", "backup_taken", { file: path, bytes: statSync(path).size, ms: Date.now() - began });
    for (const old of this.#names().slice(0, -this.#settings.keep)) rmSync(join(dir, old), { force: true });
    return path;
  }

  /** The oldest first. */
  #names(): string[] {
    return readdirSync(this.#settings.dir)
      .filter((name) => NAME.test(name))
      .sort();
  }

  #newest(): number {
    const [, year, month, day, hour, minute, second] = NAME.exec(this.#names().at(-1) ?? "") ?? [];
    return year === undefined ? 0 : Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  }
}

const nameAt = (ms: number): string =>
  `sallyport-${new Date(ms)
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replace(/[-:]/g, "")}.snapshot`;

/** Makes a renamed file durable. */
function synchronise(dir: string): void {
  const handle = openSync(dir, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
