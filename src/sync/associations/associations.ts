import type { AssociationView, SyncStatus } from "../../contracts/sync-destination.ts";
import type { ContentRule, Granularity, SecretRef, SyncResult } from "../../contracts/sync-tasks.ts";
import type { WorkLease } from "../../platform/durable/lease.ts";
import type { WorkOrder, WorkQueue } from "../../platform/durable/work-queue.ts";
import type { Step } from "../objects/object-plan.ts";
import type { RemoteObjects } from "../objects/remote-objects.ts";
import type { QueueQuota } from "../scheduler/queue-quota.ts";
import { completionOf } from "../scheduler/retry-policy.ts";
import type { AssociationRow, RemoteObjectRow } from "../schema.ts";
import type { SyncEvents } from "../sync-events.ts";
import { statusFor, worst } from "../sync-status.ts";
import { associationView, NO_WAITS, RESTING, type Waits } from "./association-view.ts";

/** `<accessor>/<secret name>`: the key of an association in answers, and its row's id. */
export const associationId = ({ mountAccessor, secretName }: Pick<SecretRef, "mountAccessor" | "secretName">): string =>
  `${mountAccessor}/${secretName}`;

/** Types of events about successful work, by its status. */
const EVENTS: { readonly [Status in SyncStatus]?: string } = { SYNCED: "SecretSynced", UNSYNCED: "SecretUnsynced" };

const MAX_NAMINGS = 20;

/** The naming that an association was set with. */
export interface SetNaming {
  readonly granularity: Granularity;
  readonly template: string;
  /** Absent: objects hold whole secrets. */
  readonly content?: ContentRule;
  /** The template is the name of an object that was adopted; it stays when the association is set again. */
  readonly adopted?: true;
}

/** The content of the naming of an adopted object, in its row. */
const ADOPTED = "adopted";

/** The caller of a set, a request or a rule, and whether it sets one association or many. */
export interface SetBy {
  readonly manual: boolean;
  readonly order: WorkOrder;
}

/** The plan for an association that is set. */
export interface Planned {
  readonly naming: SetNaming;
  readonly steps: readonly Step[];
  /** The targets at which its names were checked to be free. */
  readonly place: string;
}

/** The rules that want an association, by name. */
type Origins = (row: AssociationRow) => readonly string[];

/** The part of the queue quota that decides whether a row is queued or waits. */
type Quota = Pick<QueueQuota, "expectRequest" | "hasRoom">;

/**
 * The associations of one destination, with desired and known state. A change of the desired state enqueues a row in
 * the work queue under the association's id. Owned by `SyncDestination`. An association costs one row, plus one row
 * per remote object. Methods that write are called inside the object's transaction.
 */
export class Associations {
  /** Cache of namings by row id; rows are immutable. */
  readonly #namings = new Map<number, SetNaming>();

  constructor(
    private readonly sql: SqlStorage,
    private readonly work: WorkQueue,
    private readonly quota: Quota,
    private readonly remoteObjects: RemoteObjects,
    private readonly events: SyncEvents,
    private readonly origins: Origins,
  ) {}

  /** Drops cached rows after a rollback. */
  forgetMemos(): void {
    this.#namings.clear();
  }

  find(id: string): AssociationRow | null {
    return this.#where("id = ?", id)[0] ?? null;
  }

  /** The association of a valid lease of its task, or null. */
  ofLease(lease: WorkLease, now: number): AssociationRow | null {
    return this.work.holds(lease, now) ? this.find(lease.id) : null;
  }

  /** Whether a task of the association is queued or leased. */
  isQueued(id: string): boolean {
    return this.work.find(id) !== null;
  }

  ofSecret(mountUuid: string, secretName: string): AssociationRow[] {
    return this.#where("mount_uuid = ? AND secret_name = ?", mountUuid, secretName);
  }

  /** Finds by the mount's last known path. Of several mounts at that path the newest wins. */
  ofPath(mountPath: string, secretName: string): AssociationRow | null {
    const where = "mount_path = ? AND secret_name = ? ORDER BY rowid DESC LIMIT 1";
    return this.#where(where, mountPath, secretName)[0] ?? null;
  }

  /** One page of a mount's associations that record another path. */
  elsewhere(mountUuid: string, path: string, after: string, limit: number): AssociationRow[] {
    return this.#where(
      "mount_uuid = ? AND secret_name > ? AND mount_path <> ? ORDER BY secret_name LIMIT ?",
      mountUuid,
      after,
      path,
      limit,
    );
  }

  /** Records the new path of a mount. Names of remote objects keep the old one until the association is set again. */
  relocate({ id }: AssociationRow, path: string): void {
    this.sql.exec(
      "UPDATE associations SET named_path = ifnull(named_path, mount_path), mount_path = ? WHERE id = ?",
      path,
      id,
    );
  }

  page(after: string, limit: number): AssociationRow[] {
    return this.#where("id > ? ORDER BY id LIMIT ?", after, limit);
  }

  any(): boolean {
    return this.page("", 1).length > 0;
  }

  /** The number of associations, counted up to `limit`. */
  count(limit: number): number {
    return this.sql.exec<{ n: number }>("SELECT count(*) AS n FROM (SELECT 1 FROM associations LIMIT ?)", limit).one()
      .n;
  }

  /** The error of a failed purge, in one sentence. */
  failures(): string {
    const page = this.page("", 1_000);
    const [first] = page.filter((row) => row.status !== "PENDING");
    const shown = first && this.views(first, NO_WAITS).find(([, view]) => view.error_message !== undefined);
    const count = page.length < 1_000 ? String(page.length) : "1000 or more";
    const because = shown ? `; the first is ${shown[0]}: ${shown[1].error_message}` : "";
    return `${count} ${count === "1" ? "secret" : "secrets"} could not be removed${because}`;
  }

  /**
   * Sets an association to present with the planned objects, under reserved quota, and forces a push of all of them.
   */
  set(secret: SecretRef, { naming, steps, place }: Planned, now: number, { manual, order }: SetBy): void {
    const id = associationId(secret);
    const before = this.find(id);
    if (!before) this.#insert(id, secret, now);
    this.sql.exec(
      "UPDATE associations SET asked = 1, manual = ?, naming = ?, mount_path = ?, named_path = NULL WHERE id = ?",
      manual || (before?.manual === 1 && before.wish === "present") ? 1 : 0,
      this.#namingId(naming),
      secret.mountPath,
      id,
    );
    this.remoteObjects.apply(id, steps, now, place);
    this.remoteObjects.forgetFingerprints(id);
    this.#enqueue(id, "present", now, { queued: true, order });
  }

  /** Ends pushes of an association, whose objects stay. A later set, removal or match ends the hold. */
  hold({ id }: AssociationRow, now: number): void {
    this.sql.exec(
      `UPDATE associations SET wish = 'held', intent = intent + 1, error_code = NULL, error_message = NULL, trace = NULL, updated = ?,
         status = CASE WHEN synced_version IS NULL THEN 'UNSYNCED' ELSE 'SYNCED' END WHERE id = ?`,
      now,
      id,
    );
    this.work.withdraw(id, now);
  }

  /** Takes a push from the queue: all rules that want the association are paused. It is pending until one goes on. */
  rest({ id }: AssociationRow, now: number): void {
    this.sql.exec(
      "UPDATE associations SET status = 'PENDING', error_code = ?, error_message = NULL, updated = ? WHERE id = ?",
      RESTING,
      now,
      id,
    );
    this.work.forget(id);
  }

  /** Queues a push again that has waited for a paused rule. */
  resume(row: AssociationRow, now: number): void {
    if (row.error_code === RESTING) this.setDesired(row, "present", now, "many");
  }

  /** Ends the wish of requests; rules may still want the association. */
  endManual(id: string): void {
    this.sql.exec("UPDATE associations SET manual = 0 WHERE id = ?", id);
  }

  /** The names of its objects at the provider. */
  externalNames(id: string): string[] {
    return this.remoteObjects.live(id).map(({ external_name }) => external_name);
  }

  /** `manual` and `rule:<name>`; null without a rule. */
  originsOf(row: AssociationRow): string[] | null {
    const rules = this.origins(row).map((rule) => `rule:${rule}`);
    return rules.length === 0 ? null : [...(row.manual === 1 ? ["manual"] : []), ...rules];
  }

  /** Whether a clean-up at the provider is owed. */
  owes({ id }: AssociationRow): boolean {
    return this.remoteObjects.owes(id);
  }

  /** The naming the association was last set with. */
  namingOf(row: AssociationRow): SetNaming {
    const kept = this.#namings.get(row.naming);
    if (kept) return kept;
    const { content, ...names } = this.sql
      .exec<{ granularity: Granularity; template: string; content: string }>(
        "SELECT granularity, template, content FROM namings WHERE id = ?",
        row.naming,
      )
      .one();
    const naming = namingIn(names, content);
    if (this.#namings.size >= MAX_NAMINGS) this.#namings.clear();
    this.#namings.set(row.naming, naming);
    return naming;
  }

  /** The naming of an adopted object: its name, not a template. Null for other associations. */
  adoptedNaming(id: string): SetNaming | null {
    const row = this.find(id);
    const naming = row && this.namingOf(row);
    return naming?.adopted ? naming : null;
  }

  /**
   * Sets the desired state, the same one included, and restarts the work. Without quota the row waits; the caller
   * requests quota after the transaction.
   * @param order the order of its push among others
   */
  setDesired({ id }: AssociationRow, desired: "present" | "absent", now: number, order: WorkOrder = "single"): void {
    this.quota.expectRequest(now);
    this.#enqueue(id, desired, now, { queued: this.quota.hasRoom(), order });
  }

  #enqueue(
    id: string,
    desired: "present" | "absent",
    now: number,
    { queued, order }: { readonly queued: boolean; readonly order: WorkOrder },
  ): void {
    this.sql.exec(
      `UPDATE associations SET wish = ?, intent = intent + 1, status = 'PENDING', error_code = NULL, error_message = NULL,
         trace = NULL, updated = ? WHERE id = ?`,
      desired,
      now,
      id,
    );
    this.work.setDesired(id, now, queued, order);
  }

  /** Records the trace that the waiting pushes of a secret continue, until its next change. */
  setTrace(mountUuid: string, secretName: string, trace: string): void {
    this.sql.exec(
      "UPDATE associations SET trace = ? WHERE mount_uuid = ? AND secret_name = ? AND status = 'PENDING'",
      trace,
      mountUuid,
      secretName,
    );
  }

  /**
   * Records the result of a task.
   * @param isFresh rights may not be in effect yet
   * @param attempts the number of attempts after which a transient failure is final; default none
   * @returns `gone` when the association was deleted, `stale` when the lease was void
   */
  complete(
    row: AssociationRow,
    result: SyncResult,
    now: number,
    { isFresh, attempts }: { readonly isFresh: boolean; readonly attempts?: number | undefined },
  ): "gone" | "stays" | "stale" {
    const ending = completionOf(result, isFresh);
    const limited = ending.kind === "retry" && attempts !== undefined ? { ...ending, attempts } : ending;
    const settled = this.work.complete(result.lease, limited, now);
    if (settled === "stale") return "stale";
    // The state at the provider is recorded even when the desired state has changed since the lease.
    for (const copy of result.copies) this.remoteObjects.record(row.id, copy, result, now);
    if (settled === "superseded") {
      if (row.wish === "held") this.work.forget(row.id);
      // A set during the task has requested another push.
      if (row.asked) this.remoteObjects.forgetFingerprints(row.id);
      return "stays";
    }
    if (settled === "done" && row.wish === "absent") {
      this.delete(row.id);
      this.events.association("SecretUnsynced", row);
      return "gone";
    }
    // Paused or out of time: the status stays PENDING.
    if (ending.kind !== "again") this.#conclude(row, result, now);
    return "stays";
  }

  /** Completes a task whose association was released during it. */
  completeReleased(lease: WorkLease, now: number): void {
    if (this.work.complete(lease, { kind: "done" }, now) === "superseded") this.work.forget(lease.id);
  }

  delete(id: string): void {
    this.#delete(id);
    this.work.forget(id);
  }

  /** Deletes an association whose objects stay. A Worker may still act on them, so another one waits for it. */
  release({ id }: AssociationRow, now: number): void {
    this.#delete(id);
    this.work.withdraw(id, now);
  }

  #delete(id: string): void {
    this.remoteObjects.forget(id);
    this.sql.exec("DELETE FROM associations WHERE id = ?", id);
  }

  /**
   * One entry per external object, by its key in responses; one for the association itself while it has no object.
   */
  views(row: AssociationRow, waits: Waits): [key: string, view: AssociationView][] {
    const live = this.remoteObjects.live(row.id);
    const known = { work: this.work.find(row.id), origins: this.originsOf(row), waits };
    if (live.length === 0) return [[row.id, associationView(row, null, known)]];
    return live.map((copy) => [
      copy.sub_key === "" ? row.id : `${row.id}/${copy.sub_key}`,
      associationView(row, copy, known),
    ]);
  }

  /** Stores the status of the association: the failure of the task, or the worst status of its objects. */
  #conclude(row: AssociationRow, result: SyncResult, now: number): void {
    const { trouble } = result;
    const live = this.remoteObjects.live(row.id);
    const obsolete = result.copies.find((copy) => copy.trouble && !live.some((one) => isSame(one, copy)));
    const shown = trouble ?? obsolete?.trouble;
    const status: SyncStatus = shown
      ? statusFor(shown)
      : (worst(live.map((copy) => copy.status)) ?? (result.version === null ? "UNSYNCED" : "SYNCED"));
    const code = shown?.code ?? null;
    const version = result.trouble || result.copies.some((copy) => copy.trouble) ? row.synced_version : result.version;
    // Not for each retry of a failure.
    if (row.status !== status || row.error_code !== code) {
      const cause = code ?? live.find((copy) => copy.status === status)?.error_code;
      const details = {
        Status: status,
        ...(version !== null && { Version: version }),
        ...(cause && { ErrorCode: cause }),
      };
      this.events.association(EVENTS[status] ?? "SyncFailed", row, details);
    }
    this.sql.exec(
      `UPDATE associations SET status = ?, error_code = ?, error_message = ?, synced_version = ?, asked = 0, updated = ?
       WHERE id = ?`,
      status,
      code,
      shown?.message ?? null,
      version,
      now,
      row.id,
    );
  }

  #insert(id: string, secret: SecretRef, now: number): void {
    this.sql.exec(
      `INSERT INTO associations (id, mount_uuid, mount_accessor, mount_path, secret_name, wish, intent, seed, status, updated)
       VALUES (?, ?, ?, ?, ?, 'present', 0, ?, 'PENDING', ?)`,
      id,
      secret.mountUuid,
      secret.mountAccessor,
      secret.mountPath,
      secret.secretName,
      crypto.randomUUID(),
      now,
    );
  }

  #namingId({ granularity, template, content, adopted }: SetNaming): number {
    const values = [granularity, template, adopted ? ADOPTED : content ? JSON.stringify(content) : ""];
    this.sql.exec("INSERT OR IGNORE INTO namings (granularity, template, content) VALUES (?, ?, ?)", ...values);
    const found = "SELECT id FROM namings WHERE granularity = ? AND template = ? AND content = ?";
    return this.sql.exec<{ id: number }>(found, ...values).one().id;
  }

  #where(condition: string, ...values: SqlStorageValue[]): AssociationRow[] {
    return this.sql.exec<AssociationRow>(`SELECT * FROM associations WHERE ${condition}`, ...values).toArray();
  }
}

function namingIn(names: Pick<SetNaming, "granularity" | "template">, content: string): SetNaming {
  if (content === ADOPTED) return { ...names, adopted: true };
  return content === "" ? names : { ...names, content: JSON.parse(content) as ContentRule };
}

const isSame = (row: RemoteObjectRow, copy: { subKey: string; name: string }): boolean =>
  row.sub_key === copy.subKey && row.external_name === copy.name;

type SecretColumns = Pick<AssociationRow, "mount_uuid" | "mount_accessor" | "mount_path" | "secret_name">;

export const secretOf = (row: SecretColumns): SecretRef => ({
  mountUuid: row.mount_uuid,
  mountAccessor: row.mount_accessor,
  mountPath: row.mount_path,
  secretName: row.secret_name,
});

/** The secret with the mount's path as names of its remote objects contain it. */
export const namedSecretOf = (row: AssociationRow): SecretRef => ({
  ...secretOf(row),
  mountPath: row.named_path ?? row.mount_path,
});
