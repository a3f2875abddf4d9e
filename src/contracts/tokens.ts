import type { Capability } from "./policies.ts";
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
  readonly type: "" | "service" | "default-service" | "default";
}

/** The body of `/v1/acl/token`, read and checked. */
export interface ClusterTokenBody {
  readonly AccessorID?: string | undefined;
  readonly Name: string;
  readonly Type: string;
  readonly Policies?: readonly string[] | null | undefined;
  readonly Global?: boolean | null | undefined;
  /** Seconds, rounded up. */
  readonly ExpirationTTL?: number | null | undefined;
  readonly ExpirationTime?: string | null | undefined;
}

export type Authed = { auth: AuthBlock; warnings: readonly string[] };

/** The `auth` block of an answer that hands out or renews a token (contract: clients 4.2). */
export interface AuthBlock {
  readonly client_token: string;
  readonly accessor: string;
  readonly policies: readonly string[];
  readonly token_policies: readonly string[];
  readonly identity_policies: null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly orphan: boolean;
  readonly entity_id: "";
  readonly lease_duration: number;
  readonly renewable: boolean;
  readonly mfa_requirement: null;
  readonly num_uses: number;
  readonly token_type: "service";
}

/**
 * How a request names a token: the caller's own, by its text or by the accessor that `authorize` answered; by an accessor or a
 * text, which must live in the namespace `within` or below; or by its text, for a caller who may do so where the token lives.
 */
export type TokenName =
  | { own: string }
  | { accessor: string; within?: undefined }
  | { token: string; within: string }
  | { accessor: string; within: string }
  | { token: string; by: Wish };

/** A caller whose request was let in, and what it asks of one path more. */
export interface Wish extends Place {
  /** The caller, as `authorize` answered it. */
  readonly accessor: string;
  /** The capabilities that it takes, all of them. */
  readonly needs: readonly Capability[];
  /** The request's parameters. */
  readonly given: Readonly<Record<string, unknown>>;
}

export interface AclToken {
  AccessorID: string;
  CreateIndex: number | null;
  CreateTime: string;
  ExpirationTTL: string;
  ExpirationTime: string | null;
  Global: boolean;
  Hash: string;
  ModifyIndex: number | null;
  Name: string;
  Policies: string[] | null;
  /** There are none; clients count them. */
  Roles: [];
  /** In the answer that creates the token, and in reads that may see it (docs/reference/compatibility.md); else empty. */
  SecretID: string;
  Type: "client" | "management";
}

export interface AclTokenPage {
  readonly tokens: AclToken[];
  /** Where the following page starts. */
  readonly next: string | null;
}

/** A path inside a namespace that exists. */
export interface Place {
  readonly namespace: string;
  readonly path: string;
}
