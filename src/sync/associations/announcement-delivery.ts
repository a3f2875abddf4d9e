import type { AssociationListing } from "../../contracts/sync-destination.ts";
import { projectAssociations, projectDestination } from "../../listings/destinations.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { type Deliver, deliveredTogether, type OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import { destinationKeyOf } from "../../rpc/destination-name.ts";
import { kvStore } from "../../rpc/stubs.ts";
import type { DestinationRecord } from "../configuration/destination-record.ts";
import type { RuleStore } from "../rules/rule-store.ts";
import { announceListing } from "./announcements.ts";
import { type Associations, secretOf } from "./associations.ts";

const RELISTED = 500;
/** Other changes enqueue updates of the listings while they are delivered. */
const MAX_DRAINS = 5;
const LISTED = ["listing", "relist", "associations"];

/**
 * Handlers of the outbox topics for mounts and listings: deliver the announcements that `announcements.ts` enqueues.
 * Owned by `SyncDestination`. Each delivery sends the state at that time, so lost or repeated rows do no harm. Costs one RPC per
 * topic, or per mount for `watch`: per secret while its destination answers a request.
 */
export class AnnouncementDelivery {
  readonly #associations: Associations;
  /** Pages that a full update of the listings has enqueued so far. */
  #pages = 0;

  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    associations: Associations,
    private readonly work: WorkQueue,
    private readonly rules: Pick<RuleStore, "isLate">,
  ) {
    this.#associations = associations;
  }

  /**
   * Starts or ends the mount's watch on a secret, depending on whether an association exists. There is one lane per
   * secret, so a start and an end never overtake each other.
   */
  async watch(lane: string): Promise<(() => void) | undefined> {
    const { env, name } = this.object;
    const associations = this.#associations;
    const [mountUuid = "", secretName = ""] = lane.split("\n");
    const kv = kvStore(env, mountUuid);
    if (associations.ofSecret(mountUuid, secretName).length === 0) {
      await kv.unwatch(secretName, name);
      return;
    }
    const newest = await kv.watch(secretName, name);
    return () => this.#watched(mountUuid, secretName, newest, 0);
  }

  /** As `watch`, of many secrets: one call for each mount. */
  async watchMany(lanes: readonly string[]): Promise<() => void> {
    const { env, name } = this.object;
    const secrets = lanes.map((lane) => lane.split("\n"));
    const mounts = [...Map.groupBy(secrets, ([mountUuid = ""]) => mountUuid)];
    const seen = await Promise.all(
      mounts.map(async ([mountUuid, rows]) => {
        const names = rows.map(([, secretName = ""]) => secretName);
        const isWanted = (secretName: string) => this.#associations.ofSecret(mountUuid, secretName).length > 0;
        const begun = names.filter(isWanted);
        const newest = await kvStore(env, mountUuid).watchMany(
          name,
          begun,
          names.filter((one) => !begun.includes(one)),
        );
        return begun.map((secretName, at) => ({ mountUuid, secretName, newest: newest[at] ?? null }));
      }),
    );
    return () => {
      for (const { mountUuid, secretName, newest } of seen.flat()) {
        this.#watched(mountUuid, secretName, newest?.version ?? null, newest?.created ?? 0);
      }
    };
  }

  /**
   * A version written before the watch began was not reported; a leased task may have read an older one. One written
   * after a rule has compared all secrets is a change of its own, and not one of the many.
   */
  #watched(mountUuid: string, secretName: string, newest: number | null, written: number): void {
    for (const row of this.#associations.ofSecret(mountUuid, secretName)) {
      const waits = this.work.find(row.id);
      const missed = waits ? waits.leased || this.rules.isLate(row, written) : newest !== row.synced_version;
      if (missed && row.wish === "present") this.#associations.setDesired(row, "present", Date.now());
    }
  }

  async listing(): Promise<void> {
    const { env, name } = this.object;
    await projectDestination(env.LISTINGS, destinationKeyOf(name), this.record.row() !== null);
  }

  async associations(rows: OutboxRow[]): Promise<void> {
    const { env, name } = this.object;
    const changes = rows.map(({ body }) => {
      const listed = JSON.parse(body) as AssociationListing;
      return { ...listed, exists: this.#associations.ofPath(listed.mount, listed.secret) !== null };
    });
    await projectAssociations(env.LISTINGS, destinationKeyOf(name), changes);
  }

  /** Enqueues one page of associations behind the pending listing updates. @param rows hold the id before the page */
  async relist(rows: OutboxRow[]): Promise<() => void> {
    const { outbox } = this.object;
    // One page at a time bounds the outbox to a page of rows.
    for (let drains = 0; drains < MAX_DRAINS && outbox.holds("associations"); drains++)
      await outbox.drain("associations");
    if (outbox.holds("associations")) throw new Error("the listings are behind");
    return () => {
      this.#pages++;
      const after = JSON.parse(rows.at(-1)?.body ?? '""') as string;
      const page = this.#associations.page(after, RELISTED);
      for (const row of page) announceListing(outbox, secretOf(row));
      const last = page.at(-1);
      if (last && page.length === RELISTED) outbox.enlist("relist", "", last.id);
    };
  }

  /**
   * Delivers pending updates of the listings, until none is left, one fails, or `deadline` (ms since 1970) has passed.
   * @returns whether all were delivered
   */
  async deliverListings(deadline: number): Promise<boolean> {
    const { outbox } = this.object;
    const isPending = () => LISTED.some((topic) => outbox.holds(topic));
    for (let pages = -1; isPending() && pages !== this.#pages; ) {
      pages = this.#pages;
      for (const topic of LISTED) await outbox.drain(topic);
      if (Date.now() >= deadline) break;
    }
    return !isPending();
  }
}

/** Delivers the outbox topic `watch`: the announcements of one secret, or of many by one call. */
export const watchDelivery = (of: () => AnnouncementDelivery): Deliver =>
  deliveredTogether(
    (lane) => of().watch(lane),
    (lanes) => of().watchMany(lanes),
  );
