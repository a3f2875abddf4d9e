import { destinationKeyOf } from "../contracts/destination.ts";
import { accessControl, kvStore, syncControl } from "../contracts/stubs.ts";
import type { AssociationListing } from "../contracts/sync-destination.ts";
import type { SecretRef } from "../contracts/sync-tasks.ts";
import { projectAssociations, projectDestination } from "../listings/destinations.ts";
import type { Outbox, OutboxRow } from "../platform/durable/outbox.ts";
import { warn } from "../platform/observability/log.ts";
import { secretOf } from "./associations.ts";
import type { DestinationDependencies } from "./dependencies.ts";

/**
 * Announcements of a destination to other objects, through its outbox. Listings receive its existence and its secrets,
 * mounts the secrets to report, `SyncControl` its application and targets, `AccessControl` that it holds keys. Nothing
 * is pushed to providers. Each delivery sends the state at the time of delivery, so lost or repeated rows do no harm.
 * Costs one RPC per topic, or per mount and secret for `watch`.
 */

interface Host {
  /** The custom application in use, or null. @throws Sealed */
  usedApp(): string | null;
  rekey(term: number): void;
}

const watchLane = (mountUuid: string, secretName: string): string => `${mountUuid}\n${secretName}`;

/** Enqueues updates for every projection of this destination. Called inside a transaction. */
export function announceDestination(outbox: Outbox, isNew: boolean): void {
  for (const topic of isNew ? ["key-holder", "listing", "app", "targets"] : ["listing", "app", "targets"]) {
    outbox.enlistLatest(topic, "", null);
  }
}

/** Enqueues updates of the mount's watch and of the listings for one secret. Called inside a transaction. */
export function announceAssociation(outbox: Outbox, secret: SecretRef): void {
  announceWatch(outbox, secret);
  announceListing(outbox, secret);
}

function announceListing(outbox: Outbox, secret: SecretRef): void {
  const listing: AssociationListing = { mount: secret.mountPath, secret: secret.secretName };
  outbox.enlist("associations", "", listing);
}

/** Enqueues the update of the mount's watch on a secret. Called inside a transaction. */
export function announceWatch(outbox: Outbox, { mountUuid, secretName }: SecretRef): void {
  outbox.enlistLatest("watch", watchLane(mountUuid, secretName), null);
}

/** Enqueues a full update of the listings, a page at a time. Called inside a transaction. */
export function announceAll(outbox: Outbox): void {
  outbox.enlistLatest("listing", "", null);
  outbox.enlistLatest("relist", "", "");
}

const RELISTED = 500;

/** Delivers the pending announcements about `secret` now, before the caller answers. */
export async function drainAssociation(outbox: Outbox, { mountUuid, secretName }: SecretRef): Promise<void> {
  await Promise.all([outbox.drain("watch", watchLane(mountUuid, secretName)), outbox.drain("associations")]);
}

/** Handlers of the outbox topics of one destination. */
export class Announcements {
  readonly #parts: DestinationDependencies;
  readonly #host: Host;

  constructor(parts: DestinationDependencies, host: Host) {
    this.#parts = parts;
    this.#host = host;
  }

  /**
   * Starts or ends the mount's watch on a secret, depending on whether an association exists. There is one lane per
   * secret, so a start and an end never overtake each other.
   */
  async watch(lane: string): Promise<(() => void) | undefined> {
    const { env, self, associations, work, setDesired } = this.#parts;
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
        if (missed && row.wish === "present") setDesired(row, "present", Date.now());
      }
    };
  }

  async listing(): Promise<void> {
    const { env, self, record } = this.#parts;
    await projectDestination(env.LISTINGS, destinationKeyOf(self), record.row() !== null);
  }

  async associations(rows: OutboxRow[]): Promise<void> {
    const { env, self, associations } = this.#parts;
    const changes = rows.map(({ body }) => {
      const listed = JSON.parse(body) as AssociationListing;
      return { ...listed, exists: associations.ofPath(listed.mount, listed.secret) !== null };
    });
    await projectAssociations(env.LISTINGS, destinationKeyOf(self), changes);
  }

  /** Enqueues one page of associations behind the pending listing updates. @param rows hold the id before the page */
  async relist(rows: OutboxRow[]): Promise<() => void> {
    const { outbox, associations } = this.#parts;
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
    const { env, self } = this.#parts;
    const used = await syncControl(env).useApp(destinationKeyOf(self).namespace, self, this.#host.usedApp());
    if (!used.ok) warn("app-missing", { destination: self });
  }

  targets(): Promise<void> {
    const { record, neighbours } = this.#parts;
    return record.row() ? neighbours.register() : neighbours.leave();
  }

  async keyHolder(): Promise<void> {
    const { env, self, record, purge, outbox } = this.#parts;
    const isThere = record.row() !== null || purge.find() !== null;
    if (!isThere) {
      // `AccessControl` keeps the destination registered until its listings are gone: a successor must not find them.
      for (const topic of ["watch", "listing", "associations"]) await outbox.drain(topic);
      if (outbox.holds("watch")) throw new Error("its mounts do not know yet that it has ended");
      if (outbox.holds("listing") || outbox.holds("associations")) throw new Error("it is still listed");
    }
    this.#host.rekey(await accessControl(env).holdsKeys("sync-destination", self, isThere));
  }
}
