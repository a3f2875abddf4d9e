import * as z from "zod";
import { mountTypes } from "../../rights/mount-routes.ts";
import { JsonWebKey } from "../../wire/auth.ts";
import { keysOf, seconds, texts, time } from "../../wire/shapes.ts";
import { count, data, group, noContent, plain, warned } from "../operation.ts";
import { AuthMount, mountFields } from "./auth-methods.ts";
import { healthOfParts } from "./operability.ts";

const Health = z
  .object({
    initialized: z.boolean(),
    sealed: z.boolean(),
    sealed_because: z.string().optional(),
    standby: z.literal(false),
    performance_standby: z.literal(false),
    replication_performance_mode: z.literal("disabled"),
    replication_dr_mode: z.literal("disabled"),
    server_time_utc: z.int().describe("Seconds since 1970."),
    version: z.string(),
    enterprise: z.literal(true),
    cluster_name: z.string(),
    cluster_id: z.string(),
    echo_duration_ms: z.literal(0),
    clock_skew_ms: z.literal(0),
    ...healthOfParts,
  })
  .meta({ id: "Health" });

export const SealStatus = z.object({
  type: z.string(),
  initialized: z.boolean(),
  sealed: z.boolean(),
  t: z.int(),
  n: z.int(),
  progress: z.int(),
  nonce: z.string(),
  version: z.string(),
  build_date: time,
  migration: z.boolean(),
  cluster_name: z.string(),
  cluster_id: z.string(),
  recovery_seal: z.boolean(),
  storage_type: z.string(),
});

const Leader = z.object({
  ha_enabled: z.boolean(),
  is_self: z.boolean(),
  active_time: time,
  leader_address: z.string(),
  leader_cluster_address: z.string(),
  performance_standby: z.boolean(),
  performance_standby_last_remote_wal: z.int(),
});

const names = z.array(z.string()).optional();
/** Settings without effect on these engines: stored and returned. */
const kept = {
  passthrough_request_headers: names,
  allowed_response_headers: names,
  allowed_managed_keys: names,
  audit_non_hmac_request_keys: names,
  audit_non_hmac_response_keys: names,
  delegated_auth_accessors: names,
  identity_token_key: z.string().optional(),
};

const mount = {
  type: z.enum([...mountTypes(), "cubbyhole", "identity", "system"]),
  description: z.string(),
  accessor: z.string().describe("The identifier of the mount, which a move does not change."),
  ...mountFields,
  config: z.object({
    default_lease_ttl: seconds,
    max_lease_ttl: seconds,
    force_no_cache: z.boolean(),
    listing_visibility: z.string(),
    ...kept,
  }),
};
const Mount = z.object(mount).meta({ id: "Mount" });
const MountWithPath = z.object({ ...mount, path: z.string() });
const Move = z.object({
  migration_id: z.string(),
  migration_info: z.object({ source_mount: z.string(), target_mount: z.string(), status: z.literal("success") }),
});

const Glimpse = z.object({ type: z.string(), description: z.string(), options: texts.nullable() });

const Tuned = z.object({
  description: z.string(),
  default_lease_ttl: seconds,
  max_lease_ttl: seconds,
  force_no_cache: z.boolean(),
  options: texts.nullable(),
  listing_visibility: z.string().optional(),
  ...kept,
});

const Namespace = z.object({ id: z.string(), path: z.string(), custom_metadata: texts }).meta({ id: "Namespace" });

const Flags = z.object({ activated: z.array(z.string()), unactivated: z.array(z.string()) });
const flags = data("The flags: all are active.", Flags);

const Discovery = z.object({
  issuer: z.string(),
  jwks_uri: z.string(),
  response_types_supported: z.array(z.string()),
  subject_types_supported: z.array(z.string()),
  id_token_signing_alg_values_supported: z.array(z.string()),
});
const ttls = {
  default_lease_ttl: "Of leases by default, seconds or a duration; 0 or `system` is the system's 768 hours.",
  max_lease_ttl: "The most a lease may live; as `default_lease_ttl`.",
};
const metadata = { custom_metadata: "Texts by name, for people." };

export const system = group(
  "System",
  { path: "The mount's path.", name: "The namespace's name, in the namespace of the request." },
  {
    "GET /sys/health": {
      id: "readHealth",
      summary: "Check health",
      query: {
        activecode: count("The status while the service works, instead of 200.", 200),
        uninitcode: count("The status before the service is initialized, instead of 501.", 200),
        counts: "Adds the numbers of agents and of undelivered outbox rows; requires `agent:read`.",
        sealedcode: count("The status when secrets cannot be opened, instead of 503.", 200),
      },
      answers: {
        ...plain("Healthy.", Health),
        ...plain("Not initialized.", Health, 501),
        ...plain("Sealed, or unavailable.", Health, 503),
      },
    },
    "GET /sys/seal-status": {
      id: "readSealStatus",
      summary: "Read the seal status",
      answers: plain("The status.", SealStatus),
    },
    "GET /sys/init": {
      id: "readInitStatus",
      summary: "Read the initialization status",
      answers: plain("The status.", z.object({ initialized: z.boolean() })),
    },
    "GET /sys/leader": {
      id: "readLeader",
      summary: "Read the leader (none: single service)",
      answers: plain("The status.", Leader),
    },
    "GET /sys/key-status": {
      id: "readKeyStatus",
      summary: "Read the key status",
      answers: data(
        "The term.",
        z.object({
          term: z.int(),
          install_time: time,
          encryptions: z.int(),
          pending_rewraps: z.int().describe("Objects whose keys are still wrapped by an older one."),
        }),
        { flat: true },
      ),
    },
    "POST /sys/rotate": { id: "rotateKeys", summary: "Rotate the encryption key" },
    "POST /sys/rotate/keyring": { id: "rotateKeyring", summary: "Rotate the encryption key" },
    "GET /sys/activation-flags": { id: "readActivationFlags", summary: "Read activation flags", answers: flags },
    "POST /sys/activation-flags/secrets-sync/activate": {
      id: "activateSync",
      summary: "Activate secret sync (no-op)",
      answers: flags,
    },
    "GET /sys/mounts": {
      id: "listMounts",
      summary: "List mounts",
      answers: data("Mounts by path.", z.record(z.string(), Mount), { flat: true }),
    },
    "GET /sys/mounts/:path+/tune": {
      id: "readMountTuning",
      summary: "Read a mount's configuration",
      answers: data("The settings.", Tuned, { flat: true }),
    },
    "POST /sys/mounts/:path+/tune": {
      id: "tuneMount",
      summary: "Tune a mount",
      description: "`options.version` `2` upgrades a `kv` mount of version 1. A downgrade is refused.",
      body: { fields: ttls },
    },
    "GET /sys/mounts/:path+": {
      id: "readMount",
      summary: "Read a mount",
      answers: data("The mount.", z.object(mount), { flat: true }),
    },
    "POST /sys/mounts/:path+": {
      id: "enableMount",
      summary: "Enable a mount",
      body: {
        fields: {
          type: { type: "string", enum: mountTypes() },
          options: "Of `kv`: `version`, `1` or `2`. Without it, the mount is version 1.",
        },
      },
    },
    "DELETE /sys/mounts/:path+": {
      id: "disableMount",
      summary: "Disable a mount and delete its data",
      description: "A mount of type `cloud-b` revokes its leases first.",
      errors: [502, 504],
    },
    "POST /sys/remount": {
      id: "moveMount",
      summary: "Move a mount to another path",
      description:
        "The mount keeps its uuid, accessor, secrets, leases and associations. It is complete when it is answered. Leases stay valid under their earlier ids. A mount stays in its namespace.",
      body: {
        fields: { from: "The path of the mount.", to: "Its new path." },
        required: ["from", "to"],
      },
      answers: data("The id of the move.", z.object({ migration_id: z.string() }), { flat: true }),
    },
    "GET /sys/remount/status/:migration": {
      id: "readMove",
      summary: "Read the result of a move",
      path: { migration: "The `migration_id` of the move. It is kept for 30 days." },
      answers: data("The move.", Move, { flat: true }),
    },
    "GET /sys/internal/ui/mounts": {
      id: "listVisibleMounts",
      summary: "List mounts visible to the caller",
      answers: data(
        "Mounts by path; without a token only the fields to choose one.",
        z.object({
          secret: z.record(z.string(), z.union([Mount, Glimpse])),
          auth: z.record(z.string(), z.union([AuthMount, Glimpse])),
        }),
      ),
    },
    "GET /sys/internal/ui/mounts/:path+": {
      id: "readVisibleMount",
      summary: "Read the mount of a path",
      path: { path: "A mount's path, or one in it." },
      answers: data("The mount, or the auth method.", z.union([MountWithPath, AuthMount.extend({ path: z.string() })])),
    },
    "LIST /sys/namespaces": {
      id: "listNamespaces",
      summary: "List child namespaces",
      answers: data("Their names.", keysOf({ key_info: z.record(z.string(), Namespace) })),
    },
    "GET /sys/namespaces/:name": {
      id: "readNamespace",
      summary: "Read a namespace",
      answers: data("The namespace.", Namespace),
    },
    "POST /sys/namespaces/:name": {
      id: "writeNamespace",
      summary: "Create or update a namespace",
      body: { fields: metadata },
      answers: data("The namespace.", Namespace),
    },
    "PATCH /sys/namespaces/:name": {
      id: "patchNamespace",
      summary: "Patch a namespace's metadata",
      body: { fields: { custom_metadata: "Texts by name; null removes one." } },
      answers: data("The namespace.", Namespace),
    },
    "DELETE /sys/namespaces/:name": {
      id: "deleteNamespace",
      summary: "Delete an empty namespace",
      description: "A client of upstream gets 200, with a `status` or a warning that there was none.",
    },
    "GET /identity/oidc/plugins/.well-known/openid-configuration": {
      id: "readIdentityIssuer",
      summary: "Read the identity issuer's discovery document",
      answers: plain("OpenID Connect Discovery 1.0.", Discovery),
    },
    "GET /identity/oidc/plugins/.well-known/keys": {
      id: "readIdentityKeys",
      summary: "Read the identity issuer's public keys",
      answers: plain("A JSON Web Key Set.", z.object({ keys: z.array(JsonWebKey) })),
    },
    "GET /identity/oidc/secrets-sync/.well-known/openid-configuration": {
      id: "readSyncIdentityIssuer",
      summary: "Read the discovery document of the identity issuer of sync destinations",
      answers: plain("OpenID Connect Discovery 1.0.", Discovery),
    },
    "GET /identity/oidc/secrets-sync/.well-known/keys": {
      id: "readSyncIdentityKeys",
      summary: "Read the public keys of the identity issuer of sync destinations",
      answers: plain("A JSON Web Key Set.", z.object({ keys: z.array(JsonWebKey) })),
    },
    "GET /.well-known/jwks.json": {
      id: "readKeySet",
      summary: "Read the identity issuer's public keys, at upstream's path",
      description: "Also without `/v1`.",
      answers: plain("A JSON Web Key Set.", z.object({ keys: z.array(JsonWebKey) })),
    },
    "GET /identity/oidc/config": {
      id: "readIdentityConfig",
      summary: "Read the identity issuer's configuration",
      answers: data("The issuer; empty when unset.", z.object({ issuer: z.string() })),
    },
    "POST /identity/oidc/config": {
      id: "writeIdentityConfig",
      summary: "Configure the identity issuer",
      body: {
        fields: {
          issuer: { type: "string", description: "An origin, such as `https://example.com`; empty for none." },
        },
      },
      answers: { ...noContent, ...warned("Set, with a warning about existing tokens.") },
    },
    "POST /identity/oidc/key/default/rotate": {
      id: "rotateIdentityKey",
      summary: "Rotate the identity issuer's signing key",
      body: { fields: { verification_ttl: "How long tokens of the old key can be verified; at most 10 days." } },
    },
  },
);
