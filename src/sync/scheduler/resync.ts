import type { SyncStatus } from "../../contracts/sync-destination.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import { textOf, warn } from "../../platform/observability/log.ts";
import { settings } from "../../platform/settings.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { Associations } from "../associations/associations.ts";
import { SingleRow } from "../rows.ts";
import type { AssociationRow } from "../schema.ts";
import type { Breaker } from "./breaker.ts";

const PAGE = 200;

/**
 * Periodic resync: compares every association with the newest version of its secret and enqueues the differences, final
 * failures and owed clean-ups. Compares with records only; drift at the provider is not detected. Owned by `SyncDestination`, driven
 * by its alarm. A page of 200 associations costs one RPC per mount.
 */
export class Resync {
  readonly #row: SingleRow<{ next_at: number; cursor: string }>;

  constructor(
    private readonly object: ObjectContext,
    private readonly associations: Associations,
    private readonly work: WorkQueue,
    private readonly breaker: Breaker,
  ) {
    this.#row = new SingleRow(object.sql, "scan");
  }

  /** Drops the cached row after a rollback. */
  forget(): void {
    this.#row.forget();
  }

  /** When the next page is due (ms since 1970); null while there are no associations. */
  due(): number | null {
    return this.#row.get()?.next_at ?? null;
  }

  /** Schedules the first resync, unless one is scheduled. Called inside a transaction. */
  begin(now: number): void {
    if (!this.#row.get()) this.#scheduleFirst(now);
  }

  /**
   * Starts over with the first page now, closes the breaker and ends pauses, because the cause of failures may be
   * repaired. Called inside a transaction.
   */
  restart(now: number): void {
    this.breaker.close();
    this.work.unpause();
    if (this.associations.any()) this.#row.put({ next_at: now, cursor: "" });
  }

  end(): void {
    this.#row.delete();
  }

  /** Compares the next page. */
  async step(now: number): Promise<void> {
    const associations = this.associations;
    const row = this.#row.get();
    if (!row || row.next_at > now) return;
    const page = associations.page(row.cursor, PAGE);
    const newest = new Map<string, number | null>();
    for (const [mountUuid, rows] of Map.groupBy(page, (one) => one.mount_uuid)) {
      const versions = await this.#newest(mountUuid, rows);
      for (const [index, one] of rows.entries()) newest.set(one.id, versions[index] ?? null);
    }
    this.object.commit(() => {
      for (const { id } of page) {
        const current = associations.find(id);
        if (current && current.wish !== "held" && this.#isBehind(current, newest.get(id) ?? null))
          associations.setDesired(current, current.wish, now, hasFailed(current) ? "failed" : "many");
      }
      // A restart in the meantime has set its own position.
      const after = this.#row.get();
      if (after?.next_at !== row.next_at || after.cursor !== row.cursor) return;
      const last = page.at(-1);
      if (last && page.length === PAGE) this.#row.put({ next_at: now, cursor: last.id });
      else if (associations.any()) this.#scheduleFirst(now);
      else this.end();
    });
  }

  /** Reads versions of one mount. Secrets of a mount that fails count as unchanged, so that other mounts are compared. */
  async #newest(mountUuid: string, rows: readonly AssociationRow[]): Promise<(number | null)[]> {
    try {
      return await kvStore(this.object.env, mountUuid).newestVersions(rows.map((row) => row.secret_name));
    } catch (failure) {
      warn("scan-skipped", { mount: mountUuid, because: textOf(failure) });
      return rows.map((row) => row.synced_version);
    }
  }

  #isBehind(row: AssociationRow, newest: number | null): boolean {
    const work = this.work.find(row.id);
    // A queued row is up to date, unless it waits after a failure or its task was leased before the change.
    if (work) return work.leased || work.attempts > 0;
    if (row.wish === "absent" || (row.status !== "SYNCED" && row.status !== "UNSYNCED")) return true;
    return newest !== row.synced_version || this.associations.owes(row);
  }

  /** Schedules the first page of the next resync. */
  #scheduleFirst(now: number): void {
    this.#row.put({ next_at: now + settings(this.object.env).SYNC_SCAN_MS, cursor: "" });
  }
}

const HEALTHY: readonly SyncStatus[] = ["SYNCED", "UNSYNCED", "PENDING"];

/** Whether the last attempt failed; such rows are queued behind the others. */
const hasFailed = ({ status }: AssociationRow): boolean => !HEALTHY.includes(status);
