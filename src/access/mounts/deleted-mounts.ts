import type { MountType } from "../../contracts/mount.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { LeaseHolders } from "../tokens/lease-holders.ts";
import type { Remounts } from "./remounts.ts";

/** A deleted mount whose object may still hold resources or rows. */
export interface DeletedMount {
  readonly uuid: string;
  readonly type: MountType;
}

/** Tables that may keep rows in an otherwise empty object. */
export const emptyObjectTables = (type: MountType): readonly string[] =>
  type === "kv" ? ["data_keys", "settings"] : ["data_keys", "facts", "counted", "work_pause"];

/** Delay of the first check of an object, and the interval between later ones. */
const FIRST_CHECK_MS = 60_000;
const CHECK_MS = 3_600_000;
const MAX_CHECKS = 20;

/**
 * Deleted mounts, kept until their objects are empty: a snapshot must include pending removals, and must not wait for
 * empty objects. Read by the alarm of `AccessControl` and by snapshots. Writes run inside a transaction.
 */
export class DeletedMounts {
  constructor(
    private readonly sql: SqlStorage,
    private readonly outbox: Outbox,
    private readonly remounts: Remounts,
    private readonly leaseHolders: LeaseHolders,
  ) {}

  /** Adds a mount that is being deleted, forgets what else is kept about it, and enqueues the destruction of its data. */
  add({ uuid, type }: DeletedMount, now: number): void {
    this.remounts.forget(uuid);
    this.leaseHolders.forget(uuid);
    this.sql.exec("INSERT INTO ended_mounts (uuid, type, look) VALUES (?, ?, ?)", uuid, type, now + FIRST_CHECK_MS);
    this.outbox.enlist("unmount", `${type} ${uuid}`, null);
  }

  /** Time of the next check, ms since 1970; null without deleted mounts. */
  nextCheck(): number | null {
    return this.sql.exec<{ look: number | null }>("SELECT min(look) AS look FROM ended_mounts").one().look;
  }

  /** Up to `MAX_CHECKS` mounts due for a check; their next check is scheduled. */
  dueForCheck(now: number): DeletedMount[] {
    return this.sql
      .exec<{ uuid: string; type: MountType }>(
        `UPDATE ended_mounts SET look = ? WHERE uuid IN (SELECT uuid FROM ended_mounts WHERE look <= ? ORDER BY look LIMIT ?)
         RETURNING uuid, type`,
        now + CHECK_MS,
        now,
        MAX_CHECKS,
      )
      .toArray();
  }

  /** Removes a mount whose object is empty. */
  forget(uuid: string): void {
    this.sql.exec("DELETE FROM ended_mounts WHERE uuid = ?", uuid);
  }
}
