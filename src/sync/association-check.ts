import { type Refusal, refuse } from "../lib/result.ts";
import { associationId, type SecretRef } from "./association.ts";
import type { SetNaming } from "./associations.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import type { Granularity } from "./destinations/index.ts";
import { desiredObjects, refusedKeys } from "./external-name.ts";
import type { Purge } from "./purge.ts";
import { NONE_TAKEN, type RemoteObjects, type Step, unclaimed } from "./remote-objects.ts";

interface Host {
  readonly record: DestinationRecord;
  readonly remoteObjects: RemoteObjects;
  readonly purge: Purge;
  place(found: Found): string;
}

/** What setting a secret comes to. */
export interface AssociationCheck {
  readonly ok: true;
  readonly found: Found;
  readonly naming: SetNaming;
  readonly steps: readonly Step[];
  /** Names that another destination may have. */
  readonly unclaimed: readonly string[];
}

export const PURGING =
  "purge in progress: the destination is being deleted; associations can be neither set nor removed";

/** What setting a secret would do to its objects, or why it may not be set. */
export function checkAssociation(
  { record, remoteObjects, purge, place }: Host,
  secret: SecretRef,
  keys: readonly string[],
  taken = NONE_TAKEN,
): AssociationCheck | Refusal {
  const found = record.find();
  if (!found) return refuse("missing");
  if (purge.runs()) return refuse("invalid", PURGING);
  const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
  const tooMany = naming.granularity === "secret-key" ? refusedKeys(keys.length) : null;
  if (tooMany !== null) return refuse("invalid", tooMany);
  const wanted = desiredObjects(record.scope(found.row, naming), found.type, secret, keys);
  const steps = remoteObjects.plan(associationId(secret), wanted, taken);
  // One object that cannot be is a mistake to tell at once; of many, the others still can.
  const asked = unclaimed(remoteObjects.of(associationId(secret)), wanted, place(found));
  const [blocked] = naming.granularity === "secret-path" ? steps.flatMap(blockedOf) : [];
  return blocked === undefined ? { ok: true, found, naming, steps, unclaimed: asked } : refuse("invalid", blocked);
}

const blockedOf = (step: Step): string[] => ("blocked" in step && step.blocked !== null ? [step.blocked] : []);
