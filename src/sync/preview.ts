import type { DestinationKey } from "../contracts/destination.ts";
import type { Setup } from "./association.ts";
import { type Associations, secretOf } from "./associations.ts";
import { type Defined, resolved } from "./definition.ts";
import type { DestinationRecord } from "./destination-record.ts";
import type { DestinationType } from "./destinations/index.ts";
import { desiredObjects } from "./external-name.ts";
import { mayBeOurs, planObjects, type RemoteObjects, type Step } from "./remote-objects.ts";
import type { AssociationRow, RemoteObjectRow } from "./schema.ts";

/** What would be done to one external object. */
export interface PlannedObject {
  readonly association: string;
  readonly sub_key?: string;
  readonly external_name: string;
  readonly action: "create" | "update" | "delete" | "retain" | "refuse";
  readonly reason?: string;
}

/** What looking at a provider takes. Holds connection secrets: it lives in memory only. */
export type InspectSetup = Pick<Setup, "namespace" | "type" | "connection" | "updatePolicy">;

/** An association whose objects depend on the keys that its secret has now. */
export interface Keyless {
  readonly id: string;
  readonly mountUuid: string;
  readonly secretName: string;
}

/** The top-level keys of secrets by the ids of their associations; null for a secret that is gone. */
export type KeysOf = Readonly<Record<string, readonly string[] | null>>;

/** A page of a preview. */
export interface PreviewPage {
  readonly planned: readonly PlannedObject[];
  /** What the preview lacks; nothing is planned for these. */
  readonly keyless: readonly Keyless[];
  /** Behind which association the next page begins; null on the last. */
  readonly next: string | null;
}

const PAGE = 100;

/**
 * The steps of one association as changes outside.
 * @param rows the objects that it has now
 */
export function plannedChanges(
  association: string,
  rows: readonly RemoteObjectRow[],
  steps: readonly Step[],
  deletionPolicy: string,
): PlannedObject[] {
  const ours = new Set(rows.filter(mayBeOurs).map((row) => row.external_name));
  return steps.flatMap((step): PlannedObject[] => {
    if (step.kind === "drop") return [];
    if (step.kind === "retire") {
      const action = deletionPolicy === "retain" ? "retain" : "delete";
      return [{ association, ...subKey(step.row.sub_key), external_name: step.row.external_name, action }];
    }
    const { copy, blocked } = step;
    const shown = { association, ...subKey(copy.subKey), external_name: copy.name };
    if (blocked !== null) return [{ ...shown, action: "refuse", reason: blocked }];
    return [{ ...shown, action: ours.has(copy.name) || step.adoptedFrom.length > 0 ? "update" : "create" }];
  });
}

/**
 * What a configuration would do to one page of associations, once they are set again: those that would change.
 * @param keys what an earlier call found missing; null on the first
 */
export function previewed(
  {
    record,
    associations,
    remoteObjects,
  }: { record: DestinationRecord; associations: Associations; remoteObjects: RemoteObjects },
  key: DestinationKey,
  { definition, type, warnings }: Defined & { readonly type: DestinationType<unknown> },
  { after, keys }: { readonly after: string; readonly keys: KeysOf | null },
): PreviewPage & { readonly setup: InspectSetup; readonly warnings: readonly string[] } {
  const scope = { namespace: key.namespace, name: key.name, word: record.row()?.word || key.type, ...definition };
  const page = associations.page(after, PAGE);
  const isKeyed = definition.granularity === "secret-key";
  const keyless = isKeyed && keys === null ? page.map(keylessOf) : [];
  /** Names that associations of this page would take. */
  const taken = new Map<string, string>();
  const planned = (keyless.length > 0 ? [] : page).flatMap((row) => {
    const found = isKeyed ? keys?.[row.id] : [];
    // A secret that is gone cannot be set.
    if (!found) return [];
    const wanted = desiredObjects(scope, type, secretOf(row), found);
    const holder = (fold: string) => remoteObjects.holder(fold, row.id) ?? taken.get(fold) ?? null;
    const rows = remoteObjects.of(row.id);
    const steps = planObjects(rows, wanted, holder);
    const blocked = steps.filter((step) => "blocked" in step && step.blocked !== null);
    // An only object that cannot be is refused as a whole: what is there stays.
    const done = !isKeyed && blocked.length > 0 ? blocked : steps;
    for (const step of done) if ("copy" in step && step.blocked === null) taken.set(step.copy.fold, row.id);
    return plannedChanges(row.id, rows, done, definition.deletionPolicy).filter(({ action }) => action !== "update");
  });
  const setup = {
    namespace: key.namespace,
    type: key.type,
    connection: resolved(type, definition.connection),
    updatePolicy: definition.updatePolicy,
  };
  return { planned, keyless, warnings, setup, next: page.length < PAGE ? null : (page.at(-1)?.id ?? null) };
}

const keylessOf = (row: AssociationRow): Keyless => ({
  id: row.id,
  mountUuid: row.mount_uuid,
  secretName: row.secret_name,
});

/** One object as it is recorded, to be compared with the provider. */
export interface ObjectRecord {
  /** As in the list of associations. */
  readonly key: string;
  readonly name: string;
  readonly reference: string | null;
  /** A page that begins behind this one. */
  readonly cursor: string;
  /** The version that should be outside, null for none; absent while that is not known for certain. */
  readonly version?: number | null;
}

export interface RecordsPage {
  readonly records: readonly ObjectRecord[];
  readonly isLast: boolean;
}

/** One page of all live objects of a destination, by association. Null: `after` is no cursor. */
export function copyRecords(
  { associations, remoteObjects }: { readonly associations: Associations; readonly remoteObjects: RemoteObjects },
  after: string,
  limit: number,
): RecordsPage | null {
  const from = after === "" ? { association: "", subKey: "" } : readCursor(after);
  if (!from) return null;
  // One more tells whether another page follows.
  const page = remoteObjects.livePage(from, limit + 1);
  const records = page.slice(0, limit).map((copy) => {
    const certain = copy.known === 1 && associations.find(copy.association)?.status !== "PENDING";
    return {
      key: copy.sub_key === "" ? copy.association : `${copy.association}/${copy.sub_key}`,
      name: copy.external_name,
      reference: copy.reference,
      cursor: cursorOf(copy.association, copy.sub_key),
      ...(certain && { version: copy.version }),
    };
  });
  return { records, isLast: page.length <= limit };
}

/** Ids of associations and keys of secrets may hold any separator, and cursors travel in queries. */
const cursorOf = (...position: [association: string, subKey: string]): string =>
  Buffer.from(JSON.stringify(position)).toString("base64url");

function readCursor(cursor: string): { association: string; subKey: string } | null {
  try {
    const [association, subKey] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as unknown[];
    return typeof association === "string" && typeof subKey === "string" ? { association, subKey } : null;
  } catch {
    return null;
  }
}

const subKey = (key: string): { sub_key?: string } => (key === "" ? {} : { sub_key: key });
