import type { AssociationsPage } from "../contracts/sync-destination.ts";
import type { SecretRef } from "../contracts/sync-tasks.ts";
import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { refuseIfSealed } from "../platform/crypto/refuse-if-sealed.ts";
import { announceAssociation, announceListing, announceWatch, drainAssociation } from "./announcements.ts";
import { type AssociationCheck, checkAssociation, PURGING } from "./association-check.ts";
import { associationId, secretOf } from "./associations.ts";
import { associationsPage } from "./associations-page.ts";
import type { DestinationDependencies } from "./dependencies.ts";
import { NONE_TAKEN, type TakenNames } from "./object-plan.ts";

/** A request that sets the desired state also performs the work, so the wake-up is delayed by this long. */
const INLINE_MS = 2_500;

/**
 * Sets the desired state of a destination's associations: set, remove, and changes reported by mounts. Owned by
 * `SyncDestination`, whose RPC methods call it. A set costs one RPC to `SyncControl` when the queue quota is used up,
 * and one to each neighbour for names used for the first time.
 */
export class DesiredState {
  readonly #dependencies: DestinationDependencies;

  constructor(dependencies: DestinationDependencies) {
    this.#dependencies = dependencies;
  }

  /** Plans a set without storing it, or refuses it. @throws Sealed */
  check(secret: SecretRef, keys: readonly string[], taken = NONE_TAKEN): AssociationCheck | Refusal {
    return checkAssociation(this.#dependencies, secret, keys, taken);
  }

  /**
   * Sets an association to present, or forces another push. The caller performs the work that this enqueues.
   * @param keys the secret's top-level keys, for granularity secret-key
   */
  async set(secret: SecretRef, keys: readonly string[]): Promise<Result<AssociationsPage>> {
    const { work, quota, outbox, neighbours } = this.#dependencies;
    const id = associationId(secret);
    const admitted = refuseIfSealed(() => this.check(secret, keys));
    if (!admitted.ok) return admitted;
    const reserved = !work.find(id);
    if (reserved && !(await quota.reserve())) {
      return refuse("unavailable", "the sync queue is at capacity; nothing was recorded");
    }
    try {
      // Checked again, because the state may have changed while quota was requested.
      const written = await neighbours.claimNames(admitted.unclaimed, (taken) =>
        refuseIfSealed(() => this.#recordSet(secret, keys, admitted.unclaimed, taken)),
      );
      if (!written.ok) return written;
    } finally {
      if (reserved) quota.release();
    }
    await drainAssociation(outbox, secret);
    return associationsPage(this.#dependencies, [id]);
  }

  /** Sets an association to absent. Succeeds when there is no association. */
  async remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Promise<Result<AssociationsPage>> {
    const { record, purge, associations, work, quota, wakeUp, commit } = this.#dependencies;
    if (!record.row()) return refuse("missing");
    if (purge.runs()) return refuse("invalid", PURGING);
    const id = associationId(secret);
    const row = associations.find(id);
    if (row) {
      const now = Date.now();
      commit(() => {
        associations.setDesired(row, "absent", now);
        wakeUp.expectLeaseWithin(INLINE_MS, now);
      });
      if (work.waiting() > 0) await quota.tryRequest();
    }
    return associationsPage(this.#dependencies, [id]);
  }

  /** Enqueues pushes of changed secrets of a mount. Never refused: without quota the rows wait. */
  async changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    const { associations, gate, wakeUp, work, quota, commit, waitUntil } = this.#dependencies;
    const rows = secretNames
      .flatMap((secretName) => associations.ofSecret(mountUuid, secretName))
      .filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const rings = gate.pausedUntil() <= now && wakeUp.shouldNotify(now);
    commit(() => {
      for (const row of rows) associations.setDesired(row, "present", now);
    });
    if (work.waiting() > 0) await quota.tryRequest();
    // Sent after the response: the mount's delivery is complete once the rows are stored.
    if (rings) waitUntil(wakeUp.notify());
  }

  /** @param asked the names checked with other destinations; @param taken the names among them that they own */
  #recordSet(secret: SecretRef, keys: readonly string[], asked: readonly string[], taken: TakenNames): Result<null> {
    const { associations, resync, wakeUp, outbox, commit, neighbours } = this.#dependencies;
    const admitted = this.check(secret, keys, taken);
    if (!admitted.ok) return admitted;
    if (!admitted.unclaimed.every((name) => asked.includes(name))) {
      return refuse("conflict", "a write of the destination came in between; try again");
    }
    const { naming, steps, found } = admitted;
    const now = Date.now();
    commit(() => {
      const before = associations.find(associationId(secret));
      if (before) {
        announceWatch(outbox, secret);
        // The mount moved since the last set.
        if (before.mount_path !== secret.mountPath) {
          for (const listed of [secretOf(before), secret]) announceListing(outbox, listed);
        }
      } else {
        resync.begin(now);
        announceAssociation(outbox, secret);
      }
      associations.set(secret, { naming, steps, place: neighbours.place(found) }, now);
      wakeUp.expectLeaseWithin(INLINE_MS, now);
    });
    return ok(null);
  }
}
