import type { SecretRef } from "../../contracts/sync-tasks.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { WakeUp } from "../../platform/durable/wake-up.ts";
import type { TakenNames } from "../objects/object-plan.ts";
import type { QueueQuota } from "../scheduler/queue-quota.ts";
import type { Resync } from "../scheduler/resync.ts";
import type { AssociationRow } from "../schema.ts";
import { announceAssociation, announceListing, announceWatch, drainAssociation } from "./announcements.ts";
import type { AssociationCheck, AssociationPlan } from "./association-check.ts";
import { type Associations, associationId, type SetBy, type SetNaming, secretOf } from "./associations.ts";

/** A request that sets the desired state also performs the work, so the wake-up is delayed by this long. */
const INLINE_MS = 2_500;

/** Associations that a rule or a selector sets together. The functions are called inside the transaction. */
export interface SetPage {
  readonly secrets: readonly SecretRef[];
  /** Null: the destination's, or that of an adopted object. */
  readonly naming: SetNaming | null;
  /** By a request, not by a rule. */
  readonly manual: boolean;
  /** `settled`: another origin decides about the secret. `stop`: the rule has changed, so no further one is set. */
  readonly prepare: (secret: SecretRef) => "set" | "settled" | "stop";
  /** Records that a secret was set or left, or why it is refused. */
  readonly settle: (secret: SecretRef, problem: string | null) => void;
}

/**
 * Sets the desired state of a destination's associations on request: present or absent. Owned by `SyncDestination`,
 * whose RPC methods call it. A set costs one RPC to `SyncControl` when the queue quota is used up; names
 * used for the first time cost one to each neighbour.
 */
export class DesiredState {
  constructor(
    private readonly object: ObjectContext,
    private readonly check: AssociationCheck,
    private readonly associations: Associations,
    private readonly quota: QueueQuota,
    private readonly resync: Resync,
    private readonly wakeUp: WakeUp,
    /** Whether a rule wants an association that requests no longer want; the rule then sets it again. */
    private readonly takesOver: (row: AssociationRow) => boolean,
  ) {}

  /**
   * Sets an association to present, or forces another push. The caller performs the work that this enqueues.
   * @param keys the secret's top-level keys, for granularity secret-key
   * @param naming null: the destination's
   * @returns the association's id
   */
  async set(secret: SecretRef, keys: readonly string[], naming: SetNaming | null = null): Promise<Result<string>> {
    const id = associationId(secret);
    const plan = refuseIfSealed(() => this.check.check(secret, keys, undefined, naming));
    if (!plan.ok) return plan;
    const reserved = !this.associations.isQueued(id);
    if (reserved && !(await this.quota.reserve())) {
      return refuse("unavailable", "the sync queue is at capacity; nothing was recorded");
    }
    try {
      const stored = await this.check.claim(plan, secret, keys, naming, (again) =>
        this.#store(secret, again, { manual: true, order: "single" }),
      );
      if (!stored.ok) return stored;
    } finally {
      if (reserved) this.quota.release();
    }
    await drainAssociation(this.object.outbox, secret);
    return ok(id);
  }

  /**
   * Sets associations in one transaction, with one check of their names with other destinations. Objects by key
   * are planned by tasks, which read the keys.
   * @returns whether all were settled; the others are tried again later
   */
  async setPage(page: SetPage): Promise<Result<boolean>> {
    const { secrets, naming } = page;
    const names = new Set<string>();
    for (const secret of secrets) {
      const plan = refuseIfSealed(() => this.check.check(secret, [], undefined, naming));
      if (plan.ok) for (const name of plan.unclaimed) names.add(name);
      else if (plan.reason !== "invalid") return plan;
    }
    const reserved = await this.#reserve(
      secrets.filter((secret) => !this.associations.isQueued(associationId(secret))),
    );
    try {
      return await this.check.claimNames([...names], (taken) => ok(this.#storePage(page, names, taken, reserved)));
    } finally {
      this.quota.release(reserved);
    }
  }

  /** Reserves quota. @returns for how many of these there is room */
  async #reserve(secrets: readonly SecretRef[]): Promise<number> {
    const answers = await Promise.allSettled(secrets.map(() => this.quota.reserve()));
    const granted = answers.filter((answer) => answer.status === "fulfilled" && answer.value).length;
    const failed = answers.find((answer) => answer.status === "rejected");
    if (!failed) return granted;
    this.quota.release(granted);
    throw failed.reason;
  }

  #storePage(
    { secrets, naming, manual, prepare, settle }: SetPage,
    claimed: ReadonlySet<string>,
    taken: TakenNames,
    reserved: number,
  ): boolean {
    let room = reserved;
    return this.object.commit(() => {
      for (const secret of secrets) {
        const step = prepare(secret);
        if (step === "stop") return false;
        if (step === "settled") {
          settle(secret, null);
          continue;
        }
        // Names of the same page are taken by now.
        const plan = this.check.check(secret, [], taken, naming);
        if (!plan.ok) {
          if (plan.reason !== "invalid") return false;
          settle(secret, plan.message || "refused");
          continue;
        }
        if (!plan.unclaimed.every((name) => claimed.has(name))) return false;
        if (!this.associations.isQueued(associationId(secret)) && room-- <= 0) return false;
        this.#store(secret, plan, { manual, order: "many" });
        settle(secret, null);
      }
      return true;
    });
  }

  /** Sets an association to absent. Succeeds when there is no association. @returns the association's id */
  async remove(secret: Pick<SecretRef, "mountAccessor" | "secretName">): Promise<Result<string>> {
    const changeable = this.check.mayChange();
    if (!changeable.ok) return changeable;
    const id = associationId(secret);
    const row = this.associations.find(id);
    if (row) {
      const now = Date.now();
      this.object.commit(() => {
        this.associations.endManual(id);
        // A rule that wants the secret sets it with its own name.
        if (!this.takesOver(row)) this.associations.setDesired(row, "absent", now);
        this.wakeUp.expectLeaseWithin(INLINE_MS, now);
      });
      await this.quota.requestForWaiting();
    }
    return ok(id);
  }

  #store(secret: SecretRef, plan: AssociationPlan, how: SetBy): void {
    const { outbox } = this.object;
    const now = Date.now();
    this.object.commit(() => {
      const before = this.associations.find(associationId(secret));
      if (before) {
        announceWatch(outbox, secret);
        // The mount moved since the last set.
        if (before.mount_path !== secret.mountPath) {
          for (const listed of [secretOf(before), secret]) announceListing(outbox, listed);
        }
      } else {
        this.resync.begin(now);
        announceAssociation(outbox, secret);
      }
      this.associations.set(secret, plan, now, how);
      if (how.order === "single") this.wakeUp.expectLeaseWithin(INLINE_MS, now);
    });
  }
}
