import type { SecretRef } from "../../contracts/sync-tasks.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { DestinationRecord, Found } from "../configuration/destination-record.ts";
import type { Granularity } from "../destinations/index.ts";
import type { Neighbours } from "../objects/neighbours.ts";
import { desiredSteps, NONE_TAKEN, type TakenNames } from "../objects/object-plan.ts";
import { type RemoteObjects, unclaimed } from "../objects/remote-objects.ts";
import { type Associations, associationId, type Planned, type SetNaming } from "./associations.ts";
import { desiredObjects, refusedKeys } from "./external-name.ts";
import type { Purge } from "./purge.ts";

/** The plan for setting a secret: the steps for its objects, and the names to check with other destinations. */
export interface AssociationPlan extends Planned {
  readonly ok: true;
  readonly found: Found;
  /** Collision keys of names that another destination may own. */
  readonly unclaimed: readonly string[];
}

/**
 * Checks associations before they are set, and claims their names with other destinations. Owned by `SyncDestination`.
 * Reads a few rows; a name that is used for the first time costs one RPC per neighbour.
 */
export class AssociationCheck {
  constructor(
    private readonly record: DestinationRecord,
    private readonly associations: Associations,
    private readonly remoteObjects: RemoteObjects,
    private readonly purge: Purge,
    private readonly neighbours: Neighbours,
  ) {}

  /** Whether associations may be changed: not without a destination, and not during its purge. */
  mayChange(): Result<Found> {
    const found = this.record.find();
    if (!found) return refuse("missing");
    return this.purge.runs() ? refuse("invalid", PURGING) : ok(found);
  }

  /** Returns the planned steps, or the refusal. @param own the naming, if not the destination's. @throws Sealed */
  check(
    secret: SecretRef,
    keys: readonly string[],
    taken = NONE_TAKEN,
    own: SetNaming | null = null,
  ): AssociationPlan | Refusal {
    const changeable = this.mayChange();
    if (!changeable.ok) return changeable;
    const found = changeable.value;
    const usual = { granularity: found.row.granularity as Granularity, template: found.row.template };
    const naming = own ?? this.associations.adoptedNaming(associationId(secret)) ?? usual;
    const tooMany = naming.granularity === "secret-key" ? refusedKeys(keys.length) : null;
    if (tooMany !== null) return refuse("invalid", tooMany);
    const wanted = desiredObjects(this.record.scope(found.row, naming), found.type, secret, keys);
    const steps = this.remoteObjects.plan(associationId(secret), wanted, taken);
    // With one object per secret a blocked name refuses the request; with one per key the other keys are still pushed.
    const place = this.record.place(found);
    const asked = unclaimed(this.remoteObjects.of(associationId(secret)), wanted, place);
    const blocked = desiredSteps(steps).find((step) => step.blocked !== null)?.blocked ?? null;
    if (naming.granularity === "secret-path" && blocked !== null) return refuse("invalid", blocked);
    return { ok: true, found, naming, steps, place, unclaimed: asked };
  }

  /** The plan with the names that other destinations own, without claiming any. */
  async preview(secret: SecretRef, keys: readonly string[]): Promise<AssociationPlan | Refusal> {
    const before = refuseIfSealed(() => this.check(secret, keys));
    if (!before.ok) return before;
    const taken = await this.neighbours.takenNames(before.unclaimed);
    return refuseIfSealed(() => this.check(secret, keys, taken));
  }

  /**
   * Claims the names of a plan and checks again, since the state may have changed meanwhile. Calls `store` with the new
   * plan in the same turn.
   */
  claim(
    { unclaimed }: AssociationPlan,
    secret: SecretRef,
    keys: readonly string[],
    own: SetNaming | null,
    store: (plan: AssociationPlan) => void,
  ): Promise<Result<null>> {
    return this.neighbours.claimNames(unclaimed, (taken) =>
      refuseIfSealed((): Result<null> => {
        const plan = this.check(secret, keys, taken, own);
        if (!plan.ok) return plan;
        if (!plan.unclaimed.every((name) => unclaimed.includes(name))) {
          return refuse("conflict", "a write of the destination came in between; try again");
        }
        store(plan);
        return ok(null);
      }),
    );
  }

  /** Claims names and calls `record` with those that other destinations own, in the same turn. */
  claimNames<T>(names: readonly string[], record: (taken: TakenNames) => Result<T>): Promise<Result<T>> {
    return this.neighbours.claimNames(names, (taken) => refuseIfSealed(() => record(taken)));
  }
}

const PURGING = "purge in progress: the destination is being deleted; associations can be neither set nor removed";
