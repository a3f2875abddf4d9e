import type { Result } from "../lib/result.ts";
import type * as schemas from "../wire/acl.ts";
import type { Wire } from "../wire/infer.ts";
import type { AuthMethod, AuthMethodSettings, AuthMethodStub } from "./cluster-auth-method.ts";
import type { Written } from "./rows.ts";
import type { AclToken, AclTokenPage, ClusterTokenBody } from "./tokens.ts";

/** A role of the cluster API: tokens that name it hold its policies. */
export type AclRole = Wire<typeof schemas.AclRole>;

/** The body of `PUT acl/role`, read and checked. */
export type AclRoleBody = Pick<AclRole, "Name" | "Description" | "Policies">;

/** A binding rule: what the callers of an auth method get whose claims its selector selects. */
export type BindingRule = Omit<Wire<typeof schemas.BindingRule>, "BindType"> & { readonly BindType: string };

/** The body of `PUT acl/binding-rule`, read. */
export type BindingRuleBody = Pick<BindingRule, "Description" | "AuthMethod" | "Selector" | "BindType" | "BindName">;

export type BindingRuleStub = Omit<BindingRule, "Selector" | "BindType" | "BindName" | "CreateTime" | "ModifyTime">;

/** Verified claims of a caller, by the names that the auth method's mappings give them. */
export interface LoginClaims {
  readonly value: Readonly<Record<string, string>>;
  readonly list: Readonly<Record<string, readonly string[]>>;
}

/** A login whose credentials are verified. */
export interface ClusterLogin {
  readonly method: string;
  /** The version of the auth method that verified it. */
  readonly version: string;
  readonly claims: LoginClaims;
}

/** A login in a browser, as both of its requests name it. */
export interface OidcRequest {
  readonly method: string;
  /** The version of the auth method at the beginning. */
  readonly version: string;
  readonly nonce: string;
  readonly redirectUri: string;
}

/** A one-time token; the answer adds its indexes. */
export type OneTimeToken = Omit<Wire<typeof schemas.OneTimeToken>, keyof typeof schemas.indexes>;

/** The methods of `AccessControl` about roles of the cluster API. */
export interface ClusterRolesApi {
  /** Roles sorted by id. @param prefix of the id; empty for all */
  listClusterRoles(prefix: string): AclRole[];
  readClusterRole(key: { readonly id: string } | { readonly name: string }): AclRole | null;
  /** Creates a role, or replaces the one with this id. @param id null creates a role */
  putClusterRole(id: string | null, body: AclRoleBody): Promise<Result<AclRole>>;
  /** Deletes a role: tokens that name it lose its policies. @returns the index of the event */
  deleteClusterRole(id: string): Promise<Result<Written>>;
}

/** The methods of `AccessControl` about auth methods, binding rules and logins of the cluster API. */
export interface ClusterLoginsApi {
  /** Auth methods sorted by name. */
  listAuthMethods(): AuthMethodStub[];
  readAuthMethod(name: string): Result<AuthMethod | null>;
  /**
   * Writes a checked auth method.
   * @param replaces the version that it was merged with; null for a new one. Refused when there is another by now
   */
  putAuthMethod(settings: AuthMethodSettings, replaces: string | null): Promise<Result<AuthMethod>>;
  /** @returns the index of the event */
  deleteAuthMethod(name: string): Promise<Result<Written>>;
  /** Binding rules sorted by id. */
  listBindingRules(): BindingRuleStub[];
  readBindingRule(id: string): BindingRule | null;
  /** Creates a rule, or changes the one with this id. @param id null creates a rule */
  putBindingRule(id: string | null, body: BindingRuleBody): Promise<Result<BindingRule>>;
  /** @returns the index of the event */
  deleteBindingRule(id: string): Promise<Result<Written>>;
  /** Creates the token of a verified login, with what the binding rules give to its claims. */
  clusterLogin(login: ClusterLogin): Promise<Result<AclToken>>;
  /** The state and the secret of PKCE for a login in a browser. */
  beginOidc(request: OidcRequest): Result<{ state: string; verifier: string }>;
  /** The secret of PKCE of a login. Its state is used up. */
  completeOidc(request: OidcRequest, state: string): Result<string>;
}

/** The methods of `AccessControl` about tokens of the cluster API. */
export interface ClusterTokensApi {
  bootstrap(secret: string | null): Result<AclToken>;
  createClusterToken(request: ClusterTokenBody): Promise<Result<AclToken>>;
  /** @param reveal includes the stored secret in the response */
  updateClusterToken(accessor: string, request: ClusterTokenBody, reveal?: boolean): Promise<Result<AclToken>>;
  readClusterToken(accessor: string, reveal?: boolean): Result<AclToken>;
  listClusterTokens(prefix: string, from: string, limit: number, onlyGlobal: boolean): AclTokenPage;
  deleteClusterToken(accessor: string): Promise<Result<null>>;
  /** Creates the one-time token of a token, in place of an earlier one. @param token its text */
  createOneTimeToken(token: string): Result<OneTimeToken>;
  /** The token, with its text, of a one-time secret. Consumes the secret. */
  exchangeOneTimeToken(secret: string): Result<AclToken>;
}

/** The methods of `AccessControl` about the common index of tokens, policies, roles, auth methods and binding rules. */
export interface ClusterAclIndexApi {
  /** The index of the newest change. */
  clusterAclIndex(): Promise<number>;
  /** That index, as soon as it is beyond `since` or after `waitMs`. */
  clusterAclChanged(since: number, waitMs: number): Promise<number | null>;
}
