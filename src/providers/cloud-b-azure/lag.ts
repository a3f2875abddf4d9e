import type { Cloud, CloudCode, CloudFailure } from "../../contracts/cloud-directory.ts";

/** For this long what was made a moment ago may be unknown somewhere at the provider. */
const freshMs = 90_000;
/** The directory that signs in is the slowest to hear of it. */
const signInMs = 5 * 60_000;
/** What was deleted shows up late among what can be purged. */
const deletedMs = 60_000;

/** What a call may be refused with only because the provider has not yet heard everywhere of what it has just done, and for how long. */
type Lag = Partial<Record<CloudCode, number>>;

/**
 * contract/credentials-engine.md 15. "Denied" is among the answers where whoever could make the one must be able to make the
 * other. What is removed is missed for a while, too: taking that for "already gone" would leave it behind.
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
 * Whether a refusal may only mean that the provider has not yet heard everywhere of what the call builds on.
 * @param ageMs since that was made, or for `purgeDeleted` since it was deleted
 */
export function isNotYetThere(call: keyof Cloud, { code, providerCode }: CloudFailure, ageMs: number): boolean {
  if (call === "login") return unknownYet.includes(providerCode) && ageMs < signInMs;
  return ageMs < (lags[call]?.[code] ?? 0);
}
