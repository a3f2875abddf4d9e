import { type Refusal, refuse } from "../result.ts";
import { associationId, type SecretRef } from "./association.ts";
import type { SetNaming } from "./associations.ts";
import type { Copies, Step } from "./copies.ts";
import type { DestinationRecord, Found } from "./destination-record.ts";
import type { Granularity } from "./destinations/index.ts";
import { refusedKeys, wantedCopies } from "./external-name.ts";
import type { Purge } from "./purge.ts";

interface Host {
  readonly record: DestinationRecord;
  readonly copies: Copies;
  readonly purge: Purge;
}

/** What setting a secret comes to. */
export interface Admitted {
  readonly ok: true;
  readonly found: Found;
  readonly naming: SetNaming;
  readonly steps: readonly Step[];
}

export const PURGING =
  "purge in progress: the destination is being deleted; associations can be neither set nor removed";

/** What setting a secret would do to its objects, or why it may not be set. */
export function admitSet(
  { record, copies, purge }: Host,
  secret: SecretRef,
  keys: readonly string[],
): Admitted | Refusal {
  const found = record.find();
  if (!found) return refuse("missing");
  if (purge.runs()) return refuse("invalid", PURGING);
  const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
  const tooMany = naming.granularity === "secret-key" ? refusedKeys(keys.length) : null;
  if (tooMany !== null) return refuse("invalid", tooMany);
  const wanted = wantedCopies(record.scope(found.row, naming), found.type, secret, keys);
  const steps = copies.plan(associationId(secret), wanted);
  // One object that cannot be is a mistake to tell at once; of many, the others still can.
  const [blocked] = naming.granularity === "secret-path" ? steps.flatMap(blockedOf) : [];
  return blocked === undefined ? { ok: true, found, naming, steps } : refuse("invalid", blocked);
}

const blockedOf = (step: Step): string[] => ("blocked" in step && step.blocked !== null ? [step.blocked] : []);
