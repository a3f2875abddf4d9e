import * as z from "zod";
import type { Approle } from "../../contracts/approle.ts";
import { duration, flag, integer } from "../../platform/http/fields.ts";
import {
  DEFAULT_TOKEN_SETTINGS,
  networks,
  olderTokenFields,
  policyNames,
  settingsProblem,
  tokenFields,
  tokenSettingsOf,
  tokenSettingsWith,
} from "../token-settings.ts";

/** Bounds of names, role ids and secret ids, in characters. */
export const MAX_ROLE_ID = 512;
export const MAX_SECRET_ID = 4_096;

/** A role id. White space around it is dropped, since clients read it from files. */
const roleId = () =>
  z.string().trim().min(1, "invalid role_id supplied").max(MAX_ROLE_ID, `at most ${MAX_ROLE_ID} characters`);

/** The fields of a role besides `role_id`, and older names of some. */
const roleFields = {
  bind_secret_id: flag().optional(),
  secret_id_bound_cidrs: networks(),
  bound_cidr_list: networks(),
  secret_id_num_uses: integer().min(0).optional(),
  secret_id_ttl: duration().optional(),
  ...tokenFields,
  policies: policyNames(),
  period: duration().optional(),
};

/** Body of `POST auth/:mount/role/:name` (https://developer.hashicorp.com/vault/api-docs/auth/approle). */
export const ApproleBody = z.object({
  role_id: roleId().optional(),
  local_secret_ids: flag().optional(),
  ...roleFields,
});
export type ApproleBody = z.infer<typeof ApproleBody>;

export const RoleIdBody = z.object({ role_id: roleId() });

const NEW_ROLE: Omit<Approle, "role_id"> = {
  ...DEFAULT_TOKEN_SETTINGS,
  bind_secret_id: true,
  local_secret_ids: false,
  secret_id_bound_cidrs: [],
  secret_id_num_uses: 0,
  secret_id_ttl: 0,
};

/** A role after a request: fields that it does not name keep their values. A new role gets a random role id. */
export function approleWith(before: Approle | null, given: ApproleBody): Approle {
  const role = before ?? { ...NEW_ROLE, role_id: crypto.randomUUID() };
  return {
    ...tokenSettingsWith(role, given),
    role_id: given.role_id ?? role.role_id,
    bind_secret_id: given.bind_secret_id ?? role.bind_secret_id,
    local_secret_ids: given.local_secret_ids ?? role.local_secret_ids,
    secret_id_bound_cidrs: given.secret_id_bound_cidrs ?? given.bound_cidr_list ?? role.secret_id_bound_cidrs,
    secret_id_num_uses: given.secret_id_num_uses ?? role.secret_id_num_uses,
    secret_id_ttl: given.secret_id_ttl ?? role.secret_id_ttl,
  };
}

/** The rule that a changed role violates; null when there is none. Wording of upstream. */
export function approleProblem(before: Approle | null, role: Approle): string | null {
  if (before && role.local_secret_ids !== before.local_secret_ids) {
    return "local_secret_ids can only be modified during role creation";
  }
  const isBound = role.bind_secret_id || role.secret_id_bound_cidrs.length > 0 || role.token_bound_cidrs.length > 0;
  return isBound ? settingsProblem(role) : "at least one constraint should be enabled on the role";
}

/** A role as returned by reads; its role id has a separate path. */
export const shownApprole = (role: Approle) => ({
  ...tokenSettingsOf(role),
  ...olderTokenFields(role),
  bind_secret_id: role.bind_secret_id,
  local_secret_ids: role.local_secret_ids,
  secret_id_bound_cidrs: role.secret_id_bound_cidrs.length === 0 ? null : role.secret_id_bound_cidrs,
  secret_id_num_uses: role.secret_id_num_uses,
  secret_id_ttl: role.secret_id_ttl,
});

/** A field of a role with a separate path. */
export interface RoleField {
  /** The last segment of the path. */
  readonly path: string;
  readonly body: z.ZodType<ApproleBody>;
  /** Names of body fields, one of which is required. */
  readonly names: readonly (keyof typeof roleFields)[];
  /** The data of an answer. */
  readonly show: (role: Approle) => object;
  /** The value after `DELETE`, as a body. */
  readonly reset: ApproleBody;
}

const field = (
  path: string,
  names: readonly (keyof typeof roleFields)[],
  reset: ApproleBody,
  show: RoleField["show"],
): RoleField => ({
  path,
  names,
  show,
  reset,
  body: z.object(Object.fromEntries(names.map((name) => [name, roleFields[name]]))) as z.ZodType<ApproleBody>,
});

const pick = (fields: Record<string, unknown>, name: string): Record<string, unknown> =>
  name in fields ? { [name]: fields[name] } : {};

export const ROLE_FIELDS: readonly RoleField[] = [
  field("policies", ["token_policies", "policies"], { token_policies: [] }, (role) => ({
    token_policies: role.token_policies,
    ...pick(olderTokenFields(role), "policies"),
  })),
  field("bind-secret-id", ["bind_secret_id"], { bind_secret_id: true }, (role) => ({
    bind_secret_id: role.bind_secret_id,
  })),
  field("secret-id-bound-cidrs", ["secret_id_bound_cidrs"], { secret_id_bound_cidrs: [] }, (role) => ({
    secret_id_bound_cidrs: role.secret_id_bound_cidrs,
  })),
  field("bound-cidr-list", ["bound_cidr_list"], { bound_cidr_list: [] }, (role) => ({
    bound_cidr_list: role.secret_id_bound_cidrs,
  })),
  field("secret-id-num-uses", ["secret_id_num_uses"], { secret_id_num_uses: 0 }, (role) => ({
    secret_id_num_uses: role.secret_id_num_uses,
  })),
  field("secret-id-ttl", ["secret_id_ttl"], { secret_id_ttl: 0 }, (role) => ({ secret_id_ttl: role.secret_id_ttl })),
  field("period", ["token_period", "period"], { token_period: 0 }, (role) => ({
    token_period: role.token_period,
    ...pick(olderTokenFields(role), "period"),
  })),
  field("token-ttl", ["token_ttl"], { token_ttl: 0 }, (role) => ({ token_ttl: role.token_ttl })),
  field("token-max-ttl", ["token_max_ttl"], { token_max_ttl: 0 }, (role) => ({ token_max_ttl: role.token_max_ttl })),
  field("token-num-uses", ["token_num_uses"], { token_num_uses: 0 }, (role) => ({
    token_num_uses: role.token_num_uses,
  })),
  field("token-bound-cidrs", ["token_bound_cidrs"], { token_bound_cidrs: [] }, (role) => ({
    token_bound_cidrs: role.token_bound_cidrs,
  })),
];
