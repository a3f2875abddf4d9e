import type { Adoption, AdoptionState } from "../../contracts/sync-adoption.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { desiredSteps } from "../objects/object-plan.ts";
import type { AssociationCheck } from "./association-check.ts";
import { type Associations, associationId, type SetNaming } from "./associations.ts";
import type { DesiredState } from "./desired-state.ts";
import { parseTemplate } from "./naming.ts";

/**
 * Adopts objects that exist at the provider: their associations have the object's name as their naming, which stays when
 * they are set again. Owned by `SyncDestination`. An adoption costs as much as a set.
 */
export class Adoptions {
  constructor(
    private readonly check: AssociationCheck,
    private readonly associations: Associations,
    private readonly desiredState: DesiredState,
  ) {}

  /** @throws Sealed */
  preview(adoptions: readonly Adoption[]): Result<readonly AdoptionState[]> {
    const changeable = this.check.mayChange();
    return changeable.ok ? ok(adoptions.map((one) => this.#stateOf(one))) : changeable;
  }

  async adopt(adoption: Adoption): Promise<Result<null>> {
    const previewed = refuseIfSealed(() => this.preview([adoption]));
    if (!previewed.ok) return previewed;
    const [found] = previewed.value;
    if (found?.state === "refused") return refuse("invalid", found.reason);
    if (found?.state === "held") return ok(null);
    const set = await this.desiredState.set(adoption.secret, adoption.keys, namingOf(adoption));
    return set.ok ? ok(null) : set;
  }

  #stateOf(adoption: Adoption): AdoptionState {
    const { secret, externalName, keys } = adoption;
    const id = associationId(secret);
    const before = this.associations.find(id);
    if (before?.wish === "present") {
      const isHeld = this.associations.externalNames(id).includes(externalName);
      return isHeld ? { state: "held" } : { state: "refused", reason: "the secret is associated under another name" };
    }
    if (!isLiteral(externalName)) return { state: "refused", reason: RESPELLED };
    const plan = this.check.check(secret, keys, undefined, namingOf(adoption));
    if (!plan.ok) return { state: "refused", reason: plan.message ?? plan.reason };
    const [step, ...others] = desiredSteps(plan.steps);
    if (step?.copy.name !== externalName || others.length > 0) return { state: "refused", reason: RESPELLED };
    return step.blocked === null ? { state: "free" } : { state: "refused", reason: step.blocked };
  }
}

const RESPELLED = "the service would spell the name in another way";

/** Whether a name is a template that renders itself. */
const isLiteral = (name: string): boolean => !name.includes("{{") && parseTemplate(name).ok;

const namingOf = ({ granularity, externalName }: Adoption): SetNaming => ({
  granularity,
  template: externalName,
  adopted: true,
});
