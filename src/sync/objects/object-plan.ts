import type { DesiredObject } from "../associations/external-name.ts";
import type { RemoteObjectRow } from "../schema.ts";
import { mayBeOurs } from "./object-ownership.ts";

/** A desired object of a plan. `blocked`: the reason it may not be pushed. */
export interface DesiredStep {
  readonly copy: DesiredObject;
  readonly blocked: string | null;
  /** Another destination owns the name, so an object under it is not ours. */
  readonly elsewhere: boolean;
  /** Other rows with the same collision key, whose object becomes this one. */
  readonly adoptedFrom: readonly RemoteObjectRow[];
}

/** One step from the recorded objects to the desired ones. */
export type Step =
  | ({ readonly kind: "add" | "keep" } & DesiredStep)
  /** The object exists or may exist, and is to be removed. */
  | { readonly kind: "retire"; readonly row: RemoteObjectRow }
  /** The object does not exist, or another row has adopted it. */
  | { readonly kind: "drop"; readonly row: RemoteObjectRow };

/** The steps about desired objects. */
export const desiredSteps = (steps: readonly Step[]) => steps.filter((step) => "copy" in step);

/**
 * Whether the object that replaces one of this key is missing: that of the same key, or any where one side is the whole
 * secret ("").
 */
export const lacksSuccessor = (subKey: string, missing: ReadonlySet<string>): boolean =>
  missing.has(subKey) || missing.has("") || (subKey === "" && missing.size > 0);

const keyOf = (subKey: string, name: string): string => `${subKey}\n${name}`;
const keyOfRow = (row: RemoteObjectRow): string => keyOf(row.sub_key, row.external_name);

/** Names owned by other destinations: collision key to a description of the owner. */
export type TakenNames = ReadonlyMap<string, string>;

export const NONE_TAKEN: TakenNames = new Map();

/**
 * Plans the steps from the recorded objects of one association to the desired ones. Pure.
 * @param holder returns the other association that holds a name (by its collision key), null for none
 */
export function planObjects(
  rows: readonly RemoteObjectRow[],
  wanted: readonly DesiredObject[],
  holder: (collisionKey: string) => string | null,
  taken: TakenNames = NONE_TAKEN,
): Step[] {
  const recorded = new Set(rows.map(keyOfRow));
  const namesakes = Map.groupBy(rows, (row) => row.fold);
  const claimants = Map.groupBy(wanted, (copy) => copy.collisionKey);
  const kept = new Set(wanted.map((copy) => keyOf(copy.subKey, copy.name)));
  const steps = wanted.map((copy): Step => {
    const key = keyOf(copy.subKey, copy.name);
    const ambiguous = (claimants.get(copy.collisionKey)?.length ?? 0) > 1;
    const elsewhere = taken.get(copy.collisionKey) ?? null;
    const blocked = refusal(copy, ambiguous, holder(copy.collisionKey), elsewhere);
    const adoptedFrom = (namesakes.get(copy.collisionKey) ?? []).filter(
      (row) => keyOfRow(row) !== key && mayBeOurs(row),
    );
    return { kind: recorded.has(key) ? "keep" : "add", copy, blocked, elsewhere: elsewhere !== null, adoptedFrom };
  });
  const leftover = rows.filter((row) => !kept.has(keyOfRow(row)));
  return [
    ...leftover.map((row): Step => ({ kind: claimants.has(row.fold) || !mayBeOurs(row) ? "drop" : "retire", row })),
    ...steps,
  ];
}

function refusal(
  copy: DesiredObject,
  ambiguous: boolean,
  holder: string | null,
  elsewhere: string | null,
): string | null {
  const name = JSON.stringify(copy.name);
  if (copy.refused !== null) return copy.refused;
  if (ambiguous) return `several keys of the secret would be called ${name}`;
  if (holder !== null) return `external name ${name} is taken by the association of ${holder}`;
  return elsewhere === null ? null : `external name ${name} is taken by ${elsewhere}, which writes to the same place`;
}
