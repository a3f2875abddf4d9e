import type { DestinationKey } from "../../contracts/destination.ts";
import type { Keyless, KeysOf, ObjectSource, Preview, RecordsPage } from "../../contracts/sync-destination.ts";
import type { PlannedObject, SecretRef } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { settings } from "../../platform/settings.ts";
import type { AssociationCheck } from "../associations/association-check.ts";
import { owedNote } from "../associations/association-view.ts";
import { type Associations, associationId, secretOf } from "../associations/associations.ts";
import { desiredObjects, type NamingScope } from "../associations/external-name.ts";
import type { Definition } from "../configuration/definition.ts";
import { type DestinationRecord, inspectSetup } from "../configuration/destination-record.ts";
import type { DestinationType, Granularity } from "../destinations/index.ts";
import { mayBeOurs } from "../objects/object-ownership.ts";
import { desiredSteps, lacksSuccessor, planObjects, type Step } from "../objects/object-plan.ts";
import type { RemoteObjects } from "../objects/remote-objects.ts";
import { tagsDigest } from "../objects/tags-digest.ts";
import type { AssociationRow, RemoteObjectRow } from "../schema.ts";

const PAGE = 100;

/**
 * Plans without effect: the changes that a set or a configuration would make, from the records of a destination, and
 * the pages of recorded objects for drift checks. Owned by `SyncDestination`; `inspect.ts` adds the provider's state.
 * Reads rows; a preview of a set costs one RPC per neighbour for names used for the first time.
 */
export class Previews {
  constructor(
    private readonly object: ObjectContext,
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly remoteObjects: RemoteObjects,
    private readonly check: AssociationCheck,
  ) {}

  /** The changes that setting a secret would make. */
  async set(secret: SecretRef, keys: readonly string[]): Promise<Result<PlannedObject[]>> {
    const plan = await this.check.preview(secret, keys);
    if (!plan.ok) return plan;
    const id = associationId(secret);
    return ok(plannedChanges(id, this.remoteObjects.of(id), plan.steps, plan.found.row.deletion_policy));
  }

  /**
   * The changes that a configuration would make to one page of associations once they are set again.
   * @param keys the keys that an earlier call requested in `keyless`; null on the first call
   * @throws Sealed
   */
  configure(
    key: DestinationKey,
    body: Readonly<Record<string, unknown>>,
    mode: "write" | "patch",
    { after, keys, origin }: { readonly after: string; readonly keys: KeysOf | null; readonly origin?: string },
  ): Result<Preview> {
    const defined = this.record.define(key, body, mode, settings(this.object.env), origin);
    if (!defined.ok) return defined;
    const { definition, type, warnings } = defined.value;
    const word = this.record.row()?.word || key.type;
    const scope = { namespace: key.namespace, name: key.name, word, ...definition };
    const page = this.associations.page(after, PAGE);
    const keyless = definition.granularity === "secret-key" && keys === null ? page.map(keylessOf) : [];
    const planned = keyless.length > 0 ? [] : this.#planned(page, { definition, type }, scope, keys);
    const setup = inspectSetup({ ...key, word }, type, definition);
    return ok({ planned, keyless, warnings, setup, next: page.length < PAGE ? null : (page.at(-1)?.id ?? null) });
  }

  #planned(
    page: readonly AssociationRow[],
    { definition, type }: { readonly definition: Definition; readonly type: DestinationType<unknown> },
    scope: NamingScope,
    keys: KeysOf | null,
  ): PlannedObject[] {
    const isKeyed = definition.granularity === "secret-key";
    /** Names that earlier associations of this page would take, by collision key. */
    const taken = new Map<string, string>();
    return page.flatMap((row) => {
      const found = isKeyed ? keys?.[row.id] : [];
      // A secret without a living version cannot be set.
      if (!found) return [];
      const wanted = desiredObjects(scope, type, secretOf(row), found);
      const holder = (collisionKey: string) =>
        this.remoteObjects.holder(collisionKey, row.id) ?? taken.get(collisionKey) ?? null;
      const rows = this.remoteObjects.of(row.id);
      const steps = planObjects(rows, wanted, holder);
      const blocked = desiredSteps(steps).filter((step) => step.blocked !== null);
      // With one object per secret a blocked name refuses the set, so the recorded object stays.
      const done = !isKeyed && blocked.length > 0 ? blocked : steps;
      for (const { copy, blocked } of desiredSteps(done)) if (blocked === null) taken.set(copy.collisionKey, row.id);
      return plannedChanges(row.id, rows, done, definition.deletionPolicy).filter(({ action }) => action !== "update");
    });
  }

  /** One page of the destination's live objects, by association, with its tags. */
  records(after: string, limit: number): Result<RecordsPage> {
    const destination = this.record.row();
    if (!destination) return refuse("missing");
    const from = after === "" ? { association: "", subKey: "" } : readCursor(after);
    if (!from) return refuse("invalid", "after: must be what an earlier answer said in next");
    const tags = this.record.tags(destination);
    // One extra row shows whether another page follows.
    const page = this.remoteObjects.livePage(from, limit + 1);
    const digest = tagsDigest(tags);
    const records = page.slice(0, limit).map((copy) => {
      const row = this.associations.find(copy.association);
      const origins = row && this.associations.originsOf(row);
      const certain = copy.known === 1 && row?.status !== "PENDING";
      return {
        key: copy.sub_key === "" ? copy.association : `${copy.association}/${copy.sub_key}`,
        name: copy.external_name,
        reference: copy.reference,
        cursor: cursorOf(copy.association, copy.sub_key),
        ...(copy.tags_written === digest && { tags }),
        ...(certain && { version: copy.version }),
        ...(origins && { origins }),
        ...(row && { source: { ...this.#sourceOf(row), subKey: copy.sub_key } }),
        ...(copy.owed !== null && { owed: owedNote(copy.owed) }),
      };
    });
    return ok({ records, isLast: page.length <= limit });
  }

  #sourceOf(row: AssociationRow): Omit<ObjectSource, "subKey"> {
    const { granularity, content } = this.associations.namingOf(row);
    return { mountUuid: row.mount_uuid, secretName: row.secret_name, granularity, ...(content && { content }) };
  }

  /** An external name: of an existing object, else of a sample secret beside the first association's. */
  sampleName(): string | null {
    const found = this.record.find();
    if (!found) return null;
    const pushed = this.remoteObjects.anyPushed();
    if (pushed !== null) return pushed;
    const [row] = this.associations.page("", 1);
    const made = { mountUuid: "", mountAccessor: "kv_00000000", mountPath: "kv/" };
    const secret = { ...(row ? secretOf(row) : made), secretName: "sallyport-check" };
    const naming = { granularity: found.row.granularity as Granularity, template: found.row.template };
    return desiredObjects(this.record.scope(found.row, naming), found.type, secret, ["key"])[0]?.name || null;
  }
}

const keylessOf = (row: AssociationRow): Keyless => ({
  id: row.id,
  mountUuid: row.mount_uuid,
  secretName: row.secret_name,
});

/**
 * The steps of one association as changes at the provider. An object stays without its successor.
 * @param rows the association's recorded objects
 */
function plannedChanges(
  association: string,
  rows: readonly RemoteObjectRow[],
  steps: readonly Step[],
  deletionPolicy: string,
): PlannedObject[] {
  const ours = new Set(rows.filter((row) => mayBeOurs(row) || row.retained === 1).map((row) => row.external_name));
  const blocked = desiredSteps(steps).filter((step) => step.blocked !== null);
  const missing = new Set(blocked.map(({ copy }) => copy.subKey));
  return steps.flatMap((step): PlannedObject[] => {
    if (step.kind === "drop") return [];
    if (step.kind === "retire") {
      const action = deletionPolicy === "retain" ? "retain" : "delete";
      if (action === "delete" && lacksSuccessor(step.row.sub_key, missing)) return [];
      return [{ association, ...subKey(step.row.sub_key), external_name: step.row.external_name, action }];
    }
    const { copy, blocked } = step;
    const shown = { association, ...subKey(copy.subKey), external_name: copy.name };
    if (blocked !== null) return [{ ...shown, action: "refuse", reason: blocked }];
    return [{ ...shown, action: ours.has(copy.name) || step.adoptedFrom.length > 0 ? "update" : "create" }];
  });
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
