import * as z from "zod";
import { description } from "../../credentials/engines/aws/description.ts";
import { CREDENTIAL_TYPES } from "../../credentials/engines/aws/role.ts";
import { seconds, time } from "../../wire/shapes.ts";
import { data, group, noContent, warned } from "../operation.ts";
import {
  askedMetadata,
  helpOf,
  idempotencyKey,
  issuing,
  metadata,
  next_rotation_date,
  rotationSettings,
  UPSTREAM_FAILS,
} from "./credential-parts.ts";

const texts = z.array(z.string()).nullable();
const map = z.record(z.string(), z.string()).nullable();

const Config = z
  .object({
    access_key: z.string(),
    region: z.string(),
    iam_endpoint: z.string(),
    sts_endpoint: z.string(),
    sts_region: z.string(),
    sts_fallback_endpoints: texts,
    sts_fallback_regions: texts,
    max_retries: z.int(),
    username_template: z.string(),
    role_arn: z.string(),
    identity_token_audience: z.string(),
    identity_token_ttl: seconds,
    ...rotationSettings,
    next_rotation_date,
  })
  .meta({ id: "AwsEngineConfig", description: "The stored configuration, never with `secret_key`." });

const Role = z
  .object({
    credential_type: z.enum(CREDENTIAL_TYPES),
    role_arns: texts,
    policy_arns: texts,
    policy_document: z.string(),
    iam_groups: texts,
    iam_tags: map,
    default_sts_ttl: seconds,
    max_sts_ttl: seconds,
    user_path: z.string(),
    permissions_boundary_arn: z.string(),
    session_tags: map,
    external_id: z.string(),
    mfa_serial_number: z.string(),
    share_until: z.int().optional().describe("Absent when it is 0."),
  })
  .meta({ id: "AwsEngineRole" });

const Credentials = z
  .object({
    access_key: z.string(),
    secret_key: z.string(),
    security_token: z.string().optional().describe("As `session_token`, for older clients."),
    session_token: z.string().nullable().describe("Null for a user."),
    arn: z.string().optional().describe("Of an assumed role."),
    ttl: seconds.optional().describe("Of a session."),
    metadata,
  })
  .meta({ id: "AwsCredentials" });

const [staticRoles] = description.kinds;

const StaticRole = z
  .object({
    name: z.string(),
    id: z.string().describe("The provider's id of the user."),
    username: z.string(),
    rotation_period: seconds,
    assume_role_arn: z.string(),
    assume_role_session_name: z.string(),
    external_id: z.string(),
    adopt_oldest_key: z.boolean(),
  })
  .meta({ id: "AwsStaticRole" });

const StaticCredentials = z
  .object({
    access_key: z.string(),
    secret_key: z.string(),
    expiration: time.describe("Time of the next rotation."),
    ttl: seconds.describe("Until then."),
    last_vault_rotation: time,
    rotation_period: seconds,
    metadata,
  })
  .meta({ id: "AwsStaticCredentials" });

const lease = z.string().describe('A duration such as `"30m0s"`.');

const parameters = {
  ttl: "Life of a session; at most that of role or mount.",
  role_arn: "The role to assume, if the engine's role has several.",
  role_session_name: "Name of the session; other characters than the provider's become `_`.",
  mfa_code: "Code of the device of `mfa_serial_number`.",
  verify: "Responds when the new key works, or with a warning after 25 s.",
};
const issued = {
  headers: idempotencyKey,
  answers: data("The credentials, with their lease. The lease of a session ends with it.", Credentials),
};
const GENERATE = "Generate credentials for a role";

export const awsCredentials = group(
  "Credentials",
  { name: "The role's name: word characters, `-`, `.` and `@`; the case is kept." },
  {
    "GET /cloud-a/config/root": {
      id: "readAwsConfig",
      summary: "Read the engine's configuration",
      answers: data("The configuration.", Config),
    },
    "POST /cloud-a/config/root": {
      id: "writeAwsConfig",
      summary: "Configure the engine",
      description: "Omitted fields keep their values, except `username_template`, which gets its default.",
      body: { fields: helpOf(description.config) },
    },
    "GET /cloud-a/config/lease": {
      id: "readAwsLeaseConfig",
      summary: "Read the TTLs of leases of users",
      answers: data("The TTLs.", z.object({ lease, lease_max: lease })),
    },
    "POST /cloud-a/config/lease": {
      id: "writeAwsLeaseConfig",
      summary: "Set the TTLs of leases of users",
      body: {
        fields: {
          lease: { type: "string", description: "TTL." },
          lease_max: { type: "string", description: "Maximum." },
        },
        required: ["lease", "lease_max"],
      },
    },
    "POST /cloud-a/config/rotate-root": {
      id: "rotateAwsRoot",
      summary: "Rotate the engine's access key",
      answers: data("The id of the new key.", z.object({ access_key: z.string() })),
      errors: UPSTREAM_FAILS,
    },
    "LIST /cloud-a/roles": { id: "listAwsRoles", summary: "List the roles" },
    "GET /cloud-a/roles/:name": { id: "readAwsRole", summary: "Read a role", answers: data("The role.", Role) },
    "POST /cloud-a/roles/:name": {
      id: "writeAwsRole",
      summary: "Create or update a role",
      description: "Fields that are left out stay. The provider judges policies and roles when credentials are issued.",
      body: {
        fields: { ...helpOf(description.roles), credential_type: { type: "string", enum: [...CREDENTIAL_TYPES] } },
      },
    },
    "DELETE /cloud-a/roles/:name": {
      id: "deleteAwsRole",
      summary: "Delete a role",
      answers: { ...noContent, ...warned("Deleted.") },
    },
    "LIST /cloud-a/static-roles": { id: "listAwsStaticRoles", summary: "List the static roles" },
    "GET /cloud-a/static-roles/:name": {
      id: "readAwsStaticRole",
      summary: "Read a static role",
      answers: data("The role.", StaticRole),
    },
    "POST /cloud-a/static-roles/:name": {
      id: "writeAwsStaticRole",
      summary: "Create or update a static role",
      description:
        "A new role gets a key of its user. The oldest of two keys is deleted before, because the provider allows two.",
      body: { fields: helpOf(staticRoles.fields) },
      answers: data("The role.", StaticRole),
      errors: [409, ...UPSTREAM_FAILS],
    },
    "DELETE /cloud-a/static-roles/:name": {
      id: "deleteAwsStaticRole",
      summary: "Delete a static role and its keys; the user stays",
      answers: { ...noContent, ...warned("Deleted; the removal of a key is repeated.") },
    },
    "GET /cloud-a/static-creds/:name": {
      id: "readAwsStaticCredentials",
      summary: "Read the key of a static role",
      query: { metadata: askedMetadata },
      answers: data("The key; no lease.", StaticCredentials),
    },
    ...issuing("/cloud-a/creds/:name", "AwsCredentials", GENERATE, parameters, issued),
    ...issuing("/cloud-a/sts/:name", "AwsSession", GENERATE, parameters, issued),
  },
);
