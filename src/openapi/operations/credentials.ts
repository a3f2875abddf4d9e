import * as z from "zod";
import { description } from "../../credentials/engines/azure/description.ts";
import { AUDIENCES } from "../../credentials/engines/azure/names.ts";
import { seconds, time } from "../../wire/shapes.ts";
import { data, group, noContent, text, warned } from "../operation.ts";
import {
  askedMetadata,
  helpOf,
  idempotencyKey,
  metadata,
  next_rotation_date,
  rotationSettings,
  UPSTREAM_FAILS,
} from "./credential-parts.ts";

const Config = z
  .object({
    subscription_id: z.string(),
    tenant_id: z.string(),
    environment: z.string(),
    client_id: z.string(),
    root_password_ttl: seconds,
    identity_token_audience: z.string(),
    identity_token_ttl: seconds,
    ...rotationSettings,
    seamless_rotation: z.boolean().optional().describe("Absent before it is written: true."),
    root_password_expiration_date: time.optional().describe("When the secret that a rotation made ends."),
    next_rotation_date,
  })
  .meta({ id: "EngineConfig", description: "The stored configuration, never with `client_secret`." });

const Role = z
  .object({
    cloud_roles: z.array(z.object({ role_name: z.string(), role_id: z.string(), scope: z.string() })).nullable(),
    cloud_groups: z.array(z.object({ group_name: z.string(), object_id: z.string() })).nullable(),
    application_object_id: z.string(),
    persist_app: z.boolean(),
    ttl: seconds,
    max_ttl: seconds,
    explicit_max_ttl: seconds,
    permanently_delete: z.boolean(),
    sign_in_audience: z.enum(["", ...AUDIENCES]),
    tags: z.array(z.string()).nullable(),
    metadata,
    share_until: z.int().optional().describe("Absent when it is 0."),
    pool_size: z.int().optional().describe("Absent when it is 0."),
    pool_ttl: z.int().optional().describe("Seconds. Absent when it is 0, which is a day."),
    pool_ready: z.int().optional().describe("Principals that are ready. Absent without a pool."),
  })
  .meta({ id: "EngineRole" });

const list = (of: string, items: Record<string, string>, ...required: string[]) => ({
  description: `${of}; or the same as JSON text.`,
  type: ["array", "string"],
  items: {
    type: "object",
    properties: Object.fromEntries(
      Object.entries(items).map(([name, description]) => [name, { type: "string", description }]),
    ),
    ...(required.length > 0 && { required }),
  },
});

const { roles } = description;

const [staticRoles] = description.kinds;
const { defer_initial_creds: _, ...imported } = staticRoles.fields;

const StaticRole = z
  .object({
    application_object_id: z.string(),
    client_id: z.string(),
    rotation_period: seconds,
    ttl: seconds.describe("As `rotation_period`."),
    rotation_grace_period: z.int().describe("Seconds; -1 is none."),
    seamless_rotation: z.boolean(),
    metadata,
    secret_id: z.string().optional().describe("Id of the password. Absent before the first one."),
    expiration: time.optional().describe("Its end."),
    last_vault_rotation: time.optional(),
  })
  .meta({ id: "EngineStaticRole" });

const StaticCredentials = z
  .object({
    client_id: z.string(),
    client_secret: z.string(),
    secret_id: z.string(),
    expiration: time.describe("End of the password; the next rotation is a grace period before."),
    ttl: seconds.describe("Until the next rotation."),
    last_vault_rotation: time,
    rotation_period: seconds,
    metadata,
  })
  .meta({ id: "StaticCredentials" });

const AccessToken = z
  .object({
    token_type: z.literal("Bearer"),
    expires_in: seconds,
    ext_expires_in: seconds.describe("Its life while the provider fails."),
    access_token: z.string(),
  })
  .meta({ id: "StaticAccessToken" });

export const credentials = group(
  "Credentials",
  { name: "The role's name: letters, digits, `_`, `.` and `-`; stored in lower case." },
  {
    "GET /cloud-b/config": {
      id: "readEngineConfig",
      summary: "Read the engine's configuration",
      answers: data("The configuration; zeros and empty texts when unset.", Config),
    },
    "POST /cloud-b/config": {
      id: "writeEngineConfig",
      summary: "Configure the engine",
      description: "Omitted fields keep their values. Settings of the deployment (`CLOUD_B_…`) override stored values.",
      body: {
        fields: helpOf(description.config),
      },
      errors: UPSTREAM_FAILS,
    },
    "DELETE /cloud-b/config": {
      id: "deleteEngineConfig",
      summary: "Delete the engine's configuration and credentials",
    },
    "POST /cloud-b/rotate-root": {
      id: "rotateRootCredential",
      summary: "Rotate the engine's client secret",
      answers: { ...noContent, ...warned("Created; used once it works everywhere.") },
      errors: UPSTREAM_FAILS,
    },
    "LIST /cloud-b/roles": { id: "listRoles", summary: "List the roles" },
    "GET /cloud-b/roles/:name": { id: "readRole", summary: "Read a role", answers: data("The role.", Role) },
    "POST /cloud-b/roles/:name": {
      id: "writeRole",
      summary: "Create or update a role",
      description:
        "Needs `application_object_id` or `cloud_roles`, and what they name must exist. Fields that are left out stay.",
      body: {
        fields: {
          ...helpOf(roles),
          cloud_roles: list(
            roles.cloud_roles.help,
            { role_name: "Or `role_id`.", role_id: "Or `role_name`.", scope: "The resource that it is for." },
            "scope",
          ),
          cloud_groups: list(roles.cloud_groups.help, {
            group_name: "Or `object_id`.",
            object_id: "Or `group_name`.",
          }),
          sign_in_audience: { type: "string", enum: ["", ...AUDIENCES] },
        },
      },
      errors: UPSTREAM_FAILS,
    },
    "DELETE /cloud-b/roles/:name": {
      id: "deleteRole",
      summary: "Delete a role",
      answers: { ...noContent, ...warned("Deleted; removal of its application is retried until it succeeds.") },
    },
    "LIST /cloud-b/static-roles": { id: "listStaticRoles", summary: "List the static roles" },
    "GET /cloud-b/static-roles/:name": {
      id: "readStaticRole",
      summary: "Read a static role",
      answers: data("The role.", StaticRole),
    },
    "POST /cloud-b/static-roles/:name": {
      id: "writeStaticRole",
      summary: "Create or update a static role",
      description: "A new role gets a password of its application, which is answered once logins with it succeed.",
      body: { fields: helpOf(staticRoles.fields) },
      errors: [409, ...UPSTREAM_FAILS],
    },
    "POST /cloud-b/static-roles/:name/import": {
      id: "importStaticRole",
      summary: "Take over a password of an application",
      body: { fields: helpOf(imported), required: ["secret_id"] },
      errors: [409, ...UPSTREAM_FAILS],
    },
    "DELETE /cloud-b/static-roles/:name": {
      id: "deleteStaticRole",
      summary: "Delete a static role and its password; the application, and an imported password, stay",
      answers: { ...noContent, ...warned("Deleted; the removal of a password is repeated.") },
    },
    "POST /cloud-b/rotate-role/:name": {
      id: "rotateStaticRole",
      summary: "Replace the password of a static role",
      description: "The password before works for the role's grace period, unless it is replaced again.",
      errors: [409, ...UPSTREAM_FAILS],
    },
    "GET /cloud-b/static-creds/:name": {
      id: "readStaticCredentials",
      summary: "Read the password of a static role",
      query: { metadata: askedMetadata },
      answers: data("The password; no lease.", StaticCredentials),
    },
    "POST /cloud-b/static-creds/:name/token": {
      id: "obtainStaticToken",
      summary: "Log in with the password of a static role",
      description: "The token is stored nowhere: it has no lease, and is not revoked.",
      body: { fields: { scope: "Such as `https://management.azure.com/.default`." }, required: ["scope"] },
      answers: data("An access token.", AccessToken),
      errors: UPSTREAM_FAILS,
    },
    "GET /cloud-b/creds/:name": {
      id: "generateCredentials",
      summary: "Generate credentials for a role",
      query: {
        metadata: text("`key=value`, repeatedly: answered with the credentials, unless the role has the key."),
        verify: "Responds when a login with the credentials succeeds, or with a warning after a time-out.",
      },
      headers: idempotencyKey,
      answers: data(
        "The credentials, with their lease.",
        z.object({
          client_id: z.string(),
          client_secret: z.string(),
          metadata,
        }),
      ),
      errors: [405, ...UPSTREAM_FAILS],
    },
  },
);
