import type { CloudResult } from "../../../contracts/cloud-calls.ts";
import type { Federation } from "../../../contracts/federation.ts";

/*
 * The directory of a cloud as the credentials engine uses it: one method per provider call, sent once. The saga that
 * issued the step decides about retries and about failures that mean success ("already gone").
 */

/** The identity of the engine and its cloud. */
export interface CloudAccount {
  readonly tenantId: string;
  readonly subscriptionId: string;
  readonly clientId: string;
  /** Empty: workload identity federation. */
  readonly clientSecret: string;
  readonly federation?: Federation;
  /** AzurePublicCloud, AzureChinaCloud or AzureUSGovernmentCloud. */
  readonly environment: string;
  /** `seamless_rotation` of new static roles that do not say; absent: true. */
  readonly seamless?: boolean;
}

/** A password as the provider lists it, without its value. */
export interface PasswordKey {
  readonly keyId: string;
  readonly displayName: string;
  /** The first three characters of the value. */
  readonly hint: string;
  /** Its end, ms since 1970; null: not listed. */
  readonly endsAt?: number | null;
}

export interface Application {
  readonly objectId: string;
  /** The provider's appId. */
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
  /** End of validity according to the provider (ms since 1970). */
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
  /** The leading slash is optional. */
  readonly scope: string;
  /** A uuid chosen by the caller: the call is idempotent. */
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
  /** Like G2, by exact display name: finds applications whose create call got no response. */
  findApplicationsByName(displayName: string): Promise<CloudResult<readonly Application[]>>;
  /** G3 */
  createApplication(application: NewApplication): Promise<CloudResult<Application>>;
  /** PATCH of G1's path. An empty audience is left as it is. */
  updateApplication(objectId: string, changes: Omit<NewApplication, "displayName">): Promise<CloudResult<null>>;
  /** G4 */
  deleteApplication(objectId: string): Promise<CloudResult<null>>;
  /** G5: purges a deleted application or principal. */
  purgeDeleted(objectId: string): Promise<CloudResult<null>>;
  /** G6. Times in ms since 1970. */
  addApplicationPassword(
    objectId: string,
    password: { readonly displayName: string; readonly endsAt: number },
  ): Promise<CloudResult<NewPassword>>;
  /** G7. `not_found` for an unknown password. */
  removeApplicationPassword(objectId: string, keyId: string): Promise<CloudResult<null>>;
  /** G8. `already_exists` when the application has a principal. */
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
  /** G13. `already_exists` for a member; the 400 "does not exist" is `not_replicated`. */
  addGroupMember(groupId: string, principalId: string): Promise<CloudResult<null>>;
  /** G14. `not_found` for an unknown group or member. */
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
  /** A4, by full id. An unknown assignment is a success or `not_found`. */
  deleteRoleAssignment(id: string): Promise<CloudResult<null>>;
}

/** An access token as the provider answers it; lives in seconds. */
export interface TokenAnswer {
  readonly token_type: "Bearer";
  readonly expires_in: number;
  readonly ext_expires_in: number;
  readonly access_token: string;
}

/** Verification and use of issued credentials. */
export interface Login {
  /** Obtains a token for the resource manager in the account's tenant; never from a cache. */
  login(clientId: string, clientSecret: string): Promise<CloudResult<null>>;
  /** Obtains a token for a scope in the account's tenant; never from a cache. */
  obtainToken(clientId: string, clientSecret: string, scope: string): Promise<CloudResult<TokenAnswer>>;
}

export interface Cloud extends Directory, Resources, Login {}
