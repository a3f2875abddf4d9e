import type { MountType } from "../contracts/mount.ts";

/** A mount that is gone, whose object may have something to take away still. */
export interface EndedMount {
  readonly uuid: string;
  readonly type: MountType;
}

/** Tables in which an object that holds nothing any more still has rows. */
export const REMAINS: Readonly<Record<MountType, readonly string[]>> = {
  kv: ["data_keys", "settings"],
  "cloud-b": ["data_keys", "facts", "counted", "work_counts", "work_pause"],
};

/** When an object is looked at for the first time, and then again while it has something left. */
const FIRST_LOOK_MS = 60_000;
const LOOK_MS = 3_600_000;
const LOOKED_AT_ONCE = 20;

/**
 * Mounts that are gone, kept until their objects hold nothing any more: no snapshot must miss what is still to be taken away,
 * and none has to wait for objects that are empty. Methods that write are called inside a transaction.
 */
export class EndedMounts {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add({ uuid, type }: EndedMount, now: number): void {
    this.#sql.exec("INSERT INTO ended_mounts (uuid, type, look) VALUES (?, ?, ?)", uuid, type, now + FIRST_LOOK_MS);
  }

  /** When the next object is to be looked at, ms since 1970, or null. */
  nextLook(): number | null {
    return this.#sql.exec<{ look: number | null }>("SELECT min(look) AS look FROM ended_mounts").one().look;
  }

  /** Some whose objects are to be looked at now, and not again for a while. */
  takeDue(now: number): EndedMount[] {
    return this.#sql
      .exec<{ uuid: string; type: MountType }>(
        `UPDATE ended_mounts SET look = ? WHERE uuid IN (SELECT uuid FROM ended_mounts WHERE look <= ? ORDER BY look LIMIT ?)
         RETURNING uuid, type`,
        now + LOOK_MS,
        now,
        LOOKED_AT_ONCE,
      )
      .toArray();
  }

  /** The object of a mount holds nothing any more. */
  forget(uuid: string): void {
    this.#sql.exec("DELETE FROM ended_mounts WHERE uuid = ?", uuid);
  }
}
