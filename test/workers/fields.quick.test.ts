import { describe, expect, it } from "vitest";
import { isEchoed } from "../../src/platform/http/fields.ts";
import { isInternal, knownFields } from "../../src/platform/http/unknown-fields.ts";
import { clusterRoutes, mountedRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { schemaFields } from "../schema-walk.ts";
import { itRows } from "../support/rows.ts";
import { get, put, send } from "./client.ts";
import { examples } from "./examples.ts";

/*
 * Every field of every body has an effect, or is stored and shown. The table names the test that holds it to that: a field
 * that is added to a schema fails here until it has one, and so does a named test that is renamed, skipped or deleted.
 */

const sources = import.meta.glob<string>("./*.test.ts", { query: "?raw", import: "default", eager: true });

const LIFE = "tokens-life › returns every field with its type";
const applied = (resource: string) =>
  `${resource.startsWith("nomad") ? "terraform-cluster" : "terraform"} › has no difference: %s › ${resource}`;
const ROLE = "terraform › has no difference: vault_azure_secret_backend_role";
const ROLES = "engine-roles › is resolved on write, and returned with the provider's names and ids";
const CONFIG = "engine-config › changes only the fields of a write, and reads durations as seconds";
const ACL = "acl › return every field, and the secret only on creation";
const ALIASED = "identity-entities › receives the logins of its alias";
const DRAIN = "nodes-drain › that ignores system jobs does not wait for those of type %s › sysbatch";

/**
 * Routes, fields, and the test that shows their effect: file, title, and the row if the title has a placeholder. For
 * routes whose `Example` does not state it.
 */
const LOCKOUT = "auth-userpass › counts failures by the settings of the auth method";
const EFFECTS: readonly (readonly [routes: RegExp, fields: string, proof: string])[] = [
  [/audit-hash/, "input", "audit › has equal hashes for equal tokens and addresses, as `audit-hash` returns"],
  [
    /quotas\/rate-limit/,
    "path rate interval block_interval inheritable group_by type role secondary_rate",
    "quotas › is stored and shown, with upstream's defaults",
  ],
  [
    /quotas\/config/,
    "enable_rate_limit_response_headers rate_limit_exempt_paths absolute_rate_limit_exempt_paths enable_rate_limit_audit_logging",
    "quotas › exempts paths, and shows limits in headers on request",
  ],
  [/config\/cors/, "allowed_origins allowed_headers", "cors › answers the preflight of an allowed origin"],
  [/tools\/random/, "bytes format source", "system-info › returns %s of random bytes › 16 in hex"],
  [/tools\/hash/, "input algorithm format", "system-info › hashes with %s › sha2-512, in base64"],
  [/token\/create/, "policies meta no_parent renewable ttl display_name num_uses explicit_max_ttl type", LIFE],
  [/token\/create/, "id", "tokens › accepts a chosen id once, and none in the format of a generated one"],
  [/token\/create/, "no_default_policy", "tokens › omits the default policy on request, also an inherited one"],
  [
    /token\/create/,
    "lease",
    "durations › %s: half a second is one second, and a negative one is refused by name › lease",
  ],
  [/token\/create/, "period", "tokens-life › returns the period and the last renewal, if any"],
  [/token\/create/, "entity_alias", "tokens › accepts the zero values that command-line clients send"],
  [
    /token\/(lookup|renew|revoke)/,
    "token accessor",
    "tokens-life › finds another token by its text, and by its accessor without the text",
  ],
  [
    /token\/roles/,
    "allowed_policies orphan token_num_uses token_bound_cidrs path_suffix token_type",
    "token-roles › returns upstream's defaults, and keeps fields that a later request does not name",
  ],
  [/token\/roles/, "allowed_policies_glob", "token-roles › grants the role's policies to holders who lack them"],
  [
    /token\/roles/,
    "disallowed_policies disallowed_policies_glob",
    "token-roles › refuses disallowed policies, and adds no default policy that is one",
  ],
  [
    /token\/roles/,
    "renewable token_explicit_max_ttl token_no_default_policy",
    "token-roles › applies parent, path, uses, times and networks of the role",
  ],
  [
    /token\/roles/,
    "token_period",
    "token-roles › makes periodic tokens without sudo, and a renewal uses the role of that time",
  ],
  [
    /token\/roles/,
    "period explicit_max_ttl bound_cidrs",
    "token-roles › shows older names as they were given, and warns when a request has both",
  ],
  [
    /token\/(roles|create)/,
    "allowed_entity_aliases entity_alias",
    "token-roles › creates the entity of an alias that the role allows",
  ],
  [
    /sys\/wrapping/,
    "token",
    "wrapping › may be named in the body, with the token of another caller, with itself or with none",
  ],
  [/token\/renew/, "increment", "tokens-life › accepts an increment as a number or a text"],
  [/sys\/polic/, "policy", applied("vault_policy")],
  [
    /sys\/capabilities/,
    "path paths token accessor",
    "policies › are returned sorted, in data and at the top level, as `capabilities` for a single path only",
  ],
  [/sys\/mounts/, "type description options local seal_wrap external_entropy_access config", applied("vault_mount")],
  [
    /sys\/mounts/,
    "default_lease_ttl max_lease_ttl force_no_cache",
    "mounts › tunes only the given fields, and shows the effective values",
  ],
  [
    /sys\/mounts/,
    "listing_visibility",
    "mounts › returns only mounts listed for everyone without a token, and no accessors",
  ],
  [
    /sys\/mounts/,
    "passthrough_request_headers allowed_response_headers audit_non_hmac_request_keys audit_non_hmac_response_keys allowed_managed_keys delegated_auth_accessors",
    "terraform › has no difference: vault_mount, after its settings were changed and removed",
  ],
  [
    /sys\/mounts/,
    "identity_token_key plugin_version",
    "terraform › is refused with a setting without an effect: vault_mount with %j › plugin_version",
  ],
  [/sys\/remount/, "from to", "remount › returns the id of the move in data and at the top level, and its status"],
  [
    /renew|revoke|lookup/,
    "lease_id increment",
    "engine-leases › is extended from now by a renewal, up to the maximum TTL",
  ],
  [/revoke/, "sync", "engine-leases › without sync returns 202 and completes after the response"],
  [/sys\/namespaces/, "custom_metadata", applied("vault_namespace")],
  [
    /identity\/oidc\/config/,
    "issuer",
    "identity › is empty by default, and warns about the trust at providers when it is set",
  ],
  [
    /identity\/oidc\/key/,
    "verification_ttl",
    "identity › returns 400 for a verification_ttl of %j, and does not rotate › 11d",
  ],
  [
    /sync\/config/,
    "disabled queue_capacity",
    "sync-config-api › changes the fields of a patch, keeps the rest, and returns the configuration",
  ],
  [/sync\/destinations/, "purge force_delete", "destinations › returns 400 on deletion while it has associations"],
  [
    /sync\/destinations/,
    "dry_run",
    "sync-preview-and-drift › is requested in the query or in the body, of a write and of a set",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "mount path_prefix",
    "sync-rules › sets what matches today and later, and removes what no longer does",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "path_glob exclude_glob metadata_selector metadata_selector.key metadata_selector.operator metadata_selector.values",
    "sync-rules › follows metadata, globs and exclusions",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "priority",
    "sync-rules › and a request, and another rule are one object, which goes with its last origin",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "name_template granularity",
    "sync-rules › names its objects by its own template, and again when that changes",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "key_glob exclude_key_glob",
    "sync-rules › pushes the keys that it names",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "value_template",
    "sync-rules › pushes a text by its value template, and names a key that is missing",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "on_unmatch",
    "sync-rules › with retain leaves the object there",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "paused",
    "sync-rules › that is paused neither adds, removes nor pushes",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "max_secrets",
    "sync-rules › does not happen when more match than the rule may add",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule$/,
    "match_all max_removals",
    "sync-rules › refuses bad rules, and callers who may not read all that can match",
  ],
  [
    /^POST \/sys\/sync\/destinations\/:type\/:name\/rules\/:rule\/confirm$/,
    "plan_id",
    "sync-rules › waits for a confirmation of exactly its plan",
  ],
  [
    /associations\/set/,
    "selector selector.path_prefix selector.path_glob selector.exclude_glob selector.match_all selector.metadata_selector selector.metadata_selector.key selector.metadata_selector.operator selector.metadata_selector.values",
    "sync-selectors › sets what matches now, each as a request does, and nothing that matches later",
  ],
  [
    /associations\/(set|remove)/,
    "mount secret_name",
    "sync-api-associations › accept a mount with or without slashes, and return only the changed associations",
  ],
  [/repo-host-apps/, "app_id private_key", "sync-apps › accepts its key as PKCS#1 and as PKCS#8 with the same result"],
  [/\{cloud-a\}\/config\/lease/, "lease lease_max", "engine-aws › keeps TTLs of users' leases, in the form of Go"],
  [
    /\{cloud-a\}\/config\/root/,
    "region max_retries username_template access_key rotation_period",
    "engine-aws › keeps what a write leaves out, except the username template",
  ],
  [
    /\{cloud-a\}\/config\/root/,
    "secret_key identity_token_audience identity_token_ttl role_arn sts_endpoint",
    "engine-aws › assumes the role, and serves no type that the provider issues to keys only",
  ],
  [
    /\{cloud-a\}\/config\/root/,
    "sts_fallback_endpoints sts_fallback_regions",
    "engine-aws › come from the next endpoint of STS while the first does not answer",
  ],
  [
    /\{cloud-a\}\/config\/root/,
    "iam_endpoint sts_region rotation_schedule rotation_window rotation_policy disable_automated_rotation",
    "engine-aws › answers 404 before its first write, and then everything but the secret key",
  ],
  [
    /\{cloud-a\}\/roles/,
    "credential_type policy_arns policy_document iam_groups iam_tags user_path permissions_boundary_arn",
    "engine-aws › keeps what a write leaves out, clears what it empties, and shows every field",
  ],
  [
    /\{cloud-a\}\/roles/,
    "role_arns max_sts_ttl session_tags",
    "engine-aws › of an assumed role end with the session, and need no call to be revoked",
  ],
  [
    /\{cloud-a\}\/roles/,
    "default_sts_ttl mfa_serial_number",
    "engine-aws › of a federated user need a policy, and those of a plain session none",
  ],
  [
    /\{cloud-a\}\/roles/,
    "external_id",
    "engine-aws › take TTL, role and name from the query or the body, at either path",
  ],
  [
    /\{cloud-a\}\/roles/,
    "share_until",
    "engine-shared-types › has a share that is kept by writes without it, and a bad one is refused",
  ],
  [
    /\{cloud-a\}\/static-roles/,
    "username rotation_period",
    "engine-aws-static › answers the role of a write and of a read, and lists and deletes it with its keys, but not its user",
  ],
  [
    /\{cloud-a\}\/static-roles/,
    "assume_role_arn assume_role_session_name external_id",
    "engine-aws-static › manages a user in another account by the role that it assumes",
  ],
  [
    /\{cloud-a\}\/static-roles/,
    "adopt_oldest_key",
    "engine-aws-static › refuses a user with two keys of others, and deletes the oldest with adopt_oldest_key",
  ],
  [
    /\{cloud-a\}\/(creds|sts)/,
    "ttl role_arn role_session_name",
    "engine-aws › take TTL, role and name from the query or the body, at either path",
  ],
  [
    /\{cloud-a\}\/(creds|sts)/,
    "mfa_code",
    "engine-aws › of a federated user need a policy, and those of a plain session none",
  ],
  [
    /\{cloud-a\}\/(creds|sts)/,
    "verify",
    "engine-aws › are verified until their key works, and answered with a warning when it does not",
  ],
  [
    /\{cloud-c\}\/config/,
    "credentials service_account_email identity_token_audience identity_token_ttl",
    "engine-gcp › refuses bad keys and combinations, and takes identity tokens after the key is cleared",
  ],
  [
    /\{cloud-c\}\/config/,
    "ttl max_ttl",
    "engine-gcp › answers everything but the key, and keeps what a write leaves out",
  ],
  [
    /\{cloud-c\}\/config/,
    "rotation_schedule rotation_window rotation_period rotation_policy disable_automated_rotation",
    "engine-gcp › schedules rotations as every engine does",
  ],
  [
    /\{cloud-c\}\/impersonated-account/,
    "service_account_email token_scopes ttl",
    "engine-gcp › gives access tokens without a lease, for the TTL of the account",
  ],
  [
    /\{cloud-c\}\/(static-account|roleset)/,
    "share_until",
    "engine-shared-types › is one key until its share has passed, of rolesets and static accounts",
  ],
  [/\{https-producer\}\/roles/, "share_until", "engine-shared-types › is one token until its share has passed"],
  [
    /\{cloud-c\}\/static-account/,
    "service_account_email secret_type bindings token_scopes",
    "engine-gcp › adds and removes rights of an account that stays",
  ],
  [
    /\{cloud-c\}\/roleset/,
    "secret_type project bindings token_scopes",
    "engine-gcp › makes an account with rights, gives tokens, changes rights in place, and leaves nothing",
  ],
  [
    /\{cloud-c\}\/.*(token|key)/,
    "ttl key_algorithm key_type verify",
    "engine-gcp › gives keys of the asked kind with a renewable lease, and deletes them on revocation",
  ],
  [
    /\{https-producer\}\/(config|dry-run)/,
    "private_key issuer subject audience",
    "engine-producer › needs a private_key from a secret, and takes issuer, subject and audience",
  ],
  [
    /\{https-producer\}\/(config|dry-run)/,
    "url secrets vars producer orphans lag signing_secret create find revoke verify lease headers",
    "engine-producer › is taken as text, as command lines send it, and answered without secrets",
  ],
  [
    /\{https-producer\}\/(config|dry-run)/,
    "path query json form expect conflict capture gone items match pages first most data method type client_id client_secret scope length charset auth generate renew",
    "engine-producer › sends the calls that it describes, and reads their answers by its pointers",
  ],
  [
    /\{https-producer\}\/(config|dry-run)/,
    "rotation_schedule rotation_window rotation_period rotation_policy disable_automated_rotation",
    "engine-producer-root › is rotated on time, by a period or a schedule",
  ],
  [
    /\{https-producer\}\/(config|dry-run)/,
    "root self secrets ttl",
    "engine-producer-root › is replaced by one that works, and the one before is removed",
  ],
  [
    /\{https-producer\}\/dry-run/,
    "url vars producer role answers",
    "engine-producer-root › names what has no value, and pointers that an answer does not have",
  ],
  [
    /\{https-producer\}\/roles/,
    "vars ttl max_ttl",
    "engine-producer › has its own variables, before those of the engine",
  ],
  [
    /\{cloud-b\}\/config/,
    "subscription_id tenant_id environment client_id client_secret root_password_ttl",
    "terraform › has no difference: vault_azure_secret_backend",
  ],
  [
    /\{cloud-b\}\/config/,
    "seamless_rotation",
    "engine-azure-static › has the seamless_rotation of the configuration unless its write says another",
  ],
  [
    /\{cloud-b\}\/config/,
    "identity_token_audience identity_token_ttl rotation_policy disable_automated_rotation",
    CONFIG,
  ],
  [
    /\{cloud-b\}\/config/,
    "rotation_schedule rotation_window rotation_period",
    "engine-config › replaces the schedule by a period in one write",
  ],
  [
    /\{cloud-b\}\/roles/,
    "cloud_roles role_name role_id scope cloud_groups group_name object_id permanently_delete",
    ROLES,
  ],
  [
    /\{cloud-b\}\/roles/,
    "share_until",
    "engine-shared-leases › is the same for a caller until the share of its TTL has passed",
  ],
  [/\{cloud-b\}\/roles/, "pool_size", "engine-pool › answers without a call of the provider, and fills its pool again"],
  [/\{cloud-b\}\/roles/, "pool_ttl", "engine-pool › replaces principals that are older than pool_ttl"],
  [
    /\{cloud-b\}\/static-roles/,
    "application_object_id rotation_period ttl rotation_grace_period seamless_rotation metadata",
    "engine-azure-static › keeps its password when its fields change, and its application for itself",
  ],
  [
    /\{cloud-b\}\/static-creds\/:name\/token/,
    "scope",
    "engine-azure-static › answers a token of the application for the scope, without a lease, and stores it nowhere",
  ],
  [
    /\{cloud-b\}\/static-roles/,
    "defer_initial_creds",
    "engine-azure-static › has no credentials before the first rotation when they are deferred",
  ],
  [
    /\{cloud-b\}\/static-roles/,
    "secret_id client_secret",
    "engine-azure-static › takes over a password with its text, which a deleted role leaves, and a rotation replaces",
  ],
  [
    /\{cloud-b\}\/static-roles/,
    "skip_import_rotation",
    "engine-azure-static › replaces a password without its text at once, or with skip_import_rotation by the first rotation",
  ],
  [/\{cloud-b\}\/roles/, "ttl max_ttl explicit_max_ttl sign_in_audience tags", ROLE],
  [
    /\{cloud-b\}\/roles/,
    "metadata",
    "engine-creds › is that of the role, before that of the request, and absent without any",
  ],
  [
    /\{cloud-b\}\/roles/,
    "application_object_id",
    "engine-roles › returns 400 for permanent deletion or the engine's own application",
  ],
  [
    /\{cloud-b\}\/roles/,
    "persist_app",
    "engine-roles › creates its application once, shows its id, and adds a password per lease",
  ],
  [/sys\/auth\/:path\+$/, "type", "auth-userpass › refuses to enable %s with %j › ldap"],
  [
    /sys\/(mounts\/)?auth/,
    "default_lease_ttl max_lease_ttl description listing_visibility",
    "auth-userpass › tunes a method",
  ],
  [/sys\/(mounts\/)?auth/, "user_lockout_config lockout_threshold lockout_disable", LOCKOUT],
  [
    /sys\/(mounts\/)?auth/,
    "config options local seal_wrap force_no_cache token_type passthrough_request_headers allowed_response_headers audit_non_hmac_request_keys audit_non_hmac_response_keys lockout_duration lockout_counter_reset_duration",
    "auth-userpass › keeps the settings of a method and returns them",
  ],
  [
    /sys\/(mounts\/)?auth/,
    "external_entropy_access plugin_version",
    "auth-userpass › refuses settings without an effect",
  ],
  [/\{auth\/userpass\}\/users/, "password", "auth-userpass › can get a new password and new policies"],
  [/\{auth\/userpass\}\/users/, "password_hash", "auth-userpass › keeps its password when a bcrypt hash is refused"],
  [
    /\{auth\/userpass\}\/login/,
    "password",
    "auth-userpass › returns a token with the user's policies and TTL, and an entity",
  ],
  [
    /\{auth\/userpass\}\/users/,
    "token_policies token_ttl token_max_ttl token_explicit_max_ttl token_period token_bound_cidrs token_no_default_policy token_num_uses token_type alias_metadata ttl max_ttl period policies bound_cidrs",
    "auth-userpass › stores every token field, and accepts older names of some",
  ],
  [
    /\{auth\/(jwt|oidc)\}\/config/,
    "oidc_client_id oidc_client_secret oidc_response_mode oidc_response_types provider_config",
    "auth-oidc › is read back without the client's secret",
  ],
  [
    /\{auth\/(jwt|oidc)\}\/config/,
    "oidc_discovery_url oidc_discovery_ca_pem jwks_url jwks_ca_pem jwks_pairs jwt_validation_pubkeys bound_issuer jwt_supported_algs default_role namespace_in_state",
    "auth-jwt › is stored and returned, and fields without an effect are refused",
  ],
  [
    /\{auth\/(jwt|oidc)\}\/role/,
    "role_type bound_audiences bound_subject bound_claims bound_claims_type user_claim user_claim_json_pointer claim_mappings groups_claim expiration_leeway not_before_leeway clock_skew_leeway max_age verbose_oidc_logging callback_mode allowed_redirect_uris oidc_scopes token_policies token_ttl token_max_ttl token_explicit_max_ttl token_period token_bound_cidrs token_no_default_policy token_num_uses token_type alias_metadata ttl max_ttl period policies bound_cidrs num_uses",
    "auth-jwt › stores every field, and keeps those that an update does not name",
  ],
  [
    /\{auth\/(jwt|oidc)\}\/login/,
    "role jwt",
    "auth-jwt › returns a token with the role's policies, metadata and groups",
  ],
  [
    /\{auth\/kubernetes\}\/config/,
    "kubernetes_host kubernetes_ca_cert token_reviewer_jwt pem_keys issuer disable_iss_validation disable_local_ca_jwt use_annotations_as_alias_metadata",
    "auth-kubernetes › is read back without the reviewer's token",
  ],
  [
    /\{auth\/kubernetes\}\/role/,
    "bound_service_account_names bound_service_account_namespaces bound_service_account_namespace_selector audience alias_name_source token_policies token_ttl token_max_ttl token_explicit_max_ttl token_period token_bound_cidrs token_no_default_policy token_num_uses token_type alias_metadata ttl max_ttl period policies bound_cidrs num_uses",
    "auth-kubernetes › stores every field, and keeps those that an update does not name",
  ],
  [
    /\{auth\/kubernetes\}\/login/,
    "role jwt",
    "auth-kubernetes › returns a token with the role's policies, metadata and an entity",
  ],
  [
    /oidc\/callback/,
    "state code error",
    "auth-oidc › is refused with a foreign state, and without configuration; the page escapes its content",
  ],
  [/oidc\/callback/, "iss", "auth-oidc › is completed by a browser, or by the command line client with its nonce"],
  [/oidc\/auth_url/, "role redirect_uri", "auth-oidc › sends what OpenID Connect and PKCE require"],
  [/oidc\/auth_url/, "client_nonce", "auth-oidc › is refused without the client's nonce, which prevents login CSRF"],
  [
    /\{auth\/approle\}\/role\/:name$/,
    "local_secret_ids bind_secret_id secret_id_bound_cidrs bound_cidr_list secret_id_num_uses secret_id_ttl token_policies token_ttl token_max_ttl token_explicit_max_ttl token_period token_bound_cidrs token_no_default_policy token_num_uses token_type alias_metadata policies period",
    "auth-approle › stores every field, and accepts older names of some",
  ],
  [
    /\{auth\/approle\}\/role\/:name\/(?!(custom-)?secret-id$)/,
    "token_policies bind_secret_id secret_id_bound_cidrs bound_cidr_list secret_id_num_uses secret_id_ttl token_period token_ttl token_max_ttl token_num_uses token_bound_cidrs policies period",
    "auth-approle › has a path for its field %s, set to %j, then %j › token_num_uses",
  ],
  [/\{auth\/approle\}\/role/, "role_id", "auth-approle › has a role id that can be set, and is unique in its mount"],
  [
    /\{auth\/approle\}\/role\/:name\/(custom-)?secret-id$/,
    "metadata cidr_list token_bound_cidrs num_uses ttl",
    "auth-approle › does not exceed the limits of its role",
  ],
  [/\{auth\/approle\}\/role\/:name\/custom-secret-id/, "secret_id", "auth-approle › can be chosen by the caller, once"],
  [
    /\{auth\/approle\}\/role\/:name\/secret-id/,
    "secret_id secret_id_accessor",
    "auth-approle › is shown once, and looked up and destroyed by itself and by its accessor",
  ],
  [
    /\{auth\/approle\}\/login/,
    "role_id secret_id",
    "auth-approle › returns a token with the role's policies, and metadata of role and secret id",
  ],
  [/\/search/, "Prefix Text Context", "search › finds %s by %s › two nodes"],
  [/identity\/entity/, "id name policies metadata disabled", "identity-entities › has the fields that a request sets"],
  [/identity\/entity-alias/, "mount_accessor canonical_id custom_metadata", ALIASED],
  [
    /identity\/(entity|group)-alias/,
    "id name mount_accessor canonical_id custom_metadata external_id issuer",
    "identity-lookups › changes the fields that a request names, by id",
  ],
  [
    /identity\/lookup/,
    "id name alias_id alias_name alias_mount_accessor",
    "identity-lookups › finds an entity and a group by %s › alias_name",
  ],
  [
    /entity\/merge/,
    "to_entity_id from_entity_ids",
    "identity-lookups › moves aliases, groups and tokens to the remaining entity",
  ],
  [
    /entity\/merge/,
    "conflicting_alias_ids_to_keep force",
    "identity-lookups › keeps the named one of two aliases at the same auth method",
  ],
  [/entity\/batch-delete/, "entity_ids", "identity-lookups › deletes several entities, and ignores unknown ids"],
  [
    /identity\/group$|identity\/group\/(id|name)\/:/,
    "id name type policies metadata member_entity_ids member_group_ids",
    "identity-entities › adds its policies to members, also of nested groups",
  ],
  [/identity\/group-alias/, "name mount_accessor canonical_id", "identity-entities › has an alias when it is external"],
  [/acl\/bootstrap/, "BootstrapSecret", "bootstrap › is created for a caller with the secret, and works in both APIs"],
  [/acl\/policy/, "Name Description Rules JobACL Namespace JobID Group Task", applied("nomad_acl_policy")],
  [/acl\/token/, "AccessorID Name Type Policies Roles Global", ACL],
  [/acl\/role/, "ID Name Description Policies", "acl-roles › return every field, by id and by name, and send events"],
  [
    /acl\/auth-method/,
    "Name Type TokenLocality TokenNameFormat MaxTokenTTL Default Config JWTValidationPubKeys JWKSURL JWKSCACert OIDCDiscoveryURL OIDCClientID OIDCClientSecret OIDCClientAssertion OIDCEnablePKCE OIDCDisableUserInfo OIDCScopes BoundAudiences BoundIssuer AllowedRedirectURIs DiscoveryCaPem SigningAlgs ExpirationLeeway NotBeforeLeeway ClockSkewLeeway ClaimMappings ListClaimMappings VerboseLogging",
    "acl-logins › return every field, lists of them without a token, and send events",
  ],
  [
    /acl\/binding-rule/,
    "ID Description AuthMethod Selector BindType BindName",
    "acl-logins › return every field, lists of them without selectors, and send events",
  ],
  [
    /acl\/login/,
    "AuthMethodName LoginToken",
    "acl-logins › returns a token with the roles and policies of the rules that select the caller",
  ],
  [
    /acl\/oidc/,
    "AuthMethodName RedirectURI ClientNonce State Code Iss",
    "acl-oidc › redirects to the issuer with PKCE, and returns a token for the code",
  ],
  [/acl\/token\/onetime/, "OneTimeSecretID", "acl-onetime › is exchanged for the token that created it"],
  [
    /acl\/token/,
    "SecretID",
    "acl-secrets › tokens are uploaded by both ids, as upstream, and changed by the accessor alone",
  ],
  [/acl\/token/, "Roles ID", "acl-roles › names them by id or by name, and returns both"],
  [/acl\/token/, "ExpirationTTL ExpirationTime", "acl › accept an expiry in nanoseconds, as a duration or as a time"],
  [
    /^POST \/namespace/,
    "Name Description Meta Quota Capabilities EnabledTaskDrivers DisabledTaskDrivers EnabledNetworkModes DisabledNetworkModes NodePoolConfiguration VaultConfiguration ConsulConfiguration RequiredExtraClaims OptionalExtraClaims Default Allowed Denied",
    applied("nomad_namespace"),
  ],
  [
    /event\/subscription\/:name$/,
    "Topics Namespace",
    "event-subscriptions › delivers only events of its topics, keys and namespace",
  ],
  [
    /event\/subscription\/:name$/,
    "Target Type URL Secret",
    "event-subscriptions › delivers lines in order, signed, and reports its position",
  ],
  [
    /event\/subscription\/:name$/,
    "SecretOverlapSeconds",
    "event-subscriptions › signs with the previous secret, too, for the overlap of a change, so that receivers of either accept",
  ],
  [
    /event\/subscription\/:name$/,
    "StartIndex",
    "event-subscriptions › begins at StartIndex, and moves there when it is given again",
  ],
  [
    /event\/subscription\/:name$/,
    "MaxAttempts",
    "event-subscriptions › becomes a dead letter after MaxAttempts, and later lines are delivered",
  ],
  [
    /event\/subscription\/:name\/replay/,
    "Index",
    "event-subscriptions › replay deliver again from an index on, under new ids",
  ],
  [
    /node\/pools?(?:\/:name)?$/,
    "Name Description Meta NodeIdentityTTL SchedulerConfiguration SchedulerAlgorithm MemoryOversubscriptionEnabled",
    "node-pool-writes › creates it, changes it whole, and publishes both",
  ],
  [/node\/:id\/drain/, "NodeID DrainSpec Deadline IgnoreSystemJobs Meta", DRAIN],
  [
    /node\/:id\/drain/,
    "MarkEligible",
    "nodes-drain › that is absent can be cleared, without an effect except MarkEligible",
  ],
  [
    /node\/:id\/eligibility/,
    "NodeID Eligibility",
    "nodes-api › changes with one event line, and its index is returned",
  ],
  [/agent\/tokens/, "NodePool Name TTL", "agents › defaults to the default pool, any node name and one hour"],
  [/agent\/join/, "Token PublicKey Name", "agents › requires the node name that the token specifies"],
];

/**
 * Bodies that a route judges itself: by the type of a destination, or by volume schemas that refuse what they do not know;
 * and secrets of version 1 and cubbyholes, and wrapped bodies, where every field is stored.
 */
const JUDGED =
  /sync\/destinations\/:type\/:name$|agent\/join|^(POST) \/volumes?(\/|$)|^POST \/(\{kv-v1\}|cubbyhole|sys\/wrapping\/wrap)(\/|$)/;

const routes = [
  ...secretsRoutes.routes,
  ...clusterRoutes.routes,
  ...Object.entries(mountedRoutes).flatMap(([type, table]) =>
    table.routes.map((route) => ({ ...route, path: `/{${type}}${route.path}` })),
  ),
];

/** The source without whole-line comments. */
const codeOf = (source: string): string => source.replace(/^\s*(?:\/\/|\/?\*).*$/gm, "");

/** The titles of the tests that run: the first argument of `it(`, or of the function that `it.each(` returns. */
const titlesOf = (code: string): string[] =>
  [...code.matchAll(/(?:\bit|\))\(\s*("(?:\\.|[^"\\])*")\s*,\s*(?:\{[^}]*\}\s*,\s*)?(?:async\b\s*)?\(/g)].map(
    ([, text]) => JSON.parse(text ?? ""),
  );

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The rows that the examples of routes state. */
const OF_EXAMPLES = Object.entries(examples).flatMap(([name, { effects = {} }]) => {
  const route = escaped(name.replace("/v1", "").replace(/ \/(kv(?:-v1)?|cloud-[a-z]|auth\/(?!token)\w+)\//, " /{$1}/"));
  return Object.entries(effects).map(([fields, proof]) => [new RegExp(`^${route}$`), fields, proof] as const);
});
const ROWS = [...EFFECTS, ...OF_EXAMPLES];

const last = (field: string): string => field.split(".").at(-1) ?? "";
const proofOf = (route: string, field: string): string | null =>
  ROWS.find(
    ([at, fields]) => at.test(route) && fields.split(" ").some((one) => one === field || one === last(field)),
  )?.[2] ?? null;

describe("every field of a body", () => {
  it("has an effect, or is stored and returned, in a test named here", () => {
    const unproven = routes.flatMap(({ verb, path, body }) => {
      if (body === undefined || JUDGED.test(`${verb} ${path}`)) return [];
      const fields = schemaFields(body).filter(({ schema }) => !isEchoed(schema) && !isInternal(schema));
      return fields.flatMap(({ name }) =>
        proofOf(`${verb} ${path}`, name) === null ? [`${verb} ${path} ${name}`] : [],
      );
    });
    expect(unproven).toEqual([]);
  });

  itRows(ROWS)("has an existing test that runs and uses it: %s %s", (_routes, fields, proof) => {
    const [file, title = "", row] = proof.split(" › ");
    const source = codeOf(sources[`./${file}.test.ts`] ?? sources[`./${file}.quick.test.ts`] ?? "");
    expect(source, "every test of the file runs").not.toMatch(/\b(?:it|describe)\.(?:skip|todo|only|runIf)\b/);
    expect(titlesOf(source).filter((other) => other === title)).toEqual([title]);
    expect(row !== undefined, "a title with a placeholder has a row").toBe(/%[sj]/.test(title));
    const names = [...fields.split(" ").map(last), ...(row === undefined ? [] : [row])];
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(source))).toEqual([]);
  });

  itRows(ROWS)("is a field of a matching route: %s %s", (at, fields) => {
    const taken = routes.flatMap(({ verb, path, body }) =>
      body !== undefined && at.test(`${verb} ${path}`) ? schemaFields(body).map(({ name }) => name) : [],
    );
    expect(fields.split(" ").filter((field) => !taken.some((name) => field === name || field === last(name)))).toEqual(
      [],
    );
  });

  itRows([
    ['it("a test", () => {', ["a test"]],
    ['it.each(rows)("of %s", () => {', ["of %s"]],
    ['  ])(\n    "of many \\"lines\\"",\n    async () => {', ['of many "lines"']],
    ['it("slow", { timeout: 60_000 }, async () => {', ["slow"]],
    ['it.skip("not run", () => {', []],
    ['// it("in a comment", () => {', []],
    ['expect("a text").toBe("a text", "why");', []],
  ])("is not covered by a comment, a skipped test or another call: %j", (source, titles) => {
    expect(titlesOf(codeOf(source))).toEqual(titles);
  });

  it("is defined in a schema, so that unknown fields are reported, except on routes that check fields themselves", () => {
    const any = routes.filter(({ body }) => body !== undefined && knownFields(body) === null);
    expect(any.map(({ verb, path }) => `${verb} ${path}`).filter((name) => !JUDGED.test(name))).toEqual([]);
  });
});

describe("an unknown field", () => {
  it.each([
    ["POST", "/v1/auth/token/create", { tll: 1 }],
    ["POST", "/v1/auth/token/lookup-self", { tll: 1 }],
    ["POST", "/v1/sys/mounts/unknown-fields", { type: "cloud-b", tll: 1 }],
    ["POST", "/v1/sys/policies/acl/unknown-fields", { policy: 'path "a" {}', tll: 1 }],
    ["DELETE", "/v1/sys/policies/acl/unknown-fields", { tll: 1 }],
    ["POST", "/v1/sys/namespaces/unknown-fields", { tll: 1 }],
    ["PATCH", "/v1/sys/sync/config", { tll: 1 }],
    ["POST", "/v1/sys/sync/destinations/in-mem/unknown-fields", { tll: 1 }],
  ])("is reported in the warnings of a response: %s %s", async (method, path, body) => {
    const answer = await send(method, path, body);
    expect([answer.status, answer.body?.warnings]).toEqual([
      200,
      expect.arrayContaining(["Endpoint ignored these unrecognized parameters: [tll]"]),
    ]);
    const { tll: _, ...known } = body as Record<string, unknown>;
    const silent = await send(method, path, Object.keys(known).length > 0 ? known : undefined);
    expect(silent.text).not.toContain("unrecognized");
  });

  itRows([
    ["/v1/acl/token", { Type: "management", Expires: "1h" }, 'unknown field "Expires"'],
    ["/v1/acl/policy/p", { Rules: 'node { policy = "read" }', Descripton: "x" }, "did you mean Description?"],
    ["/v1/acl/policy/p", { Rules: 'node { policy = "read" }', JobACL: { Jobs: "x" } }, "JobACL.Jobs"],
    ["/v1/namespace/n", { Capabilities: { TaskDrivers: ["x"] } }, "Capabilities.TaskDrivers"],
    ["/v1/acl/token", { Type: "management", SecretID: "mine" }, "SecretID: must not be set"],
  ])("is refused by the Nomad API: %s %j", async (path, body, text) => {
    const answer = await put(path, body);
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining(text)]);
  });

  it("excludes path parameters and fields of returned objects", async () => {
    const named = await put("/v1/sys/policies/acl/repeated", { policy: 'path "a" {}', name: "repeated" });
    expect(named.status, named.text).toBe(204);
    const other = await put("/v1/sys/policies/acl/repeated", { policy: 'path "a" {}', name: "other" });
    expect(other.body.warnings[0]).toContain("[name]");
    await put("/v1/acl/policy/echo", { Rules: 'node { policy = "read" }' });
    const shown = (await get("/v1/acl/policy/echo")).body;
    expect((await put("/v1/acl/policy/echo", shown)).status).toBe(200);
    const namespace = (await get("/v1/namespace/default")).body;
    expect((await put("/v1/namespace/default", { ...namespace, Region: "global", AuthToken: "" })).status).toBe(200);
    const { body: token } = await put("/v1/acl/token", { Type: "management", Name: "t" });
    expect((await put(`/v1/acl/token/${token.AccessorID}`, token)).status).toBe(200);
  });
});
