import type { TokenRole } from "../../contracts/tokens.ts";
import { matchesGlob } from "../../lib/glob.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { dedupe, type TokenRow } from "./token.ts";

/*
 * Policies and limits of tokens of a role. Rules and texts of upstream
 * (https://github.com/openbao/openbao, vault/token_store.go, handleCreateCommon).
 */

/** Whether a role has its own rules about policies. Otherwise those for tokens without a role apply. */
export const rulesPolicies = (role: TokenRole): boolean =>
  [role.allowed_policies, role.allowed_policies_glob, role.disallowed_policies, role.disallowed_policies_glob].some(
    (names) => names.length > 0,
  );

/**
 * The policies of a token of a role that rules them. They need not be a subset of the creator's.
 * @param asked the policies that the request names; empty for none
 * @param inherited the creator's policies, for a role that only disallows some
 */
export function rolePolicies(
  role: TokenRole,
  asked: readonly string[],
  inherited: readonly string[],
  noDefault: boolean,
): Result<string[]> {
  const { allowed_policies: allowed, allowed_policies_glob: allowedGlobs } = role;
  const isDisallowed = (name: string): boolean =>
    role.disallowed_policies.includes(name) || matchesAny(name, role.disallowed_policies_glob);
  const addsDefault = !noDefault && !isDisallowed("default");
  const hasAllowed = allowed.length > 0 || allowedGlobs.length > 0;
  const names = sanitized(asked.length > 0 ? asked : hasAllowed ? allowed : inherited, addsDefault);
  if (hasAllowed && asked.length > 0) {
    const listed = sanitized(allowed, addsDefault);
    if (!names.every((name) => listed.includes(name) || matchesAny(name, allowedGlobs))) {
      return refuse(
        "invalid",
        `token policies (${quoted(names)}) must be subset of the role's allowed policies (${quoted(listed)}) or glob policies (${quoted(allowedGlobs)})`,
      );
    }
  }
  const disallowed = names.find(isDisallowed);
  if (disallowed !== undefined) {
    return refuse("invalid", `token policy ${JSON.stringify(disallowed)} is disallowed by this role`);
  }
  return ok(names);
}

const matchesAny = (name: string, globs: readonly string[]): boolean => globs.some((glob) => matchesGlob(name, glob));

/** Sorted, with `default` if asked for; `root` stands alone. */
const sanitized = (names: readonly string[], addsDefault: boolean): string[] =>
  names.includes("root") ? ["root"] : dedupe(addsDefault ? [...names, "default"] : names).sort();

const quoted = (names: readonly string[]): string => `[${names.map((name) => JSON.stringify(name)).join(" ")}]`;

/** A number that the request and the role may both limit; 0 = no limit. */
export const lesserOf = (requested: number, ruled: number): number =>
  requested === 0 || ruled === 0 ? requested || ruled : Math.min(requested, ruled);

/** A duration that the request and the role may both limit, with upstream's warning when both do. */
export function lesser(what: string, requested = 0, ruled = 0, warnings: string[]): number {
  const seconds = lesserOf(requested, ruled);
  if (requested > 0 && ruled > 0) {
    warnings.push(
      `${what} specified both during creation call and in role; using the lesser value of ${seconds} seconds`,
    );
  }
  return seconds;
}

/** Networks of a new token, as JSON: those of its role, else those of its parent. */
export const boundNetworks = (role: TokenRole | null, parent: TokenRow | null): string | null => {
  if (!role) return parent?.bound_cidrs ?? null;
  return role.token_bound_cidrs.length > 0 ? JSON.stringify(role.token_bound_cidrs) : null;
};

/** Only a role allows the aliases that tokens may be made for; letter case is ignored. */
export function refusedAlias(alias: string, role: TokenRole | null): Refusal | null {
  if (!role) return refuse("invalid", "'entity_alias' is only allowed in combination with token role");
  return matchesAny(alias.toLowerCase(), role.allowed_entity_aliases)
    ? null
    : refuse("invalid", "invalid 'entity_alias' value");
}
