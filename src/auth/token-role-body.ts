import * as z from "zod";
import { duration, flag, stringList } from "../platform/http/fields.ts";
import { legacyTokenFields, tokenFields } from "./token-settings.ts";

const names = () =>
  stringList()
    .pipe(z.array(z.string().max(128)).max(256))
    .nullish();

const { token_period, token_explicit_max_ttl, token_num_uses, token_no_default_policy, token_bound_cidrs } =
  tokenFields;

/** The body of `auth/token/roles/:name`, read and checked. */
export const TokenRoleRequest = z.object({
  allowed_policies: names(),
  allowed_policies_glob: names(),
  disallowed_policies: names(),
  disallowed_policies_glob: names(),
  allowed_entity_aliases: names(),
  orphan: flag().optional(),
  renewable: flag().optional(),
  path_suffix: z.string().max(128).optional(),
  token_type: z.enum(["service", "batch", "default-service", "default-batch"], "invalid 'token_type' value").optional(),
  token_period,
  token_explicit_max_ttl,
  token_num_uses,
  token_no_default_policy,
  token_bound_cidrs,
  period: legacyTokenFields.period,
  explicit_max_ttl: duration().optional(),
  bound_cidrs: legacyTokenFields.bound_cidrs,
});
