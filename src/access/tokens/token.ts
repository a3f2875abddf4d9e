import * as z from "zod";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { cappedPeriodWarning, cappedTtlWarning } from "../../platform/http/capped-ttl.ts";
import {
  caseless,
  duration,
  echoed,
  flag,
  integer,
  nanoseconds,
  stringList,
  stringMap,
} from "../../platform/http/fields.ts";
import { nullMeans } from "../../platform/http/nulls.ts";
import { comparedPolicies } from "../../rights/policy-names.ts";
import { WRAPPING_POLICY_NAME } from "../policies/policy-parser.ts";

/** Maximum TTL of a token or lease unless configured lower, in seconds (768 h). */
export const SYSTEM_MAX_TTL = 768 * 3600;

/** A stored token. Only `hash` is derived from the secret. */
export type TokenRow = {
  hash: string;
  accessor: string;
  /** The hash of the parent; for a batch token its accessor. */
  parent: string | null;
  namespace: string;
  policies: string;
  name: string;
  meta: string | null;
  path: string;
  /** The API that created the token, which determines formats; `batch` tokens are not stored. */
  family: "secrets" | "cluster" | "batch";
  global: number;
  created: number;
  expires: number | null;
  renewed: number | null;
  ttl: number;
  explicit_max_ttl: number;
  period: number;
  uses: number;
  orphan: number;
  renewable: number;
  create_index: number | null;
  modify_index: number | null;
  /** The sealed secret of a token made under `/v1/acl`; null if the deployment stores none. */
  secret: ArrayBuffer | null;
  /** Maximum TTL in seconds by the role of a login; 0 = the system's. */
  max_ttl: number;
  /** The entity of the holder; empty for none. */
  entity_id: string;
  /** The uuid of the auth mount of a login; null for other tokens. */
  auth_mount: string | null;
  /** The role or user of a login, as `kind name`. */
  auth_entry: string | null;
  /** Networks that the token may be used from, as JSON; null for all. */
  bound_cidrs: string | null;
  /** Ids of roles of the cluster API, as JSON; null for none. */
  roles: string | null;
  /** The role of `auth/token/create/:role`, in the token's namespace; null for none. */
  role: string | null;
};

/** The columns of an orphan of the root namespace without limits, a login, roles and a secret that can be read. */
const PLAIN = {
  parent: null,
  namespace: "",
  meta: null,
  global: 0,
  renewed: null,
  explicit_max_ttl: 0,
  period: 0,
  uses: 0,
  orphan: 1,
  renewable: 0,
  create_index: null,
  modify_index: null,
  secret: null,
  max_ttl: 0,
  entity_id: "",
  auth_mount: null,
  auth_entry: null,
  bound_cidrs: null,
  roles: null,
  role: null,
} satisfies Partial<TokenRow>;

/** A token to store: columns that it leaves out are those of `PLAIN`. */
export type NewToken = Omit<TokenRow, keyof typeof PLAIN | "hash" | "accessor"> & Partial<TokenRow>;

/** The row of a new token. */
export const tokenRow = (token: NewToken, hash: string, accessor: string): TokenRow => ({
  ...PLAIN,
  ...token,
  hash,
  accessor,
});

export const policiesOf = (row: TokenRow): string[] => JSON.parse(row.policies) as string[];

/** The policies of a wrapping token, as stored. */
export const WRAPPING_POLICIES = JSON.stringify([WRAPPING_POLICY_NAME]);
/** Whether a token is a wrapping token, which opens one wrapped answer and has no other right. */
export const isWrapping = ({ policies }: Pick<TokenRow, "policies">): boolean => policies === WRAPPING_POLICIES;

export const isRoot = (row: TokenRow): boolean => policiesOf(row).includes("root");

/** A token is one row, and every request reads each of its policies. */
const MAX_POLICIES = 256;
const TOO_MANY = `at most ${MAX_POLICIES} policies`;
const notTooMany = (names: readonly string[]): boolean => names.length <= MAX_POLICIES;
const MAX_META = 16 * 1024;
const TOO_LARGE = `at most ${MAX_META} characters in all`;
const notTooLarge = (meta: Readonly<Record<string, string>>): boolean => JSON.stringify(meta).length <= MAX_META;

/** A list of names. One blank text is an empty list, which differs from an absent list. */
const policyList = () =>
  z.preprocess((given) => (typeof given === "string" && given.trim() === "" ? [given] : given), stringList());

/** Body of `auth/token/create`; zero values mean "not set", because clients send every field. */
export const TokenRequest = z.object({
  id: z.string().max(256).optional(),
  policies: policyList().refine(notTooMany, TOO_MANY).nullish(),
  meta: stringMap().refine(notTooLarge, TOO_LARGE).nullish(),
  no_parent: flag().optional(),
  no_default_policy: flag().optional(),
  renewable: nullMeans(flag().default(true), undefined),
  ttl: duration().optional(),
  lease: duration().optional(),
  explicit_max_ttl: duration().optional(),
  period: duration().optional(),
  display_name: z.string().max(128).default("token"),
  num_uses: integer().min(0).default(0),
  type: z.enum(["", "service", "batch", "default-service", "default"], "invalid 'type' value").default(""),
  entity_alias: z.string().max(512).optional(),
});
export type TokenRequest = z.infer<typeof TokenRequest>;

const MAX_ROLES = 64;
const RoleLink = caseless(z.object({ ID: z.string().max(128).default(""), Name: z.string().max(128).default("") }));

/** Body of `/v1/acl/token`; keys are normalized by the decoder of `src/routes/server/body.ts`. */
export const ClusterTokenRequest = z.object({
  AccessorID: z.string().optional(),
  /** Of an uploaded token; elsewhere clients send back what they read. */
  SecretID: z.string().nullish(),
  Name: z.string().max(256).default(""),
  Type: z.string().default("client"),
  Policies: z.array(z.string()).refine(notTooMany, TOO_MANY).nullish(),
  Roles: z.array(RoleLink).max(MAX_ROLES, `at most ${MAX_ROLES} roles`).nullish(),
  Global: z.boolean().nullish(),
  ExpirationTTL: nanoseconds().nullish(),
  ExpirationTime: z.string().nullish(),
  ...echoed("Hash", "CreateTime", "CreateIndex", "ModifyIndex"),
});
export type ClusterTokenRequest = z.infer<typeof ClusterTokenRequest>;

/** Limits of a token's lifetime in seconds; 0 = none, `maxTtl` 0 = the system's. */
export interface TokenLimits {
  readonly ttl: number;
  readonly maxTtl: number;
  readonly explicitMaxTtl: number;
  readonly period: number;
}

/**
 * Expiry of a token that is created or renewed now, ms since 1970; null for never. The requested TTL is capped at the
 * token's explicit maximum and at its role's or the system's maximum. The latter bounds the period of a periodic token,
 * and not how often it is renewed (`CalculateTTL` of upstream's sdk/framework/lease.go).
 * @returns also the warning about a capped TTL or period
 */
export function expiryFor(
  token: { created: number; ttl: number; maxTtl?: number; explicitMaxTtl: number; period: number; root: boolean },
  requested: number,
  now: number,
): { expires: number | null; warnings: string[] } {
  if (token.root && requested === 0 && token.period === 0 && token.explicitMaxTtl === 0)
    return { expires: null, warnings: [] };
  const most = token.maxTtl || SYSTEM_MAX_TTL;
  const period = Math.min(token.period, most, token.explicitMaxTtl || most);
  const wanted = now + (period || requested || token.ttl || SYSTEM_MAX_TTL) * 1000;
  const limits = [wanted];
  if (token.explicitMaxTtl > 0) limits.push(token.created + token.explicitMaxTtl * 1000);
  if (token.period === 0) limits.push(token.created + most * 1000);
  const expires = Math.min(...limits);
  const [asked, given] = [wanted, expires].map((at) => Math.round((at - now) / 1000)) as [number, number];
  return {
    expires,
    warnings: [
      ...(period < token.period ? [cappedPeriodWarning(token.period, period)] : []),
      ...(given < asked ? [cappedTtlWarning(asked, given)] : []),
    ],
  };
}

/** Display name of a token: `token-` plus the requested name, restricted to letters, digits and hyphens. */
export function displayName(requested: string): string {
  const clean = requested.replace(/[^a-zA-Z0-9-]/g, "-").replace(/^-+|-+$/g, "");
  return clean === "token" || clean === "" ? "token" : `token-${clean}`;
}

/** Normalizes names of policies: trimmed, in lower case, without duplicates. */
export function policyNames(given: readonly string[]): Result<string[]> {
  const names = comparedPolicies(given);
  if (names.includes(WRAPPING_POLICY_NAME))
    return refuse("invalid", `cannot assign policy ${JSON.stringify(WRAPPING_POLICY_NAME)}`);
  return names.some((name) => name.length > 128 || /\p{Cc}/u.test(name))
    ? refuse("invalid", "policies: names must be at most 128 characters without control characters")
    : ok(names);
}

/**
 * Normalizes names of policies that the cluster API sets. Letter case counts in its names, and every policy here is in
 * lower case: another spelling is refused, because it would name something else.
 */
export function clusterPolicyNames(given: readonly string[]): Result<string[]> {
  const other = given.find((name) => name !== name.toLowerCase());
  return other === undefined
    ? policyNames(given)
    : refuse("invalid", `policies: ${JSON.stringify(other.slice(0, 130))} must be in lower case`);
}

export const dedupe = (names: readonly string[]): string[] => [...new Set(names)];
