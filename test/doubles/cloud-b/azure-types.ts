/** Everything that has the same shape whether a test drives the double in its own process or over HTTP. */

/** A tenant with a subscription, opened by `POST /_double/accounts` (body: `AzureOptions`) on the Graph or ARM address. */
export interface AzureAccount {
  /** The tenant's id; for `?account=`. */
  account: string;
  environment: string;
  tenant_id: string;
  subscription_id: string;
  /** The root application: the identity that the engine is configured with. */
  client_id: string;
  client_secret: string;
  root: { object_id: string; principal_id: string; key_id: string };
  /** An application that is not the root's, with a principal and no password. */
  existing_application: { object_id: string; client_id: string; principal_id: string };
  /** developers, auditors, "O'Brien & Söhne", two named twins, and one named dynamic that takes no members. */
  groups: { id: string; displayName: string }[];
  /** `id` is the full one at the subscription. Built-in ones, a custom "Bob's role", two custom ones named "Twin role". */
  role_definitions: { id: string; name: string; roleName: string }[];
  /** The full id of the resource group that exists. */
  resource_group: string;
  login_url: string;
  graph_url: string;
  arm_url: string;
}

export interface AzureOptions {
  /** AzurePublicCloud by default; decides audiences and the host in `@odata.id`. */
  environment?: "AzurePublicCloud" | "AzureChinaCloud" | "AzureUSGovernmentCloud";
  /** The root's Graph application permissions; Application.ReadWrite.All and GroupMember.ReadWrite.All by default. */
  permissions?: readonly string[];
  /** The root's role at the subscription; "User Access Administrator" by default, null for none. */
  armRole?: string | null;
  /** Whether the root owns its own application, so that Application.ReadWrite.OwnedBy reaches it. */
  rootOwnsItself?: boolean;
  lags?: Lags;
  /** Of lists, 100 by default. Pages are cut before they are filtered, so they may be empty. */
  pageSize?: number;
  /** Of one application or principal; then "The size of the object has exceeded its limit". */
  maxPasswords?: number;
  /** The longest lifetime that the tenant's policy allows, in days. */
  maxPasswordDays?: number;
  /** How many directory objects the root may create, soft-deleted ones included; then Directory_QuotaExceeded. */
  objectQuota?: number;
  /** Of the subscription; then RoleAssignmentLimitExceeded. */
  assignmentLimit?: number;
}

/** How long something new is not seen yet: for the first `requests` that ask for it, and for `ms` milliseconds. */
export interface Lag {
  requests?: number;
  ms?: number;
}

/**
 * Eventual consistency, by what has just changed:
 * - `application`: Graph answers 404 for it, and refuses its principal: 400 NoBackingApplicationObject, or with
 *   Application.ReadWrite.OwnedBy 403 Authorization_RequestDenied (".. must in the local tenant")
 * - `principal`: Graph answers 404 for it, as a group's new member too
 * - `principalInArm`: 400 PrincipalNotFound
 * - `principalInLogin`: AADSTS700016
 * - `password`: AADSTS7000215
 * - `passwordInGraph`: removePassword says "No password credential found"
 * - `assignment`: reading it returns 404, and its rights are refused (403 AuthorizationFailed)
 * - `deletedItem`: 404 in deletedItems
 * - `principalName`: after a principal's deletion, another one for the same application is refused (409)
 */
export type Lags = Partial<Record<LagKind, Lag>>;

export type LagKind =
  | "application"
  | "principal"
  | "principalInArm"
  | "principalInLogin"
  | "password"
  | "passwordInGraph"
  | "assignment"
  | "deletedItem"
  | "principalName";

export type Service = "login" | "graph" | "arm";

export type OperationName =
  | "Token"
  | "Discovery"
  | "GetApplication"
  | "ListApplications"
  | "CreateApplication"
  | "UpdateApplication"
  | "DeleteApplication"
  | "AddApplicationPassword"
  | "RemoveApplicationPassword"
  | "GetServicePrincipal"
  | "ListServicePrincipals"
  | "CreateServicePrincipal"
  | "DeleteServicePrincipal"
  | "AddServicePrincipalPassword"
  | "RemoveServicePrincipalPassword"
  | "GetDeletedItem"
  | "ListDeletedApplications"
  | "DeleteDeletedItem"
  | "GetGroup"
  | "ListGroups"
  | "ListGroupMembers"
  | "AddGroupMember"
  | "RemoveGroupMember"
  | "GetSubscription"
  | "GetRoleDefinition"
  | "ListRoleDefinitions"
  | "GetRoleAssignment"
  | "ListRoleAssignments"
  | "CreateRoleAssignment"
  | "DeleteRoleAssignment";

/**
 * The fault of `count` (default 1) requests that match `service` and `operation` (both optional), after `skip`
 * (default 0) that matched and went on as if there were no fault. `POST /_double/faults?account=`.
 * - `error`: refused with `status` and `code` as the service words an error, not performed; `number` is a token error's AADSTS
 *   number. Throttling is status 429 with `headers: {"retry-after": "1"}`
 * - `raw`: answered with this `status` and `body`, not performed
 * - `delay`: performed after `ms` milliseconds, whether or not the client still waits
 * - `drop`: the connection ends, nothing is performed
 * - `apply-then-drop`: performed, then the connection ends without an answer
 * - `apply-then-error`: performed, then answered with `status` and `code`
 */
export type Fault = { count?: number; skip?: number; service?: Service; operation?: OperationName } & (
  | {
      fault: "error" | "apply-then-error";
      status: number;
      code: string;
      message?: string;
      number?: number;
      headers?: Record<string, string>;
    }
  | { fault: "raw"; status: number; body: string; headers?: Record<string, string> }
  | { fault: "delay"; ms: number }
  | { fault: "drop" | "apply-then-drop" }
);

/** One request as the log keeps it (`GET /_double/requests?account=`): no secret, no token, no text of an error. */
export interface LoggedRequest {
  service: Service;
  operation: OperationName | "";
  method: string;
  /** Path and query. */
  target: string;
  /** The client id that asked; null when there was no valid token. */
  caller: string | null;
  /** The names of the body's fields at its top. */
  fields: string[];
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
  errorCode: string | null;
}

/**
 * All that exists in an account (`GET /_double/everything?account=`), in the order of creation. Equal to the answer for the
 * fresh account when nothing was left behind. Lags hide nothing here.
 */
export interface Everything {
  applications: ApplicationView[];
  /** Soft-deleted. */
  deletedApplications: ApplicationView[];
  principals: PrincipalView[];
  deletedPrincipals: PrincipalView[];
  groups: { id: string; displayName: string }[];
  memberships: { groupId: string; memberId: string }[];
  /** `id` is the full one; those of principals that are gone, too. */
  assignments: { id: string; scope: string; roleDefinitionId: string; principalId: string }[];
}

export interface ApplicationView {
  id: string;
  appId: string;
  displayName: string;
  tags: string[];
  signInAudience: string;
  passwords: PasswordView[];
}

export interface PrincipalView {
  id: string;
  appId: string;
  displayName: string;
  passwords: PasswordView[];
}

export interface PasswordView {
  keyId: string;
  displayName: string | null;
  startDateTime: string;
  endDateTime: string;
}

/**
 * A change by another writer: no token, not logged, no faults, no lags. `POST /_double/call?account=`, which returns the value in the
 * comment, or null.
 */
export type Change =
  | { change: "DeleteApplication"; id: string; permanently?: boolean }
  | { change: "DeleteServicePrincipal"; id: string }
  | { change: "DisableServicePrincipal"; id: string }
  /** To an application or a principal; answers {keyId, secretText}. */
  | { change: "AddPassword"; id: string; displayName?: string; startDateTime?: string; endDateTime?: string }
  | { change: "RemovePassword"; id: string; keyId: string }
  | { change: "AddFederatedCredential"; id: string; issuer: string; subject: string; audience: string }
  /** For an issuer that this process cannot reach: its two documents, instead of fetching them. */
  | { change: "PublishIssuer"; issuer: string; configuration: unknown; keys: unknown }
  /** Answers {id}. */
  | { change: "CreateGroup"; displayName: string }
  | { change: "DeleteGroup"; id: string }
  | { change: "RemoveGroupMember"; id: string; memberId: string }
  | { change: "DeleteRoleAssignment"; id: string }
  /** A custom role; returns {id}. */
  | { change: "CreateRoleDefinition"; roleName: string; actions?: string[] }
  | { change: "DeleteRoleDefinition"; id: string }
  /** Nothing can be deleted at or below a locked scope (409 ScopeLocked). */
  | { change: "LockScope" | "UnlockScope"; scope: string }
  /** Of the root, in tokens issued from now on. */
  | { change: "SetPermissions"; permissions: string[] }
  | { change: "SetLags"; lags: Lags }
  /** Of this tenant, all issued so far. */
  | { change: "RevokeTokens" };
