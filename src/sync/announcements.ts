import { destinationKeyOf } from "../contracts/destination.ts";
import { accessControl, kvStore, syncControl } from "../contracts/stubs.ts";
import { type AssociationListing, projectAssociations, projectDestination } from "../listings/destinations.ts";
import type { Outbox, OutboxRow } from "../platform/durable/outbox.ts";
import { warn } from "../platform/observability/log.ts";
import type { SecretRef } from "./association.ts";
import { secretOf } from "./associations.ts";
import type { DestinationParts } from "./parts.ts";

interface Host {
  /** The custom application in use, or null. @throws Sealed */
  usedApp(): string | null;
  rekey(term: number): void;
}

const watchLane = (mountUuid: string, secretName: string): string => `${mountUuid}\n${secretName}`;

/** Whoever must know of the destination is told what it has become. Inside a transaction. */
export function announceDestination(outbox: Outbox, isNew: boolean): void {
  for (const topic of isNew ? ["key-holder", "listing", "app", "targets"] : ["listing", "app", "targets"]) {
    outbox.enlistLatest(topic, "", null);
  }
}

/** An association has come or gone: its mount tells us of its secret, or need not any more, and lists follow. Inside a transaction. */
export function announceAssociation(outbox: Outbox, secret: SecretRef): void {
  announceWatch(outbox, secret);
  announceListing(outbox, secret);
}

function announceListing(outbox: Outbox, secret: SecretRef): void {
  const listing: AssociationListing = { mount: secret.mountPath, secret: secret.secretName };
  outbox.enlist("associations", "", listing);
}

/** Inside a transaction. */
export function announceWatch(outbox: Outbox, { mountUuid, secretName }: SecretRef): void {
  outbox.enlistLatest("watch", watchLane(mountUuid, secretName), null);
}

/** Has the listings told of all there is once more, a page at a time. Inside a transaction. */
export function announceAll(outbox: Outbox): void {
  outbox.enlistLatest("listing", "", null);
  outbox.enlistLatest("relist", "", "");
}

const RELISTED = 500;

/** Delivers what is to be known of `secret` elsewhere. */
export async function drainAssociation(outbox: Outbox, { mountUuid, secretName }: SecretRef): Promise<void> {
  await Promise.all([outbox.drain("watch", watchLane(mountUuid, secretName)), outbox.drain("associations")]);
}

/** How a destination tells others what they must know of it. Always what is so at the moment of delivery. */
export class Announcements {
  readonly #parts: DestinationParts;
  readonly #host: Host;

  constructor(parts: DestinationParts, host: Host) {
    this.#parts = parts;
    this.#host = host;
  }

  /** Has the mount tell us about a secret for as long as an association wants it. One lane a secret: coming and going never cross. */
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
      // A version written before the mount knew of us was told to nobody; a claim that is out may have read an older one.
      for (const row of associations.ofSecret(mountUuid, secretName)) {
        const waits = work.find(row.id);
        const missed = waits ? waits.claimed : newest !== row.synced_version;
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

  /** Puts a page of associations in line behind whatever else the listings are told. @param rows what the page begins behind */
  async relist(rows: OutboxRow[]): Promise<() => void> {
    const { outbox, associations } = this.#parts;
    // One page at a time: the outbox must not hold as many rows as there are associations.
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
      // Known until then, for the sake of snapshots and of its namespace: a later one at its path must not find it listed.
      for (const topic of ["watch", "listing", "associations"]) await outbox.drain(topic);
      if (outbox.holds("watch")) throw new Error("its mounts do not know yet that it has ended");
      if (outbox.holds("listing") || outbox.holds("associations")) throw new Error("it is still listed");
    }
    this.#host.rekey(await accessControl(env).holdsKeys("sync-destination", self, isThere));
  }
}
