import * as z from "zod";
import { seconds, texts, time, timeOrNull } from "./shapes.ts";

/** Tokens, secret ids and leases as the secrets API answers them. */

/** The `auth` block (Vault API, `auth/token/create`). */
export const Auth = z
  .object({
    client_token: z.string().describe("The token; empty when it was named by its accessor."),
    accessor: z.string(),
    policies: z.array(z.string()),
    token_policies: z.array(z.string()),
    identity_policies: z.array(z.string()).nullable(),
    metadata: texts.nullable(),
    orphan: z.boolean(),
    entity_id: z.string().describe("The entity of the holder; empty for none."),
    lease_duration: seconds,
    renewable: z.boolean(),
    mfa_requirement: z.null(),
    num_uses: z.int().describe("0: as often as one likes."),
    token_type: z.enum(["service", "batch"]),
  })
  .meta({ id: "Auth" });

/** Durations in seconds; `period`, `explicit_max_ttl` and `bound_cidrs` are older names. */
export const TokenRole = z
  .object({
    name: z.string(),
    allowed_policies: z.array(z.string()),
    allowed_policies_glob: z.array(z.string()),
    disallowed_policies: z.array(z.string()),
    disallowed_policies_glob: z.array(z.string()),
    allowed_entity_aliases: z.array(z.string()),
    orphan: z.boolean(),
    renewable: z.boolean(),
    path_suffix: z.string(),
    token_type: z.enum(["service", "batch", "default-service", "default-batch"]),
    token_period: seconds,
    token_explicit_max_ttl: seconds,
    period: seconds,
    explicit_max_ttl: seconds,
    token_no_default_policy: z.boolean(),
    token_num_uses: z.int().optional(),
    token_bound_cidrs: z.array(z.string()).optional(),
    bound_cidrs: z.array(z.string()).optional(),
  })
  .meta({ id: "TokenRole" });

export const networks = z.array(z.string());
export const uses = z.int().describe("Uses left; 0 = any number.");

/** In the one answer that shows the secret id. */
export const IssuedSecretId = z.object({
  secret_id: z.string(),
  secret_id_accessor: z.string(),
  /** 0 = without an end. */
  secret_id_ttl: seconds,
  secret_id_num_uses: uses,
});

export const SecretIdRecord = z.object({
  secret_id_accessor: z.string(),
  secret_id_ttl: seconds,
  secret_id_num_uses: uses,
  metadata: texts,
  creation_time: time,
  expiration_time: time,
  last_updated_time: time,
  cidr_list: networks,
  token_bound_cidrs: networks,
});

/** As `sys/leases/lookup` shows it. */
export const Lease = z
  .object({
    id: z.string(),
    path: z.string().describe("The id without its last segment."),
    namespace_path: z.string().optional(),
    issue_time: time,
    expire_time: time,
    last_renewal: timeOrNull,
    renewable: z.boolean(),
    ttl: seconds.describe("Seconds left; zero or less once it is over."),
    revoke_error: z.string().optional().describe("Why the last try to revoke it failed."),
  })
  .meta({ id: "Lease" });

/** A key as verifiers read it (RFC 7517, 4; RFC 7518, 6.3.1). */
export const JsonWebKey = z.object({
  use: z.literal("sig"),
  kty: z.literal("RSA"),
  kid: z.string(),
  alg: z.literal("RS256"),
  n: z.string(),
  e: z.string(),
});
