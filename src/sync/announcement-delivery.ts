import { destinationKeyOf } from "../contracts/destination.ts";
import { accessControl, kvStore, syncControl } from "../contracts/stubs.ts";
import type { AssociationListing } from "../contracts/sync-destination.ts";
import { projectAssociations, projectDestination } from "../listings/destinations.ts";
import type { DataKeys } from "../platform/crypto/data-keys.ts";
import type { OutboxRow } from "../platform/durable/outbox.ts";
import { warn } from "../platform/observability/log.ts";
import { announceListing } from "./announcements.ts";
import { secretOf } from "./associations.ts";
import type { Configuration } from "./configuration.ts";
import type { DestinationDependencies } from "./dependencies.ts";

const RELISTED = 500;

/**
 * Handlers of a destination's outbox topics: deliver the announcements that `announcements.ts` enqueues. Owned by
 * `SyncDestination`. Each delivery sends the state at that time, so lost or repeated rows do no harm. Costs one RPC per
 * topic, or per mount and secret for `watch`.
 */
export class AnnouncementDelivery {
  readonly #dependencies: DestinationDependencies;
  readonly #configuration: Configuration;
  readonly #keys: DataKeys;

  constructor(dependencies: DestinationDependencies, configuration: Configuration, keys: DataKeys) {
    this.#dependencies = dependencies;
    this.#configuration = configuration;
    this.#keys = keys;
  }

  /**
   * Starts or ends the mount's watch on a secret, depending on whether an association exists. There is one lane per
   * secret, so a start and an end never overtake each other.
   */
  async watch(lane: string): Promise<(() => void) | undefined> {
    const { env, self, associations, work } = this.#dependencies;
    const [mountUuid = "", secretName = ""] = lane.split("\n");
    const kv = kvStore(env, mountUuid);
    if (associations.ofSecret(mountUuid, secretName).length === 0) {
      await kv.unwatch(secretName, self);
      return;
    }
    const newest = await kv.watch(secretName, self);
    return () => {
      // A version written before the watch began was not reported; a leased task may have read an older one.
      for (const row of associations.ofSecret(mountUuid, secretName)) {
        const waits = work.find(row.id);
        const missed = waits ? waits.leased : newest !== row.synced_version;
        if (missed && row.wish === "present") associations.setDesired(row, "present", Date.now());
      }
    };
  }

  async listing(): Promise<void> {
    const { env, self, record } = this.#dependencies;
    await projectDestination(env.LISTINGS, destinationKeyOf(self), record.row() !== null);
  }

  async associations(rows: OutboxRow[]): Promise<void> {
    const { env, self, associations } = this.#dependencies;
    const changes = rows.map(({ body }) => {
      const listed = JSON.parse(body) as AssociationListing;
      return { ...listed, exists: associations.ofPath(listed.mount, listed.secret) !== null };
    });
    await projectAssociations(env.LISTINGS, destinationKeyOf(self), changes);
  }

  /** Enqueues one page of associations behind the pending listing updates. @param rows hold the id before the page */
  async relist(rows: OutboxRow[]): Promise<() => void> {
    const { outbox, associations } = this.#dependencies;
    // One page at a time bounds the outbox to a page of rows.
    await outbox.drain("associations");
    if (outbox.holds("associations")) throw new Error("the listings are behind");
    return () => {
      const after = JSON.parse(rows.at(-1)?.body ?? '""') as string;
      const page = associations.page(after, RELISTED);
      for (const row of page) announceListing(outbox, secretOf(row));
      const last = page.at(-1);
      if (last && page.length === RELISTED) outbox.enlist("relist", "", last.id);
    };
  }

  async app(): Promise<void> {
    const { env, self } = this.#dependencies;
    const used = await syncControl(env).useApp(destinationKeyOf(self).namespace, self, this.#configuration.usedApp());
    if (!used.ok) warn("app-missing", { destination: self });
  }

  targets(): Promise<void> {
    const { record, neighbours } = this.#dependencies;
    return record.row() ? neighbours.register() : neighbours.leave();
  }

  async keyHolder(): Promise<void> {
    const { env, self, record, purge, outbox, commit } = this.#dependencies;
    const isThere = record.row() !== null || purge.find() !== null;
    if (!isThere) {
      // `AccessControl` keeps the destination registered until its listings are gone: a successor must not find them.
      for (const topic of ["watch", "listing", "associations"]) await outbox.drain(topic);
      if (outbox.holds("watch")) throw new Error("its mounts do not know yet that it has ended");
      if (outbox.holds("listing") || outbox.holds("associations")) throw new Error("it is still listed");
    }
    const term = await accessControl(env).holdsKeys("sync-destination", self, isThere);
    commit(() => this.#keys.rotate(term, Date.now()));
  }
}
