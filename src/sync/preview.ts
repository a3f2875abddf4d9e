import type { Associations } from "./associations.ts";
import { secretOf } from "./associations.ts";
import type { Copies, Step } from "./copies.ts";
import type { Definition } from "./definition.ts";
import type { DestinationType } from "./destinations/index.ts";
import { type NamingScope, wantedCopies } from "./external-name.ts";

/** What would be done to one external object. */
export interface PlannedCopy {
  readonly association: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly action: "create" | "update" | "delete" | "retain" | "refuse";
  readonly reason?: string;
}

/** One object as it is recorded, to be compared with the provider. */
export interface CopyRecord {
  /** As in the list of associations. */
  readonly key: string;
  readonly name: string;
  readonly reference: string | null;
  /** The version that should be outside, null for none; absent while that is not known for certain. */
  readonly version?: number | null;
}

const PAGE = 200;

/** The steps of one association as changes outside. */
export function plannedCopies(association: string, steps: readonly Step[], deletionPolicy: string): PlannedCopy[] {
  return steps.flatMap((step): PlannedCopy[] => {
    if (step.kind === "drop") return [];
    if (step.kind === "retire") {
      const action = deletionPolicy === "retain" ? "retain" : "delete";
      return [{ association, ...subKey(step.row.sub_key), external_name: step.row.external_name, action }];
    }
    const { copy, blocked } = step;
    const shown = { association, ...subKey(copy.subKey), external_name: copy.name };
    if (blocked !== null) return [{ ...shown, action: "refuse", reason: blocked }];
    return [{ ...shown, action: step.kind === "keep" || step.takenOver ? "update" : "create" }];
  });
}

/** What a configuration would do to one page of associations, once they are set again: those that would change. */
export function previewed(
  associations: Associations,
  copies: Copies,
  type: DestinationType<unknown>,
  scope: NamingScope,
  definition: Pick<Definition, "deletionPolicy">,
  after: string,
): { planned: PlannedCopy[]; next: string | null } {
  const page = associations.page(after, PAGE);
  const planned = page.flatMap((row) => {
    const keys = copies.live(row.id).map((copy) => copy.sub_key);
    const steps = copies.plan(row.id, wantedCopies(scope, type, secretOf(row), keys));
    return plannedCopies(row.id, steps, definition.deletionPolicy).filter(({ action }) => action !== "update");
  });
  return { planned, next: page.length < PAGE ? null : (page.at(-1)?.id ?? null) };
}

/** One page of all live objects of a destination, by association. */
export function copyRecords(
  associations: Associations,
  copies: Copies,
  after: string,
  limit: number,
): { records: CopyRecord[]; next: string | null } {
  const page = associations.page(after, limit);
  const records = page.flatMap((row) =>
    copies.live(row.id).map((copy) => ({
      key: copy.sub_key === "" ? row.id : `${row.id}/${copy.sub_key}`,
      name: copy.external_name,
      reference: copy.reference,
      ...(copy.known === 1 && row.status !== "PENDING" && { version: copy.version }),
    })),
  );
  return { records, next: page.length < limit ? null : (page.at(-1)?.id ?? null) };
}

const subKey = (key: string): { sub_key?: string } => (key === "" ? {} : { sub_key: key });
