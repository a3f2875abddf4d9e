import type { CloudFailure } from "../../../contracts/cloud-calls.ts";
import type { Cloud } from "./cloud.ts";

/** IAM is eventually consistent: refusals shortly after a change that only mean "not known everywhere yet". */

/** A new service account is unknown to some services for up to this time. */
const ACCOUNT_MS = 120_000;
/** A new right, and a new key, take effect within this time. */
const RIGHT_MS = 120_000;
/** For this long, "permission denied" may mean "not known yet"; after it, the refusal is returned to the caller. */
const DENIED_MS = 60_000;

/**
 * Whether a refusal may only mean that a change is not known everywhere yet.
 * @param ageMs time since the account, key or right that the call depends on was made
 */
export function isNotYetThere(call: string, { code }: CloudFailure, ageMs: number): boolean {
  switch (call as keyof Cloud) {
    // A policy that names an unknown account is refused as invalid.
    case "changePolicy":
      return ageMs < ACCOUNT_MS && (code === "refused" || code === "not_found");
    case "createKey":
    case "getKey":
    case "listKeys":
    case "deleteServiceAccount":
    case "deleteKey":
    case "disableKey":
      return ageMs < ACCOUNT_MS && code === "not_found";
    case "generateAccessToken":
      return ageMs < DENIED_MS && (code === "not_found" || code === "permission_denied");
    case "login":
      return ageMs < RIGHT_MS && code === "auth_failed";
    default:
      return false;
  }
}
