/**
 * Deliveries of an outbox: what its owner states for each topic. They repeat after a crash, so a receiver is idempotent.
 */

export interface OutboxRow {
  readonly seq: number;
  readonly body: string;
}

/**
 * Delivers rows of one lane, oldest first. Optionally returns a write for the transaction that deletes the rows. A
 * rejection keeps the rows; the lane is retried after a back-off.
 */
export interface Deliver {
  // biome-ignore lint/suspicious/noConfusingVoidType: a delivery with nothing to write back returns nothing
  (lane: string, rows: OutboxRow[]): Promise<(() => void) | void>;
  /** See `storedLater`. */
  readonly isStoredLater?: boolean;
  /** See `deliveredTogether`. */
  readonly together?: DeliverTogether;
}

/** Delivers lanes of one topic whose newest row alone matters. Optionally returns a write, as `Deliver`. */
// biome-ignore lint/suspicious/noConfusingVoidType: as above
export type DeliverTogether = (lanes: readonly string[]) => Promise<(() => void) | void>;

/**
 * A delivery whose success is stored with the object's next transaction, at the latest by its alarm, instead of in one
 * of its own. After a crash before that, its rows are delivered again.
 */
export const storedLater = (deliver: Deliver): Deliver =>
  Object.assign((...given: Parameters<Deliver>) => deliver(...given), { isStoredLater: true });

/**
 * A topic of which many lanes may be pending at once, filled by `enlistLatest`: a drain of the topic delivers them with
 * one call. All of them fail together.
 */
export const deliveredTogether = (deliver: Deliver, together: DeliverTogether): Deliver =>
  Object.assign((...given: Parameters<Deliver>) => deliver(...given), { together });
