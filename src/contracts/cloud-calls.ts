import type { Failure } from "./failure.ts";

/** The outcomes of one call to a provider, as the engines of credentials use them. */

/** Failure codes of this service. Only the provider client reads the provider's error texts. */
export type CloudCode =
  /** The account was refused: no token was issued. */
  | "auth_failed"
  /** The account lacks the permission (403). Also returned for objects that are not replicated yet. */
  | "permission_denied"
  /** The object does not exist (404), or the application has no such password. */
  | "not_found"
  /** The member, assignment or principal exists already. */
  | "already_exists"
  /** A new object is not replicated yet (NoBackingApplicationObject, PrincipalNotFound, …). */
  | "not_replicated"
  /** A concurrent change of the same object (409, or the equivalent 500). */
  | "contended"
  /** A quota of the tenant, subscription or object is exhausted; an operator must act. */
  | "limit_reached"
  /** A resource lock of the provider prevents the change. */
  | "locked"
  /** The request is invalid: a policy, a scope, a parameter. */
  | "refused"
  | "throttled"
  | "provider_unavailable"
  | "network_error"
  | "deadline_exceeded"
  | "unreadable_answer"
  /** The URLs or ids of the account are unusable. */
  | "misconfigured";

export interface CloudFailure extends Readonly<Pick<Failure, "outcome" | "retryAfterMs">> {
  readonly code: CloudCode;
  /** One sentence for operators with the provider's code and the required fix; never free text of the provider. */
  readonly message: string;
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** The provider's code, such as Request_ResourceNotFound or AADSTS7000215; empty when none may be shown. */
  readonly providerCode: string;
}

export type CloudResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: CloudFailure };
