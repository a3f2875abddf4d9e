import type { Dialect } from "../../compat/dialect.ts";
import type { JobRef, Started } from "../../contracts/credential-engine.ts";
import type { Home } from "../../contracts/federation.ts";
import type { WriteRights } from "../../contracts/kv-store.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { warn } from "../../platform/observability/log.ts";
import type { EngineJobs } from "../engine-jobs.ts";
import type { EngineStates } from "../engines/engine-type.ts";
import { searching } from "../runner/removal.ts";

const ROTATION_MS = 10 * 60_000;
const LOCK = "rotation";

/** `document`: path of a further document. `rights`: of the caller; null or absent: it holds the one that the write needs. */
interface ConfigWrite {
  readonly document?: string | null | undefined;
  readonly rights?: WriteRights | null | undefined;
}

/**
 * The identity of an engine: its configuration, and the rotation of its secret. Owns no state; a rotation is one job.
 */
export class RootAccount {
  constructor(private readonly jobs: EngineJobs) {}

  /**
   * Merges a body into the configuration. A change of identity abandons a rotation in progress.
   * @returns `denied` without the right to create the configuration, or to update one that is shown
   */
  configure(body: object, dialect: Dialect, home: Home | null, { document, rights }: ConfigWrite = {}): Result<null> {
    const { type, config, events } = this.jobs.stores;
    const before = config.find();
    // A configuration may have further documents only, as that of AWS before the first write of its root.
    const exists = before !== null && type.config.view(before, null) !== null;
    if (rights && !(exists ? rights.update : rights.create)) return refuse("denied", "permission denied");
    const part = document ? type.config.documents?.[document] : undefined;
    const changed = part
      ? part.change(before, body)
      : type.config.change(before, body, { settings: this.jobs.accounts.settings(), dialect, home });
    if (!changed.ok) return changed;
    const now = Date.now();
    this.jobs.commit(() => {
      if (before && type.config.changesIdentity(before, changed.value)) this.stopRotation(now, changed.value);
      config.put(changed.value, now);
      events.config("ConfigWritten", document ?? type.description.paths.config);
    });
    return ok(null);
  }

  /**
   * Changes the path of the mount in the claims of its identity tokens. @param seq grows with each move.
   * @throws Sealed
   */
  moved(path: string, seq: number): void {
    const { config } = this.jobs.stores;
    if (!config.isNewMove(seq)) return;
    const before = config.find();
    this.jobs.commit(() => {
      config.recordMove(seq);
      if (before?.home) config.put({ ...before, home: { ...before.home, mountPath: path } }, Date.now());
    });
  }

  /** Deletes the configuration; roles and leases stay. */
  forget(): void {
    this.jobs.commit(() => {
      this.stopRotation(Date.now());
      this.jobs.stores.config.delete();
      this.jobs.stores.events.config("ConfigDeleted", this.jobs.stores.type.description.paths.config);
    });
  }

  /** Starts the replacement of the root secret. */
  rotate(): Result<Started> {
    const now = Date.now();
    return this.jobs.commit(() => {
      const begun = this.#begin(now);
      return begun.ok ? ok(this.jobs.runner.begin(begun.value, now)) : begun;
    });
  }

  /** Time of the next rotation; null while one is in progress. */
  rotationDue(): number | null {
    const due = this.jobs.stores.config.rotationDue();
    return due === null || this.jobs.stores.jobs.count("rotation") > 0 ? null : due;
  }

  /**
   * Starts a rotation that is due; a Worker performs it after the wake-up. One whose window was missed waits for the next
   * scheduled time. Runs inside a transaction. @returns whether it started
   */
  rotateIfDue(now: number): boolean {
    const due = this.rotationDue();
    if (due === null || due > now) return false;
    const { config, scope } = this.jobs.stores;
    if (config.isOutsideWindow(now)) {
      warn("rotation-missed", { engine: scope, due: new Date(due).toISOString() });
      config.skipRotation(now);
      return false;
    }
    const started = this.#begin(now);
    if (!started.ok) {
      warn("rotation-refused", { engine: scope, because: started.message });
      this.jobs.outcomes.rotationFailed(started.message, now);
    }
    return started.ok;
  }

  /**
   * Abandons rotations in progress; their removals use the account of their start. Runs inside a transaction.
   * @param next the configuration from now on, whose secret may have been made by hand during the rotation
   */
  stopRotation(now: number, next: EngineStates["config"] | null = null): void {
    const { type, config, jobs } = this.jobs.stores;
    config.rotationStopped();
    for (const job of jobs.ofKind("rotation")) {
      if (job.work.kind !== "rotation") continue;
      const undo = searching(type.rotation?.undo(job.work.rotation, now, next) ?? null, job);
      const owner = { ...job, because: "rotation given up", by: job.work.rotation.account };
      if (undo) this.jobs.outcomes.abandon(owner, undo, now);
      else jobs.delete(job.id);
    }
  }

  /** Creates the rotation job. Runs inside a transaction. */
  #begin(now: number): Result<JobRef> {
    const { type, config, jobs } = this.jobs.stores;
    const refusal = config.refusesNew(now);
    if (refusal) return refusal;
    if (!type.rotation) return refuse("invalid", `the root credentials of type ${type.type} cannot be rotated`);
    const begun = type.rotation.begin(config.find(), this.jobs.accounts.account(), this.jobs.accounts.settings());
    if (!begun.ok) return begun;
    if (jobs.count("rotation") > 0) return refuse("invalid", "rotation in progress; try again in a moment");
    this.jobs.accounts.follow();
    const work = { kind: "rotation", rotation: begun.value } as const;
    config.rotationStarted(now);
    const id = `rotation ${crypto.randomUUID()}`;
    // A search for secrets of an earlier rotation would find those of this one.
    const lock = type.rotation.lock?.(begun.value) ?? LOCK;
    jobs.put({ id, work, lock, deadline: now + ROTATION_MS }, now);
    return ok({ job: id, kind: "rotation" });
  }
}
