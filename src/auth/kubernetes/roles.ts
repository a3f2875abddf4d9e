import * as z from "zod";
import type { TokenSettings } from "../../contracts/auth.ts";
import { stringList } from "../../platform/http/fields.ts";
import {
  DEFAULT_TOKEN_SETTINGS,
  legacyRoleFields,
  settingsProblem,
  tokenFields,
  tokenSettingsWith,
} from "../token-settings.ts";

const names = () => stringList().pipe(z.array(z.string().min(1).max(256)).max(256));
const NO_SELECTOR = "must be empty: labels of namespaces are not read; name the namespaces";

/**
 * Body of `POST auth/:mount/role/:name`
 * (https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#create-update-role).
 */
export const KubernetesRoleBody = z.object({
  bound_service_account_names: names().optional(),
  bound_service_account_namespaces: names().optional(),
  bound_service_account_namespace_selector: z.literal("", NO_SELECTOR).optional(),
  audience: z.string().max(1024).optional(),
  alias_name_source: z
    .enum(["", "serviceaccount_uid", "serviceaccount_name"], 'must be "serviceaccount_uid" or "serviceaccount_name"')
    .optional(),
  ...tokenFields,
  ...legacyRoleFields,
});

/** A role as it is stored and read. */
export interface KubernetesRole extends TokenSettings {
  readonly bound_service_account_names: readonly string[];
  readonly bound_service_account_namespaces: readonly string[];
  readonly bound_service_account_namespace_selector: string;
  readonly audience: string;
  readonly alias_name_source: "serviceaccount_uid" | "serviceaccount_name";
}

const NEW_ROLE: KubernetesRole = {
  ...DEFAULT_TOKEN_SETTINGS,
  bound_service_account_names: [],
  bound_service_account_namespaces: [],
  bound_service_account_namespace_selector: "",
  audience: "",
  alias_name_source: "serviceaccount_uid",
};

/** A role after a request: fields that it does not name keep their values. */
export function kubernetesRoleWith(
  before: KubernetesRole | null,
  body: z.infer<typeof KubernetesRoleBody>,
): KubernetesRole {
  const role = before ?? NEW_ROLE;
  return {
    ...tokenSettingsWith(role, body),
    bound_service_account_names: body.bound_service_account_names ?? role.bound_service_account_names,
    bound_service_account_namespaces: body.bound_service_account_namespaces ?? role.bound_service_account_namespaces,
    bound_service_account_namespace_selector: "",
    audience: body.audience ?? role.audience,
    alias_name_source: body.alias_name_source || role.alias_name_source,
  };
}

/** Why a role cannot be stored; null when it can. Wording of upstream. */
export function kubernetesRoleProblem(role: KubernetesRole): string | null {
  for (const field of ["bound_service_account_names", "bound_service_account_namespaces"] as const) {
    if (role[field].length === 0) return `${field}: "${field}" can not be empty`;
    if (role[field].length > 1 && role[field].includes("*")) return `${field}: can not mix "*" with values`;
  }
  return settingsProblem(role);
}
