import { type CloudStep, step } from "./calls.ts";
import { grantOf } from "./policy.ts";
import { nothing, type Removal } from "./removal.ts";

/**
 * State of a right. `tried`: the call was sent, so the right may exist. `unwanted`: to be removed, if it exists.
 * Persisted in jobs and roles.
 *
 *     wanted ──call sent──► tried ──answered──► given
 *                             └────────┬──────────┘
 *                                      ▼
 *                                  unwanted ──► removed
 */
export interface Grant {
  /** Full name. */
  readonly resource: string;
  readonly role: string;
  readonly member: string;
  readonly standing: "wanted" | "tried" | "given" | "unwanted";
}

const textOf = ({ role, member }: Grant): string => grantOf(role, member);
const sameAs = (one: Grant) => (other: Grant) => other.resource === one.resource && textOf(other) === textOf(one);

/** The rights that a change leads from `actual` to `desired`. */
export function plannedGrants(actual: readonly Grant[], desired: readonly Grant[]): Grant[] {
  const others = actual
    .filter((grant) => !desired.some(sameAs(grant)))
    .filter(({ standing }) => standing !== "wanted")
    .map((grant) => ({ ...grant, standing: "unwanted" }) as const);
  const kept = desired.map((grant) => {
    const known = actual.find(sameAs(grant));
    return known?.standing === "given" || known?.standing === "tried" ? known : grant;
  });
  return [...kept, ...others];
}

/** The call that changes the policy of the next resource; null when every right is as desired. */
export function nextGrants(grants: readonly Grant[]): CloudStep | null {
  const open = grants.find(({ standing }) => standing !== "given");
  if (!open) return null;
  const here = grants.filter(({ resource, standing }) => resource === open.resource && standing !== "given");
  const remove = here.filter(({ standing }) => standing === "unwanted");
  const add = here.filter(({ standing }) => standing !== "unwanted");
  return step("changePolicy", open.resource, add.map(textOf), remove.map(textOf));
}

/** The rights before a call, which may be applied without an answer. */
export const grantsTried = (grants: readonly Grant[], resource: string): Grant[] =>
  grants.map((grant) =>
    grant.resource === resource && grant.standing === "wanted" ? { ...grant, standing: "tried" } : grant,
  );

/** The rights after a successful call. */
export const grantsMade = (grants: readonly Grant[], resource: string): Grant[] =>
  grants.flatMap((grant) => {
    if (grant.resource !== resource) return [grant];
    return grant.standing === "unwanted" ? [] : [{ ...grant, standing: "given" }];
  });

/** Whether the next call only removes rights. */
export const onlyRemoves = ({ args }: CloudStep): boolean => (args[1] as readonly string[]).length === 0;

/** Items that remove all rights that may exist, by resource. */
export function grantItems(grants: readonly Grant[]): Removal["items"] {
  const made = grants.filter(({ standing }) => standing !== "wanted");
  const resources = [...new Set(made.map(({ resource }) => resource))];
  return resources.map((resource) => ({
    kind: "grants",
    resource,
    grants: made.filter((grant) => grant.resource === resource).map(textOf),
  }));
}

/** Removes rights, and then an account; null without either. */
export function removalOf(grants: readonly Grant[], account: string | null, madeAt: number): Removal | null {
  const items = [...grantItems(grants), ...(account === null ? [] : [{ kind: "account", email: account } as const])];
  return items.length === 0 ? null : { ...nothing, items, madeAt };
}
