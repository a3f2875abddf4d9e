import * as z from "zod";
import { duration, flag, stringList, stringMap } from "../../platform/http/fields.ts";

/*
 * Fields that the mounts of engines and of auth methods share
 * (https://developer.hashicorp.com/vault/api-docs/system/mounts,
 * https://developer.hashicorp.com/vault/api-docs/system/auth).
 */

/** Seconds; `system` or 0 means the system's TTL. */
const leaseTtl = () => z.preprocess((given) => (given === "system" ? 0 : given), duration()).optional();

const MAX_NAMES = 128;
const NO_TYPE = "backend type must be specified as a string";

/** A list of names that clients read back. */
export const names = () =>
  stringList()
    .pipe(z.array(z.string().max(256)).max(MAX_NAMES))
    .optional();

/** Settings of every kind of mount. */
export const mountSettings = {
  default_lease_ttl: leaseTtl(),
  max_lease_ttl: leaseTtl(),
  force_no_cache: flag().optional(),
  listing_visibility: z.enum(["", "hidden", "unauth"]).optional(),
  passthrough_request_headers: names(),
  allowed_response_headers: names(),
  audit_non_hmac_request_keys: names(),
  audit_non_hmac_response_keys: names(),
};

/** Body of a request that creates a mount. */
export const mountRequest = <Config extends z.ZodObject>(config: Config) =>
  z.object({
    type: z.string(NO_TYPE).min(1, NO_TYPE),
    description: z.string().max(4096).default(""),
    config: config.nullish(),
    options: stringMap().nullish(),
    local: flag().default(false),
    seal_wrap: flag().default(false),
    external_entropy_access: flag()
      .refine((wanted) => !wanted, "there is no external source of entropy")
      .optional(),
  });

/** Fields of a `tune` request beside the settings. */
export const tunedFields = {
  description: z.string().max(4096).optional(),
  options: stringMap().nullish(),
};
