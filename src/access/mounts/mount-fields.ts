import * as z from "zod";
import type { Mount, MountConfig, TuneBody } from "../../contracts/mount.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { sentence } from "../../platform/http/errors.ts";
import { duration, echoed, flag, stringList, stringMap } from "../../platform/http/fields.ts";

/*
 * Fields that the mounts of engines and of auth methods share
 * (https://developer.hashicorp.com/vault/api-docs/system/mounts,
 * https://developer.hashicorp.com/vault/api-docs/system/auth).
 */

/** A field that an empty text leaves unchanged: clients send it for a setting without a value. */
export const unlessEmpty = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((given) => (given === "" ? undefined : given), schema.optional());

/** Seconds; `system` or 0 means the system's value, an empty text no change. */
export const systemDuration = () => unlessEmpty(z.preprocess((given) => (given === "system" ? 0 : given), duration()));

const MAX_NAMES = 128;
const NO_TYPE = sentence("backend type must be specified as a string");

/** A list of names that clients read back. */
export const names = () =>
  stringList()
    .pipe(z.array(z.string().max(256)).max(MAX_NAMES))
    .optional();

/** Settings of every kind of mount. */
export const mountSettings = {
  default_lease_ttl: systemDuration(),
  max_lease_ttl: systemDuration(),
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

/** Fields of a `tune` request beside the settings. The Go client always sends `force_no_cache`, so it has no effect. */
export const tunedFields = {
  description: z.string().max(4096).optional(),
  options: stringMap().optional(),
  ...echoed("force_no_cache"),
};

/** Options after a `tune`: an empty one is removed, except the version. */
const optionsWith = (
  before: Readonly<Record<string, string>>,
  given: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries({ ...before, ...given }).filter(([name, value]) => value !== "" || name === "version"),
  );

/** The settings of a mount or an auth method after a `tune` that results in a config; refused for its lease times. */
export function tuned<M extends Pick<Mount, "description" | "options"> & { readonly config: LeaseTimes }>(
  before: M,
  { description = before.description, options }: Pick<TuneBody, "description" | "options">,
  config: M["config"],
): Result<M> {
  const { default_lease_ttl: usual, max_lease_ttl: most } = config;
  return most === 0 || usual <= most
    ? ok({ ...before, description, options: optionsWith(before.options, options), config })
    : refuse("invalid", `backend max lease TTL of ${most} would be less than backend default lease TTL of ${usual}`);
}

type LeaseTimes = Pick<MountConfig, "default_lease_ttl" | "max_lease_ttl">;
