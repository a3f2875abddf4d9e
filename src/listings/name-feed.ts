import type { Migration } from "../platform/durable/migrations.ts";
import { NOTHING, type ObjectContext } from "../platform/durable/object-context.ts";
import type { OutboxRow } from "../platform/durable/outbox-delivery.ts";
import { enlistStep } from "../platform/durable/outbox-lanes.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { dropNames, type NameKey, pageOfNames, projectNames } from "./names.ts";

/**
 * Keeps the names of one mount in D1 equal to those of its object. A change is remembered in memory, and the first one
 * after a delivery enlists one outbox row for all that follow until the next delivery. A row that another instance has
 * enlisted says that changes were forgotten: then all names are compared, a page at a time. Owned by the object of a
 * mount; costs one outbox row and one statement of D1 for the changes of `EVERY_MS`.
 *
 *     change ──► row null ──► delivery: the changed names as they are
 *                   └─ of an earlier instance ──► row {add} … row {add} ──► row {drop} … row {drop}
 *
 *     changed ──delivery begins──► sending ──rows deleted──► forgotten
 *        ▲                            └──next attempt, with what has changed meanwhile──► sending
 *        └──a call ends after a later attempt has begun: it may have overwritten that one
 */

/** The outbox topic. */
export const NAMES = "names";
const LANE = "";
/** The lane of a row that a migration has enlisted. */
const UPGRADE = "upgrade";
/** Least interval between two deliveries: a burst of new secrets shares rows and statements. */
const EVERY_MS = 250;
const PAGE = 1_000;
/** With more changes than these the names are compared. */
const MAX_CHANGED = 5_000;

/** The names of an object. */
export interface OwnNames {
  /** One page of all names, sorted. */
  page(after: string, limit: number): string[];
  /** Those of the names that exist. */
  existing(names: readonly string[]): ReadonlySet<string>;
}

/** A step of the migrations of an owner: its names are compared once. @param table that of its names */
export const namesMigration = (table: string): Migration => enlistStep(NAMES, UPGRADE, table);

/** Progress of a comparison: add the names behind `add`, then drop the rows behind `drop` that are no names. */
type Progress = { readonly add: string } | { readonly drop: NameKey | null };

const START: Progress = { add: "" };

/** Names that have changed, up to a bound. */
class ChangedNames {
  readonly names = new Set<string>();
  /** Whether more names have changed than are remembered. */
  hasForgotten = false;

  add(name: string): void {
    if (this.names.size < MAX_CHANGED) this.names.add(name);
    else this.hasForgotten ||= !this.names.has(name);
  }

  /** Moves all names of another list here. */
  take(from: ChangedNames): void {
    for (const name of from.names) this.add(name);
    this.hasForgotten ||= from.hasForgotten;
    from.clear();
  }

  clear(): void {
    this.names.clear();
    this.hasForgotten = false;
  }
}

export class NameFeed {
  readonly #changed = new ChangedNames();
  /** The names of deliveries whose rows are not deleted. */
  readonly #sending = new ChangedNames();
  /** Whether the transaction that deletes their rows was not rolled back. */
  #isSent = false;
  /** Number of the first row that this instance has enlisted. */
  #firstRow: number | null = null;
  /** Whether a row of this instance waits that no delivery has begun. */
  #isEnlisted = false;
  #deliveredAt = 0;
  #deliveries = 0;
  #isScheduled = false;

  constructor(
    private readonly object: ObjectContext,
    private readonly names: OwnNames,
  ) {}

  /** Records a name that was added or removed. Runs inside the transaction of the change. */
  changed(name: string): void {
    this.#changed.add(name);
    if (!this.#isEnlisted) {
      const row = this.object.outbox.enlist(NAMES, LANE, null);
      this.#firstRow ??= row;
      this.#isEnlisted = true;
    }
    this.#schedule();
  }

  /** Compares all names from the start. Runs inside a transaction. */
  compare(): void {
    this.object.outbox.enlist(NAMES, LANE, START);
    this.#schedule();
  }

  /** Forgets what is known of rows, after a rollback. */
  forgetRows(): void {
    this.#isEnlisted = false;
    this.#isSent = false;
  }

  /** Forgets everything, after all rows were replaced. */
  reset(): void {
    this.forgetRows();
    this.#firstRow = null;
    this.#changed.clear();
    this.#sending.clear();
  }

  /** Compares all names with D1. @param deadline ms since 1970 @returns whether all were compared by then */
  async relist(deadline: number): Promise<boolean> {
    this.object.commit(() => this.compare(), NOTHING);
    const outbox = this.object.outbox;
    for (let before = -1; outbox.holds(NAMES) && before !== this.#deliveries && Date.now() < deadline; ) {
      before = this.#deliveries;
      await outbox.drain(NAMES, LANE);
    }
    return !outbox.holds(NAMES);
  }

  /** After the transaction; without waiting, because the row is durable and the alarm delivers it too. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const drain = () => {
      this.#isScheduled = false;
      void this.object.outbox.drain(NAMES, LANE);
    };
    const waitMs = Math.min(this.#deliveredAt + EVERY_MS - Date.now(), EVERY_MS);
    if (waitMs <= 0) queueMicrotask(drain);
    else setTimeout(drain, waitMs);
  }

  /** The delivery of the outbox topic. */
  async deliver(lane: string, rows: readonly OutboxRow[]): Promise<() => void> {
    const { outbox } = this.object;
    if (lane === UPGRADE) return () => void outbox.enlist(NAMES, LANE, START);
    if (this.#isSent) this.#sending.clear();
    this.#isSent = false;
    this.#sending.take(this.#changed);
    const changed = [...this.#sending.names];
    const hasForgotten = this.#sending.hasForgotten || rows.some((row) => this.#isForeign(row));
    this.#isEnlisted = false;
    this.#deliveredAt = Date.now();
    const attempt = ++this.#deliveries;
    const progress = hasForgotten ? START : first(rows);
    try {
      await this.#send(changed);
      const next = progress && (await this.#comparePage(progress));
      return () => {
        if (next) outbox.enlist(NAMES, LANE, next);
        this.#isSent = true;
      };
    } finally {
      if (attempt !== this.#deliveries) this.#sendAgain(changed, progress !== null);
    }
  }

  /**
   * Sends the names of a call that has ended too late: it may have overwritten a later one.
   * @param compared whether it compared a page, so that all names are compared again
   */
  #sendAgain(names: readonly string[], compared: boolean): void {
    try {
      this.object.commit(() => {
        for (const name of names) this.changed(name);
        if (compared) this.compare();
      }, NOTHING);
    } catch (failure) {
      warn("names-not-enlisted", { mount: this.object.name, because: textOf(failure) });
      // The next change enlists them.
      for (const name of names) this.#changed.add(name);
    }
  }

  /** Whether a row stands for changes that this instance does not know. */
  #isForeign({ seq, body }: OutboxRow): boolean {
    return body === "null" && (this.#firstRow === null || seq < this.#firstRow);
  }

  async #send(changed: readonly string[]): Promise<void> {
    const { env, name } = this.object;
    const existing = this.names.existing(changed);
    const isPresent = Map.groupBy(changed, (each) => existing.has(each));
    await projectNames(env.LISTINGS, name, { present: isPresent.get(true) ?? [], absent: isPresent.get(false) ?? [] });
  }

  /** @returns the progress after a page; null at the end */
  async #comparePage(progress: Progress): Promise<Progress | null> {
    const { env, name } = this.object;
    if ("add" in progress) {
      const present = this.names.page(progress.add, PAGE);
      await projectNames(env.LISTINGS, name, { present, absent: [] });
      const last = present.at(-1);
      return last === undefined || present.length < PAGE ? { drop: null } : { add: last };
    }
    if (this.names.page("", 1).length === 0) return (await dropNames(env.LISTINGS, name)) ? null : { drop: null };
    const listed = await pageOfNames(env.LISTINGS, name, progress.drop, PAGE);
    const existing = this.names.existing(listed.map(({ path }) => path));
    const absent = listed.filter(({ path }) => !existing.has(path)).map(({ path }) => path);
    await projectNames(env.LISTINGS, name, { present: [], absent });
    const last = listed.at(-1);
    return last === undefined || listed.length < PAGE ? null : { drop: last };
  }
}

/** The earliest progress of the rows; null without one. */
function first(rows: readonly OutboxRow[]): Progress | null {
  const all = rows.flatMap(({ body }) => (JSON.parse(body) as Progress | null) ?? []);
  const adding = all.flatMap((progress) => ("add" in progress ? [progress.add] : [])).sort();
  const [add] = adding;
  return add !== undefined ? { add } : (all[0] ?? null);
}
