import type { DestinationKey } from "../contracts/destination.ts";
import type { Keyless, KeysOf, PlannedObject, Preview, RecordsPage } from "../contracts/sync-destination.ts";
import { type Associations, secretOf } from "./associations.ts";
import { type Defined, resolved } from "./definition.ts";
import { type DestinationRecord, federationOf } from "./destination-record.ts";
import type { DestinationType } from "./destinations/index.ts";
import { desiredObjects } from "./external-name.ts";
import { mayBeOurs } from "./object-ownership.ts";
import { planObjects, type Step } from "./object-plan.ts";
import type { RemoteObjects } from "./remote-objects.ts";
import type { AssociationRow, RemoteObjectRow } from "./schema.ts";
import { tagsDigest } from "./tags-digest.ts";

/**
 * Plans without effect: the changes that a set or a configuration would make, from the records of a destination, and
 * the pages of recorded objects for drift checks. Called by `SyncDestination`; `inspect.ts` adds the provider's state.
 */

const PAGE = 100;

/**
 * The steps of one association as changes at the provider.
 * @param rows the association's recorded objects
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
 * The changes that a configuration would make to one page of associations once they are set again.
 * @param keys the keys that an earlier call requested in `keyless`; null on the first call
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
): Preview {
  const word = record.row()?.word || key.type;
  const scope = { namespace: key.namespace, name: key.name, word, ...definition };
  const page = associations.page(after, PAGE);
  const isKeyed = definition.granularity === "secret-key";
  const keyless = isKeyed && keys === null ? page.map(keylessOf) : [];
  /** Names that earlier associations of this page would take, by collision key. */
  const taken = new Map<string, string>();
  const planned = (keyless.length > 0 ? [] : page).flatMap((row) => {
    const found = isKeyed ? keys?.[row.id] : [];
    // A secret without a living version cannot be set.
    if (!found) return [];
    const wanted = desiredObjects(scope, type, secretOf(row), found);
    const holder = (collisionKey: string) =>
      remoteObjects.holder(collisionKey, row.id) ?? taken.get(collisionKey) ?? null;
    const rows = remoteObjects.of(row.id);
    const steps = planObjects(rows, wanted, holder);
    const blocked = steps.filter((step) => "blocked" in step && step.blocked !== null);
    // With one object per secret a blocked name refuses the set, so the recorded object stays.
    const done = !isKeyed && blocked.length > 0 ? blocked : steps;
    for (const step of done) if ("copy" in step && step.blocked === null) taken.set(step.copy.collisionKey, row.id);
    return plannedChanges(row.id, rows, done, definition.deletionPolicy).filter(({ action }) => action !== "update");
  });
  const setup = {
    namespace: key.namespace,
    type: key.type,
    connection: resolved(type, definition.connection),
    networking: definition.networking,
    ...federationOf(key.namespace, word, key.name, definition),
    updatePolicy: definition.updatePolicy,
  };
  return { planned, keyless, warnings, setup, next: page.length < PAGE ? null : (page.at(-1)?.id ?? null) };
}

const keylessOf = (row: AssociationRow): Keyless => ({
  id: row.id,
  mountUuid: row.mount_uuid,
  secretName: row.secret_name,
});

/** One page of a destination's live objects, by association, with its tags. Null when `after` is no cursor. */
export function copyRecords(
  { associations, remoteObjects }: { readonly associations: Associations; readonly remoteObjects: RemoteObjects },
  tags: Readonly<Record<string, string>>,
  { after, limit }: { readonly after: string; readonly limit: number },
): RecordsPage | null {
  const from = after === "" ? { association: "", subKey: "" } : readCursor(after);
  if (!from) return null;
  // One extra row shows whether another page follows.
  const page = remoteObjects.livePage(from, limit + 1);
  const digest = tagsDigest(tags);
  const records = page.slice(0, limit).map((copy) => {
    const certain = copy.known === 1 && associations.find(copy.association)?.status !== "PENDING";
    return {
      key: copy.sub_key === "" ? copy.association : `${copy.association}/${copy.sub_key}`,
      name: copy.external_name,
      reference: copy.reference,
      cursor: cursorOf(copy.association, copy.sub_key),
      ...(copy.tags_written === digest && { tags }),
      ...(certain && { version: copy.version }),
    };
  });
  return { records, isLast: page.length <= limit };
}

/** JSON in base64url, because ids and keys may hold any separator, and cursors are sent in URL queries. */
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
