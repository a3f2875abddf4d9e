import type { Federation } from "./federation.ts";

/*
 * What the engine asks of its cloud: one method a call of the provider (contract: credentials-engine 4.6), each sent once.
 * Retrying, and whether a refusal is in truth a success ("already gone"), is decided by whoever hands out the step.
 */

/** Why a call did not succeed, in words of ours: the provider's texts are read in one place only, where it is called. */
export type CloudCode =
  /** The account itself is refused: no token was given. */
  | "auth_failed"
  /** The account may not do this (403). For a moment the provider says so of what it has not replicated yet, too. */
  | "permission_denied"
  /** The object that the call is about is not there (404), or the password is none of the application. */
  | "not_found"
  /** What the call would make is there already: a member, an assignment, a principal of the application. */
  | "already_exists"
  /** What the call refers to was made a moment ago and is not known everywhere (NoBackingApplicationObject, PrincipalNotFound, …). */
  | "not_replicated"
  /** Somebody else changes the same object (409, or the 500 that says so). */
  | "contended"
  /** A quota or limit of the tenant, subscription or object is reached; only a person can make room. */
  | "limit_reached"
  /** A lock of the provider's keeps the object from being changed or removed. */
  | "locked"
  /** The request is refused for what it says: a policy, a scope, a parameter. */
  | "refused"
  | "throttled"
  | "provider_unavailable"
  | "network_error"
  | "deadline_exceeded"
  | "unreadable_answer"
  /** The account's own URLs or ids cannot be used. */
  | "misconfigured";

/**
 * `outcome`: `client`, the same call will be refused again until someone changes something; `external`, it may succeed
 * later; `unknown`, it left and may or may not have been applied.
 */
export interface CloudFailure {
  readonly outcome: "client" | "external" | "unknown";
  readonly code: CloudCode;
  /** One sentence for people with the provider's own code and what to grant or fix; never free text of the provider's. */
  readonly message: string;
  /** The status of the answer; null without one. */
  readonly status: number | null;
  /** Such as Request_ResourceNotFound or AADSTS7000215; empty when the provider gave none that may be shown. */
  readonly providerCode: string;
  /** The wait that the provider asked for. */
  readonly retryAfterMs?: number;
}

export type CloudResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: CloudFailure };

/** The identity that the engine acts as, and where. */
export interface CloudAccount {
  readonly tenantId: string;
  readonly subscriptionId: string;
  readonly clientId: string;
  /** Empty: the engine logs in with identity tokens. */
  readonly clientSecret: string;
  readonly federation?: Federation;
  /** AzurePublicCloud, AzureChinaCloud or AzureUSGovernmentCloud. */
  readonly environment: string;
}

/** A password as the provider lists it: never its text. */
export interface PasswordKey {
  readonly keyId: string;
  readonly displayName: string;
  /** The first three characters of its text. */
  readonly hint: string;
}

export interface Application {
  readonly objectId: string;
  /** What the provider calls appId. */
  readonly clientId: string;
  readonly displayName: string;
  readonly passwords: readonly PasswordKey[];
}

export interface NewApplication {
  readonly displayName: string;
  readonly tags: readonly string[];
  /** As the provider spells it (AzureADMyOrg, …); empty: the provider's default. */
  readonly signInAudience: string;
}

export interface NewPassword {
  readonly keyId: string;
  readonly secretText: string;
  /** When it ends, as the provider answered; ms since 1970. */
  readonly endsAt: number;
}

export interface ServicePrincipal {
  readonly objectId: string;
}

export interface Group {
  readonly objectId: string;
  readonly name: string;
}

export interface RoleDefinition {
  /** Full id, such as /subscriptions/…/providers/Microsoft.Authorization/roleDefinitions/<guid>. */
  readonly id: string;
  readonly name: string;
}

export interface RoleAssignment {
  /** Without leading slash is taken, too. */
  readonly scope: string;
  /** A uuid that the caller has chosen, so that a repeated call makes nothing new. */
  readonly assignmentId: string;
  readonly roleDefinitionId: string;
  readonly principalId: string;
}

/** Applications, principals and groups (Graph v1.0). */
export interface Directory {
  /** G1 */
  getApplication(objectId: string): Promise<CloudResult<Application>>;
  /** G2 */
  findApplicationsByClientId(clientId: string): Promise<CloudResult<readonly Application[]>>;
  /** Like G2, by exact display name: how an application is found whose creation was never answered. */
  findApplicationsByName(displayName: string): Promise<CloudResult<readonly Application[]>>;
  /** G3 */
  createApplication(application: NewApplication): Promise<CloudResult<Application>>;
  /** PATCH of G1's path. An empty audience is left as it is. */
  updateApplication(objectId: string, changes: Omit<NewApplication, "displayName">): Promise<CloudResult<null>>;
  /** G4 */
  deleteApplication(objectId: string): Promise<CloudResult<null>>;
  /** G5, of an application or a principal that was deleted. */
  purgeDeleted(objectId: string): Promise<CloudResult<null>>;
  /** G6. Times in ms since 1970. */
  addApplicationPassword(
    objectId: string,
    password: { readonly displayName: string; readonly endsAt: number },
  ): Promise<CloudResult<NewPassword>>;
  /** G7. A password that the application does not have is `not_found`. */
  removeApplicationPassword(objectId: string, keyId: string): Promise<CloudResult<null>>;
  /** G8. One that the application has already is `already_exists`. */
  createServicePrincipal(clientId: string): Promise<CloudResult<ServicePrincipal>>;
  /** GET /v1.0/servicePrincipals?$filter=appId eq '…' */
  findServicePrincipals(clientId: string): Promise<CloudResult<readonly ServicePrincipal[]>>;
  /** G9. Times in ms since 1970. */
  addPrincipalPassword(
    objectId: string,
    password: { readonly startsAt: number; readonly endsAt: number },
  ): Promise<CloudResult<NewPassword>>;
  /** G10 */
  deleteServicePrincipal(objectId: string): Promise<CloudResult<null>>;
  /** G11 */
  getGroup(objectId: string): Promise<CloudResult<Group>>;
  /** G12 */
  findGroups(name: string): Promise<CloudResult<readonly Group[]>>;
  /** G13. One that is a member is `already_exists`; the 400 "does not exist" is `not_replicated`. */
  addGroupMember(groupId: string, principalId: string): Promise<CloudResult<null>>;
  /** G14. No such group or member is `not_found`. */
  removeGroupMember(groupId: string, principalId: string): Promise<CloudResult<null>>;
}

/** Roles and their assignments (the resource manager). */
export interface Resources {
  /** A1. `RoleDefinitionDoesNotExist` is `not_found`. */
  getRoleDefinition(id: string): Promise<CloudResult<RoleDefinition>>;
  /** A2, in the account's subscription, all pages. */
  findRoleDefinitions(name: string): Promise<CloudResult<readonly RoleDefinition[]>>;
  /** A3, with `principalType: ServicePrincipal`. */
  createRoleAssignment(assignment: RoleAssignment): Promise<CloudResult<{ readonly id: string }>>;
  /** A4, by full id. One that is not there is a success or `not_found`. */
  deleteRoleAssignment(id: string): Promise<CloudResult<null>>;
}

/** Whether credentials work yet. */
export interface Login {
  /** Obtains a token for the resource manager in the account's tenant; never from a cache. */
  login(clientId: string, clientSecret: string): Promise<CloudResult<null>>;
}

export interface Cloud extends Directory, Resources, Login {}
