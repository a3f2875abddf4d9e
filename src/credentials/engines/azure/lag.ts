import type { CloudCode, CloudFailure } from "../../../contracts/cloud-calls.ts";
import type { Cloud } from "./directory.ts";

/** Replication lag of the directory: refusals shortly after a change that only mean "not replicated yet". */

/** Lag of objects in the directory and in Resource Manager. */
const freshMs = 90_000;
/** Lag of sign-in, the slowest replica. */
const signInMs = 5 * 60_000;
/** Lag of a deleted object's appearance among the objects that can be purged. */
const deletedMs = 60_000;

/** Refusals that replication lag may cause, with the longest lag in ms. */
type Lag = Partial<Record<CloudCode, number>>;

/**
 * Lags by call. "Denied" is included where the permission for an earlier call implies the permission for this one.
 * Removals are included, because a "not found" caused by lag would leave the object behind.
 */
const lags: Partial<Record<keyof Cloud, Lag>> = {
  createServicePrincipal: { not_replicated: freshMs, not_found: freshMs, permission_denied: freshMs },
  addPrincipalPassword: { not_replicated: freshMs, not_found: freshMs, permission_denied: freshMs },
  addApplicationPassword: { not_replicated: freshMs, not_found: freshMs, permission_denied: freshMs },
  updateApplication: { not_found: freshMs },
  createRoleAssignment: { not_replicated: freshMs },
  addGroupMember: { not_replicated: freshMs, not_found: freshMs },
  deleteRoleAssignment: { not_found: freshMs },
  removeGroupMember: { not_found: freshMs },
  deleteServicePrincipal: { not_found: freshMs },
  deleteApplication: { not_found: freshMs },
  removeApplicationPassword: { not_found: freshMs },
  purgeDeleted: { not_found: deletedMs },
};

/** No such secret, application or principal. */
const unknownYet = ["AADSTS7000215", "AADSTS700016", "AADSTS7000229"];

/**
 * Whether a refusal may be caused by replication lag of an object that the call depends on.
 * @param ageMs time since that object was created, or for `purgeDeleted` since it was deleted
 */
export function isNotYetThere(call: keyof Cloud, { code, providerCode }: CloudFailure, ageMs: number): boolean {
  if (call === "login") return unknownYet.includes(providerCode) && ageMs < signInMs;
  return ageMs < (lags[call]?.[code] ?? 0);
}
