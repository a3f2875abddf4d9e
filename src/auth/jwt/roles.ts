import * as z from "zod";
import type { TokenSettings } from "../../contracts/auth.ts";
import { withoutUndefined } from "../../lib/json.ts";
import { pick } from "../../lib/pick.ts";
import { duration, flag, mapOf, signedDuration, stringList, stringMap } from "../../platform/http/fields.ts";
import {
  DEFAULT_TOKEN_SETTINGS,
  legacyRoleFields,
  settingsProblem,
  tokenFields,
  tokenSettingsWith,
} from "../token-settings.ts";
import type { ClaimRules } from "./claims.ts";

const MAX_VALUES = 256;
const texts = () => stringList().pipe(z.array(z.string().max(1024)).max(MAX_VALUES));
const Scalar = z.union([z.string().max(1024), z.boolean(), z.number()]);
const BoundClaims = mapOf(
  z
    .record(z.string().max(256), z.union([Scalar, z.array(Scalar).max(MAX_VALUES)]))
    .refine((claims) => Object.keys(claims).length <= MAX_VALUES, `at most ${MAX_VALUES} claims`),
);

/** Body of `POST auth/:mount/role/:name` (https://developer.hashicorp.com/vault/api-docs/auth/jwt#create-update-role). */
export const JwtRoleBody = z.object({
  role_type: z
    .enum(["", "oidc", "jwt"], 'must be "oidc" or "jwt"')
    .default("oidc")
    .transform((type) => type || "oidc"),
  bound_audiences: texts().optional(),
  bound_subject: z.string().max(1024).optional(),
  bound_claims: BoundClaims.optional(),
  bound_claims_type: z.enum(["string", "glob"]).optional(),
  user_claim: z.string().max(256).optional(),
  user_claim_json_pointer: flag().optional(),
  claim_mappings: stringMap().optional(),
  groups_claim: z.string().max(256).optional(),
  expiration_leeway: signedDuration().optional(),
  not_before_leeway: signedDuration().optional(),
  clock_skew_leeway: signedDuration().optional(),
  max_age: duration().optional(),
  verbose_oidc_logging: flag().optional(),
  callback_mode: z
    .enum(["", "client"], 'must be "client": the client completes a login; there is no device flow, and no polling')
    .optional(),
  allowed_redirect_uris: texts().optional(),
  oidc_scopes: texts().optional(),
  ...tokenFields,
  ...legacyRoleFields,
});

/** A role as it is stored and read. Leeways are seconds: 0 = the default, negative = none. */
export interface JwtRole extends TokenSettings, ClaimRules {
  readonly role_type: "oidc" | "jwt";
  readonly bound_audiences: readonly string[];
  readonly bound_subject: string;
  readonly expiration_leeway: number;
  readonly not_before_leeway: number;
  readonly clock_skew_leeway: number;
  readonly max_age: number;
  readonly verbose_oidc_logging: boolean;
  readonly callback_mode: "client";
  readonly allowed_redirect_uris: readonly string[];
  readonly oidc_scopes: readonly string[];
}

const NEW_FIELDS: Omit<JwtRole, keyof TokenSettings> = {
  role_type: "jwt",
  bound_audiences: [],
  bound_subject: "",
  bound_claims: {},
  bound_claims_type: "string",
  user_claim: "",
  user_claim_json_pointer: false,
  claim_mappings: {},
  groups_claim: "",
  expiration_leeway: 0,
  not_before_leeway: 0,
  clock_skew_leeway: 0,
  max_age: 0,
  callback_mode: "client",
  verbose_oidc_logging: false,
  allowed_redirect_uris: [],
  oidc_scopes: [],
};
const FIELDS = Object.keys(NEW_FIELDS) as (keyof typeof NEW_FIELDS)[];

/** A role after a request: fields that it does not name keep their values. */
export function jwtRoleWith(before: JwtRole | null, body: z.infer<typeof JwtRoleBody>): JwtRole {
  const role = before ?? { ...DEFAULT_TOKEN_SETTINGS, ...NEW_FIELDS };
  const fields = { ...role, ...withoutUndefined(body), callback_mode: "client" } as const;
  return { ...tokenSettingsWith(role, body), ...pick(fields, ...FIELDS) };
}

/** Why a role cannot be stored; null when it can. Wording of upstream. */
export function jwtRoleProblem(role: JwtRole): string | null {
  if (role.user_claim === "") return "user_claim: a user claim must be defined on the role";
  const targets = Object.values(role.claim_mappings);
  if (targets.includes("role")) return 'claim_mappings: metadata key "role" is reserved';
  if (new Set(targets).size < targets.length) return "claim_mappings: multiple keys are mapped to one metadata key";
  const claims = Object.values(role.bound_claims).flat();
  if (role.bound_claims_type === "glob" && !claims.every((value) => typeof value === "string")) {
    return "bound_claims: claim is not a string; globs match strings only";
  }
  if (role.role_type === "oidc") {
    return role.allowed_redirect_uris.length === 0
      ? "allowed_redirect_uris: 'allowed_redirect_uris' must be set if 'role_type' is 'oidc' or unspecified."
      : settingsProblem(role);
  }
  const isBound =
    [role.bound_audiences, role.token_bound_cidrs, claims].some((list) => list.length > 0) || role.bound_subject !== "";
  return isBound
    ? settingsProblem(role)
    : "bound_audiences: must have at least one bound constraint when creating/updating a role";
}
