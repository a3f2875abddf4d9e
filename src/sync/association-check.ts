import type { SecretRef } from "../contracts/sync-tasks.ts";
import { type Refusal, refuse } from "../lib/result.ts";
import type { SetNaming } from "./associations.ts";
import { associationId } from "./associations.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import type { Granularity } from "./destinations/index.ts";
import { desiredObjects, refusedKeys } from "./external-name.ts";
import type { Neighbours } from "./neighbours.ts";
import { NONE_TAKEN, type Step } from "./object-plan.ts";
import type { Purge } from "./purge.ts";
import { type RemoteObjects, unclaimed } from "./remote-objects.ts";

interface Dependencies {
  readonly record: DestinationRecord;
  readonly remoteObjects: RemoteObjects;
  readonly purge: Purge;
  readonly neighbours: Neighbours;
}

/** The plan for setting a secret: the steps for its objects, and the names to check with other destinations. */
export interface AssociationCheck {
  readonly ok: true;
  readonly found: Found;
  readonly naming: SetNaming;
  readonly steps: readonly Step[];
  /** Collision keys of names that another destination may own. */
  readonly unclaimed: readonly string[];
}

export const PURGING =
  "purge in progress: the destination is being deleted; associations can be neither set nor removed";

/** Checks an association before it is set. Returns the planned steps, or the refusal. @throws Sealed */
export function checkAssociation(
  { record, remoteObjects, purge, neighbours }: Dependencies,
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
  // With one object per secret a blocked name refuses the request; with one per key the other keys are still pushed.
  const asked = unclaimed(remoteObjects.of(associationId(secret)), wanted, neighbours.place(found));
  const [blocked] = naming.granularity === "secret-path" ? steps.flatMap(blockedOf) : [];
  return blocked === undefined ? { ok: true, found, naming, steps, unclaimed: asked } : refuse("invalid", blocked);
}

const blockedOf = (step: Step): string[] => ("blocked" in step && step.blocked !== null ? [step.blocked] : []);
