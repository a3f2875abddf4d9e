import { Kept } from "../platform/durable/memo.ts";
import type { WorkList } from "../platform/durable/work-queue.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import type { SyncStatus } from "./association.ts";
import type { Associations } from "./associations.ts";
import type { AssociationRow } from "./schema.ts";

const PAGE = 200;

interface Host {
  readonly sql: SqlStorage;
  readonly associations: Associations;
  readonly work: WorkList;
  readonly everyMs: number;
  commit<T>(change: () => T): T;
  /** The newest living version of each of these secrets of a mount, null where there is none. */
  newest(mountUuid: string, secretNames: readonly string[]): Promise<(number | null)[]>;
  setDesired(row: AssociationRow, now: number, failed: boolean): void;
}

/**
 * The scan that finds what was missed: it compares every association with its source, a page at a time, and gives what had
 * failed for good another chance. Compares with our own records; it does not ask the provider.
 */
export class Resync {
  readonly #host: Host;

  readonly #row: Kept<{ readonly next_at: number; readonly cursor: string } | null>;

  constructor(host: Host) {
    this.#host = host;
    this.#row = new Kept(
      () => host.sql.exec<{ next_at: number; cursor: string }>("SELECT next_at, cursor FROM scan").toArray()[0] ?? null,
    );
  }

  /** What is kept of it in memory may not be true any more. */
  forget(): void {
    this.#row.forget();
  }

  /** When the next page is due; null when there is nothing to scan. Scans go on for as long as there are associations. */
  due(): number | null {
    return this.#row.get()?.next_at ?? null;
  }

  /** There is something to scan; inside a transaction. */
  begin(now: number): void {
    if (!this.#row.get()) this.#store(now + this.#host.everyMs, "");
  }

  /** Everything is looked at anew, from now on; inside a transaction. */
  restart(now: number): void {
    this.#store(now, "");
  }

  end(): void {
    this.#host.sql.exec("DELETE FROM scan");
    this.#row.forget();
  }

  /** Looks at the next page. */
  async step(now: number): Promise<void> {
    const { associations, commit } = this.#host;
    const row = this.#row.get();
    if (!row || row.next_at > now) return;
    const page = associations.page(row.cursor, PAGE);
    const newest = new Map<string, number | null>();
    for (const [mountUuid, rows] of Map.groupBy(page, (one) => one.mount_uuid)) {
      const versions = await this.#newest(mountUuid, rows);
      for (const [index, one] of rows.entries()) newest.set(one.id, versions[index] ?? null);
    }
    commit.call(this.#host, () => {
      for (const { id } of page) {
        const current = associations.find(id);
        if (current && this.#isBehind(current, newest.get(id) ?? null))
          this.#host.setDesired(current, now, hasFailed(current));
      }
      // Restarted meanwhile: then it begins anew.
      const after = this.#row.get();
      if (after?.next_at !== row.next_at || after.cursor !== row.cursor) return;
      const last = page.at(-1);
      if (last && page.length === PAGE) this.#store(now, last.id);
      else if (associations.any()) this.#store(now + this.#host.everyMs, "");
      else this.end();
    });
  }

  /** A mount that does not answer must not keep the others from being looked at: its secrets count as unchanged. */
  async #newest(mountUuid: string, rows: readonly AssociationRow[]): Promise<(number | null)[]> {
    try {
      return await this.#host.newest(
        mountUuid,
        rows.map((row) => row.secret_name),
      );
    } catch (failure) {
      warn("scan-skipped", { mount: mountUuid, because: textOf(failure) });
      return rows.map((row) => row.synced_version);
    }
  }

  #isBehind(row: AssociationRow, newest: number | null): boolean {
    const work = this.#host.work.find(row.id);
    // What has work is on its way, unless it waits after a failure, or is being done as things were before.
    if (work) return work.claimed || work.attempts > 0;
    if (row.wish === "absent" || (row.status !== "SYNCED" && row.status !== "UNSYNCED")) return true;
    return newest !== row.synced_version;
  }

  #store(nextAt: number, cursor: string): void {
    this.#host.sql.exec(
      "INSERT INTO scan VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at, cursor = excluded.cursor",
      nextAt,
      cursor,
    );
    this.#row.forget();
  }
}

const HEALTHY: readonly SyncStatus[] = ["SYNCED", "UNSYNCED", "PENDING"];

/** Whether the last attempt failed: others come first. */
const hasFailed = ({ status }: AssociationRow): boolean => !HEALTHY.includes(status);
