import * as z from "zod";
import type { TokenSettings } from "../contracts/auth.ts";
import { parseNetwork } from "../lib/networks.ts";
import { pick } from "../lib/pick.ts";
import { duration, flag, integer, stringList } from "../platform/http/fields.ts";
import { comparedPolicies } from "../rights/policy-names.ts";
import { metadataPairs } from "./metadata-pairs.ts";

const MAX_NAMES = 256;

/** A list of names of policies. */
export const policyNames = () =>
  stringList()
    .pipe(z.array(z.string().max(128)).max(MAX_NAMES))
    .nullish();

/** A list of networks or single addresses. */
export const networks = () =>
  stringList()
    .pipe(
      z
        .array(
          z
            .string()
            .refine(
              (text) => parseNetwork(text) !== null,
              'must be networks such as "10.0.0.0/8", or single addresses',
            ),
        )
        .max(MAX_NAMES),
    )
    .nullish();

/**
 * The `token_…` fields that roles and users of all auth methods share, and the older names of some
 * (https://developer.hashicorp.com/vault/api-docs/auth/userpass#parameters).
 */
export const tokenFields = {
  token_ttl: duration().optional(),
  token_max_ttl: duration().optional(),
  token_explicit_max_ttl: duration().optional(),
  token_period: duration().optional(),
  token_policies: policyNames(),
  token_bound_cidrs: networks(),
  token_no_default_policy: flag().optional(),
  token_num_uses: integer().min(0).optional(),
  token_type: z
    .enum(["", "default", "service", "batch", "default-service", "default-batch"], "invalid 'token_type' value")
    .optional(),
  alias_metadata: metadataPairs(),
};

/** Older names of token fields, as `userpass` and others still accept them. */
export const legacyTokenFields = {
  ttl: duration().optional(),
  max_ttl: duration().optional(),
  period: duration().optional(),
  policies: policyNames(),
  bound_cidrs: networks(),
};

/** Roles of `jwt` and `kubernetes` have one more. */
export const legacyRoleFields = { ...legacyTokenFields, num_uses: integer().min(0).optional() };

const Fields = z.object({ ...tokenFields, ...legacyRoleFields });
type Fields = z.infer<typeof Fields>;

/** The current name of each field with an older one. */
const CURRENT_NAMES = {
  policies: "token_policies",
  ttl: "token_ttl",
  max_ttl: "token_max_ttl",
  period: "token_period",
  bound_cidrs: "token_bound_cidrs",
  num_uses: "token_num_uses",
} as const;
const OLDER_NAMES = Object.keys(CURRENT_NAMES) as (keyof typeof CURRENT_NAMES)[];

export const DEFAULT_TOKEN_SETTINGS: TokenSettings = {
  token_ttl: 0,
  token_max_ttl: 0,
  token_explicit_max_ttl: 0,
  token_period: 0,
  token_policies: [],
  token_bound_cidrs: [],
  token_no_default_policy: false,
  token_num_uses: 0,
  token_type: "default",
  alias_metadata: {},
};
const SETTINGS = Object.keys(DEFAULT_TOKEN_SETTINGS) as (keyof typeof DEFAULT_TOKEN_SETTINGS)[];

/** Settings after a request: fields that it does not name keep their values. */
export function tokenSettingsWith(before: TokenSettings, given: Partial<Fields>): TokenSettings {
  return {
    token_ttl: given.token_ttl ?? given.ttl ?? before.token_ttl,
    token_max_ttl: given.token_max_ttl ?? given.max_ttl ?? before.token_max_ttl,
    token_explicit_max_ttl: given.token_explicit_max_ttl ?? before.token_explicit_max_ttl,
    token_period: given.token_period ?? given.period ?? before.token_period,
    token_policies: comparedPolicies(given.token_policies ?? given.policies ?? before.token_policies),
    token_bound_cidrs: given.token_bound_cidrs ?? given.bound_cidrs ?? before.token_bound_cidrs,
    token_no_default_policy: given.token_no_default_policy ?? before.token_no_default_policy,
    token_num_uses: given.token_num_uses ?? given.num_uses ?? before.token_num_uses,
    token_type: given.token_type === "" ? "default" : (given.token_type ?? before.token_type),
    alias_metadata: given.alias_metadata ?? before.alias_metadata ?? {},
    older_names: olderNamesWith(before.older_names ?? [], given),
  };
}

/** A field is shown under its older name from the write with that name until a write with the current name alone. */
const olderNamesWith = (before: readonly string[], given: Partial<Fields>): readonly string[] =>
  OLDER_NAMES.filter(
    (older) => given[older] != null || (given[CURRENT_NAMES[older]] == null && before.includes(older)),
  );

/** Values that are set, under those older names with which they were written (upstream: tokenutil.UpgradeValue). */
export function olderTokenFields(entry: TokenSettings): Record<string, unknown> {
  const shown = (entry.older_names ?? []).map((older): [string, unknown] => [
    older,
    entry[CURRENT_NAMES[older as keyof typeof CURRENT_NAMES]],
  ]);
  return Object.fromEntries(shown.filter(([, value]) => (Array.isArray(value) ? value.length > 0 : value !== 0)));
}

/** An entry as a read shows it. */
export function withOlderNames<Entry extends TokenSettings>({ older_names: names = [], ...entry }: Entry) {
  const shown = { ...entry, alias_metadata: entry.alias_metadata ?? {} };
  return { ...shown, ...olderTokenFields({ ...shown, older_names: names }) };
}

/** Only the token settings of an entry that holds more. */
export const tokenSettingsOf = (entry: TokenSettings): TokenSettings => ({
  ...pick(entry, ...SETTINGS),
  alias_metadata: entry.alias_metadata ?? {},
});

/**
 * Why these settings contradict each other; null when they do not.
 * Wording of upstream (https://github.com/hashicorp/vault, sdk/helper/tokenutil).
 */
export function settingsProblem(settings: TokenSettings): string | null {
  const { token_ttl, token_max_ttl, token_policies, token_period, token_num_uses, token_type } = settings;
  if (token_max_ttl > 0 && token_ttl > token_max_ttl) return "'token_ttl' cannot be greater than 'token_max_ttl'";
  if (token_type === "batch" || token_type === "default-batch") {
    const kind = token_period > 0 ? "periodic tokens" : token_num_uses > 0 ? "tokens with limited use count" : null;
    if (kind !== null) return `'token_type' cannot be 'batch' or 'default_batch' when set to generate ${kind}`;
  }
  return token_policies.includes("root") ? 'token_policies: "root" cannot be granted by a login' : null;
}
