import type { AssociationListing } from "../../contracts/sync-destination.ts";
import type { SecretRef } from "../../contracts/sync-tasks.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";

/**
 * Announcements of a destination to other objects, through its outbox. Listings receive its existence and its secrets,
 * mounts the secrets to report, `SyncControl` its application and targets, `AccessControl` that it holds keys. Nothing
 * is pushed to providers. `announcement-delivery.ts` delivers them. An announcement costs one outbox row.
 */

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

/** Enqueues the update of the listings for one secret. Called inside a transaction. */
export function announceListing(outbox: Outbox, secret: SecretRef): void {
  const listing: AssociationListing = { mount: secret.mountPath, secret: secret.secretName };
  outbox.enlist("associations", "", listing);
}

/** Enqueues the update of the mount's watch on a secret. Called inside a transaction. */
export function announceWatch(outbox: Outbox, { mountUuid, secretName }: SecretRef): void {
  outbox.enlistLatest("watch", watchLane(mountUuid, secretName), null);
}

/** Enqueues a full update of the listings, a page at a time; one that runs goes on. Called inside a transaction. */
export function announceAll(outbox: Outbox): void {
  outbox.enlistLatest("listing", "", null);
  if (!outbox.holds("relist")) outbox.enlist("relist", "", "");
}

/** Delivers the pending announcements about `secret` now, before the caller answers. */
export async function drainAssociation(outbox: Outbox, { mountUuid, secretName }: SecretRef): Promise<void> {
  await Promise.all([outbox.drain("watch", watchLane(mountUuid, secretName)), outbox.drain("associations")]);
}
