import { ok, type Refusal, type Result, refuse } from "../lib/result.ts";
import { guarded } from "../platform/crypto/refuse-if-sealed.ts";
import { announceAssociation, announceWatch, drainAssociation } from "./announcements.ts";
import { associationId, type SecretRef } from "./association.ts";
import { type Admitted, admitSet, PURGING } from "./association-check.ts";
import { type AssociationsPage, associationsPage } from "./associations-page.ts";
import type { DestinationParts } from "./parts.ts";
import { NOT_TAKEN, type Taken } from "./remote-objects.ts";

/** The request that states a wish also performs it; the doorbell keeps quiet for that long. */
const INLINE_MS = 2_500;

/** What is wished to be at a destination: secrets are set, removed, and change. */
export class Wishes {
  readonly #parts: DestinationParts;

  constructor(parts: DestinationParts) {
    this.#parts = parts;
  }

  /** What setting a secret would do to its objects, or why it may not be set. @throws Sealed */
  admit(secret: SecretRef, keys: readonly string[], taken = NOT_TAKEN): Admitted | Refusal {
    return admitSet(this.#parts, secret, keys, taken);
  }

  /**
   * Wishes a secret to be here, or here again. The caller performs the work that this leaves.
   * @param keys the secret's top-level keys, for destinations with one object a key
   */
  async set(secret: SecretRef, keys: readonly string[]): Promise<Result<AssociationsPage>> {
    const { work, share, outbox, neighbours } = this.#parts;
    const id = associationId(secret);
    const admitted = guarded(() => this.admit(secret, keys));
    if (!admitted.ok) return admitted;
    const reserved = !work.find(id);
    if (reserved && !(await share.reserve())) {
      return refuse("unavailable", "the sync queue is at capacity; nothing was recorded");
    }
    try {
      // Once more: something may have changed while there was a question for room.
      const written = await neighbours.claim(admitted.unclaimed, (taken) =>
        guarded(() => this.#recordSet(secret, keys, admitted.unclaimed, taken)),
      );
      if (!written.ok) return written;
    } finally {
      if (reserved) share.release();
    }
    await drainAssociation(outbox, secret);
    return associationsPage(this.#parts, [id]);
  }

  /** Wishes a secret to be gone from here. No association is a success. */
  async remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Promise<Result<AssociationsPage>> {
    const { record, purge, associations, work, share, bell, commit, want } = this.#parts;
    if (!record.row()) return refuse("missing");
    if (purge.runs()) return refuse("invalid", PURGING);
    const id = associationId(secret);
    const row = associations.find(id);
    if (row) {
      const now = Date.now();
      commit(() => {
        want(row, "absent", now);
        bell.expectClaimWithin(INLINE_MS, now);
      });
      if (work.waiting() > 0) await share.tryAsk();
    }
    return associationsPage(this.#parts, [id]);
  }

  /** Secrets of a mount have changed in some way: what is here must be made their newest state. Never refused: it waits for room. */
  async changed(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    const { associations, pause, bell, work, share, commit, want, behind } = this.#parts;
    const rows = secretNames
      .flatMap((secretName) => associations.ofSecret(mountUuid, secretName))
      .filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const rings = pause.until() <= now && bell.lift(now);
    commit(() => {
      for (const row of rows) want(row, "present", now);
    });
    if (work.waiting() > 0) await share.tryAsk();
    // Behind the answer: whoever told us has done its part once this is stored.
    if (rings) behind(bell.ring());
  }

  /** @param asked the names that other destinations were asked for; @param taken those of them that they have */
  #recordSet(secret: SecretRef, keys: readonly string[], asked: readonly string[], taken: Taken): Result<null> {
    const { associations, scan, bell, outbox, commit, place } = this.#parts;
    const admitted = this.admit(secret, keys, taken);
    if (!admitted.ok) return admitted;
    if (!admitted.unclaimed.every((name) => asked.includes(name))) {
      return refuse("conflict", "a write of the destination came in between; try again");
    }
    const { naming, steps, found } = admitted;
    const now = Date.now();
    commit(() => {
      if (associations.find(associationId(secret))) announceWatch(outbox, secret);
      else {
        scan.begin(now);
        announceAssociation(outbox, secret);
      }
      associations.set(secret, { naming, steps, place: place(found) }, now, true);
      bell.expectClaimWithin(INLINE_MS, now);
    });
    return ok(null);
  }
}
