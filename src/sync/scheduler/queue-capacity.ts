import type { QuotaGrant, QuotaRequest } from "../../contracts/sync-control.ts";
import { texts, upsert } from "../rows.ts";

/** Destinations with a quota, for an inventory of objects. */
export const DESTINATIONS_WITH_QUOTA = "SELECT destination AS name FROM shares";

/** Quota is scarce when less than this, or less than half of the queue, is free. */
const SCARCE_QUOTA = 10_000;
const scarceBelow = (capacity: number): number => Math.max(SCARCE_QUOTA, capacity / 2);
/** While quota is plentiful, a destination gets this much extra, so that it need not ask for each operation. */
export const EXTRA_QUOTA = 64;

/** A destination's row: the quota it has, and the operations that it needs quota for. */
interface QuotaRow extends Record<string, SqlStorageValue> {
  granted: number;
  wanted: number;
}

/**
 * Divides the queue capacity among destinations, each of which has a quota. Owned by `SyncControl`; `QueueQuota` is the
 * destination's side. A request costs one row; triggers keep the total, so that no request reads the rows of others.
 * `grant` is called inside the object's transaction. A granted quota is
 *
 *   at least  kept     also after the capacity was lowered: queued operations stay queued
 *   at most   needed   kept, waiting and asked operations; EXTRA_QUOTA more while quota is plentiful
 *             room     the capacity without the quotas of the others
 *             part     an equal part while other destinations want more than they have
 */
export class QueueCapacity {
  constructor(private readonly sql: SqlStorage) {}

  /** Replaces a destination's quota by the one for its request; without quota and need it has no row. Idempotent. */
  grant(
    destination: string,
    { kept, waiting, asked }: QuotaRequest,
    capacity: number,
  ): Pick<QuotaGrant, "granted" | "scarce"> {
    const { granted: pending, short } = this.#total();
    const mine = this.#find(destination);
    const room = capacity - (pending - mine.granted);
    const others = short - (mine.wanted > mine.granted ? 1 : 0);
    // While other destinations wait, each gets at most an equal part.
    const part = Math.max(1, Math.floor(capacity / (others + 1)));
    const needed = kept + waiting + asked;
    const scarce = scarceBelow(capacity);
    // Growing demand is likely to grow again soon.
    const ahead = needed > kept && room - needed - EXTRA_QUOTA >= scarce ? EXTRA_QUOTA : 0;
    const granted = Math.max(kept, Math.min(needed + ahead, room, part));
    this.#store(destination, { granted, wanted: kept + waiting });
    return { granted, scarce: this.isScarce(capacity) };
  }

  /** Whether destinations are to give up the quota that they do not use. */
  isScarce(capacity: number): boolean {
    return capacity - this.granted() < scarceBelow(capacity);
  }

  /** The sum of all quotas: an upper bound of the queued operations of all destinations. */
  granted(): number {
    return this.#total().granted;
  }

  /** A page of the destinations with quota or need, by name. */
  destinations(after: string, limit: number): string[] {
    const query = "SELECT destination FROM shares WHERE destination > ? ORDER BY destination LIMIT ?";
    return texts(this.sql, query, after, limit);
  }

  /** All rows together: the quotas granted, and how many destinations want more than they have. */
  #total() {
    return this.sql.exec<{ granted: number; short: number }>("SELECT granted, short FROM total").one();
  }

  #find(destination: string): QuotaRow {
    const [row] = this.sql
      .exec<QuotaRow>("SELECT granted, wanted FROM shares WHERE destination = ?", destination)
      .toArray();
    return row ?? { granted: 0, wanted: 0 };
  }

  #store(destination: string, { granted, wanted }: QuotaRow): void {
    if (granted > 0 || wanted > 0) upsert(this.sql, "shares", { destination, granted, wanted }, "destination");
    else this.sql.exec("DELETE FROM shares WHERE destination = ?", destination);
  }
}
