import type { Result } from "../lib/result.ts";
import type { Rules } from "../wire/access.ts";
import type * as schemas from "../wire/acl.ts";
import type * as auth from "../wire/auth.ts";
import type { Wire } from "../wire/infer.ts";
import type { LeaseView } from "./credential-engine.ts";
import type { WriteRights } from "./kv-store.ts";
import type { Capability, TrialRight } from "./policies.ts";

/** The beginning of every batch token. */
export const BATCH_PREFIX = "hvb.";
/** Maximum length of a batch token, in characters. */
export const MAX_BATCH_TOKEN = 2_048;
/** The refusal of a longer one. */
export const TOO_LONG_BATCH_TOKEN = `batch token: policies, metadata and names must fit into ${MAX_BATCH_TOKEN} characters of its text; use a service token`;
/** The beginning of the accessors that name batch tokens inside the service, before the accessor of their parent. */
export const BATCH_ACCESSOR = "batch.";
/** The accessor of requests of the cluster API without a token, and the name of their policy. No token has it. */
export const ANONYMOUS = "anonymous";

/** The body of `auth/token/create`, read and checked. Durations in seconds. */
export interface TokenBody {
  readonly id?: string | undefined;
  readonly policies?: readonly string[] | null | undefined;
  readonly meta?: Readonly<Record<string, string>> | null | undefined;
  readonly no_parent?: boolean | undefined;
  readonly no_default_policy?: boolean | undefined;
  readonly renewable: boolean;
  readonly ttl?: number | undefined;
  readonly lease?: number | undefined;
  readonly explicit_max_ttl?: number | undefined;
  readonly period?: number | undefined;
  readonly display_name: string;
  readonly num_uses: number;
  readonly type: "" | "service" | "batch" | "default-service" | "default";
  readonly entity_alias?: string | undefined;
}

type ShownRole = Wire<typeof auth.TokenRole>;
/** A role of `auth/token`; answers leave some empty fields out. */
export type TokenRole = { readonly [Field in keyof ShownRole]-?: NonNullable<ShownRole[Field]> };

/** The body of `auth/token/roles/:name`: only the fields that the request names. */
export type TokenRoleBody = {
  readonly [Field in keyof Omit<TokenRole, "name">]?: TokenRole[Field] | null | undefined;
};

/** How a token is created: by `create-orphan`, or by the role of a path. */
export interface TokenKind {
  readonly orphan: boolean;
  /** The name of the role in the request's namespace; null for none. */
  readonly role: string | null;
}

/** The body of `/v1/acl/token`, read and checked. */
export interface ClusterTokenBody {
  readonly AccessorID?: string | undefined;
  /** Of an uploaded token, beside its accessor. */
  readonly SecretID?: string | null | undefined;
  readonly Name: string;
  readonly Type: string;
  readonly Policies?: readonly string[] | null | undefined;
  /** Roles by id or, where the id is empty, by name. */
  readonly Roles?: readonly AclRoleLink[] | null | undefined;
  readonly Global?: boolean | null | undefined;
  /** Seconds, rounded up. */
  readonly ExpirationTTL?: number | null | undefined;
  readonly ExpirationTime?: string | null | undefined;
}

export type AuthBlock = Wire<typeof auth.Auth>;
export type Authed = { auth: AuthBlock; warnings: readonly string[] };

/**
 * A token as a request identifies it: the caller's own, by secret or accessor; any token of the namespace `within` or
 * below, by secret or accessor; or by secret, when the caller has the capability in the token's namespace.
 */
export type TokenName =
  | { own: string }
  | { accessor: string; within?: undefined }
  | { token: string; within: string }
  | { accessor: string; within: string }
  | { token: string; by: RightsCheck };

/** A right that a request needs beside that on its own path. */
export interface RightsCheck extends TrialRight {
  /** Lifetime of the wrapped answer in seconds; absent or 0 = the answer is not wrapped. */
  readonly wrapTtl?: number;
  /** The capabilities are needed on every path that begins with `path`. */
  readonly below?: true;
}

/** A role as a token names it. The id decides; the name is the role's name at the time of the answer. */
export type AclRoleLink = AclToken["Roles"][number];

/** `SecretID` is set on creation and for readers with the right (docs/reference/compatibility.md); empty otherwise. */
export type AclToken = Wire<typeof schemas.AclToken>;

export interface AclTokenPage {
  readonly tokens: AclToken[];
  /** The start of the next page. */
  readonly next: string | null;
}

/** The compiled path rules of a token, in upstream's shape: globs without their final `*`. */
export interface ResultantAcl {
  readonly root: boolean;
  readonly exact_paths: Wire<typeof Rules>;
  readonly glob_paths: Wire<typeof Rules>;
}

/** The lease of a token, as a look-up of leases shows it. */
export interface TokenLease extends Omit<LeaseView, "expire_time" | "revoke_error"> {
  readonly accessor: string;
  readonly expire_time: string | null;
}

/** The methods of `AccessControl` about tokens of the secrets API. */
export interface TokensApi {
  createToken(
    caller: string,
    namespace: string,
    path: string,
    request: TokenBody,
    kind: TokenKind,
  ): Promise<Result<Authed>>;
  /** Returns the rules of a token; null when it is gone. */
  resultantAcl(accessor: string): ResultantAcl | null;
  /** Counts the tokens of all namespaces. */
  countTokens(): number;
  lookupToken(name: TokenName): Result<Record<string, unknown>>;
  renewToken(name: TokenName, increment: number): Promise<Result<Authed>>;
  /** Revokes a token with its descendants, or alone (`keepChildren`). Idempotent. */
  revokeToken(name: TokenName, keepChildren?: boolean): Promise<Result<null>>;
  /** Revokes the tokens with an expiry that a path, or one below it, has issued. Idempotent. */
  revokeIssued(namespace: string, path: string): Promise<Result<boolean>>;
  /**
   * Returns a page of the names directly below a prefix of ids of leases of tokens, sorted; empty after the last.
   * @param prefix ends in a slash, or is empty; @param after the last name of the page before
   */
  tokenLeaseNames(namespace: string, prefix: string, after: string): string[];
  /** Returns the lease of a token by its id; null when there is none. */
  tokenLease(namespace: string, id: string): TokenLease | null;
  accessors(within: string, from: string, limit: number): { keys: string[]; next: string | null };
  /** Returns the capabilities of a token on each path. */
  capabilities(
    name: TokenName,
    namespace: string,
    paths: readonly string[],
  ): Result<Record<string, (Capability | "root")[]>>;
  /** Checks further capabilities of an authorized caller. Counts no use. */
  mayAlso(check: RightsCheck): Result<null>;
  /**
   * Registers a mount that is about to issue a lease to a token; the mount is notified of the token's end. Idempotent.
   * @returns whether this covers later leases of the token, too: not for one with a limited number of uses. A refusal
   *   when the token has ended. A deployment before this one returns null
   */
  holdsLeases(accessor: string, mount: string): Result<boolean | null>;
}

/** The methods of `AccessControl` about roles of tokens of the secrets API. */
export interface TokenRolesApi {
  /** Lists the names of token roles, sorted. */
  tokenRoleNames(namespace: string): string[];
  readTokenRole(namespace: string, name: string): TokenRole | null;
  /** Creates a role, or changes the fields that the request names. @returns warnings */
  putTokenRole(namespace: string, name: string, body: TokenRoleBody, rights?: WriteRights): Result<string[]>;
  /** Idempotent. */
  deleteTokenRole(namespace: string, name: string): void;
}
