import * as z from "zod";
import { description } from "../../credentials/engines/gcp/description.ts";
import { keys, seconds } from "../../wire/shapes.ts";
import { data, group, noContent, text, warned } from "../operation.ts";
import { helpOf, issuing, metadata, next_rotation_date, rotationSettings, UPSTREAM_FAILS } from "./credential-parts.ts";

const Config = z
  .object({
    service_account_email: z.string(),
    identity_token_audience: z.string(),
    identity_token_ttl: seconds,
    ttl: seconds,
    max_ttl: seconds,
    ...rotationSettings,
    next_rotation_date,
  })
  .meta({ id: "GcpEngineConfig", description: "The stored configuration, never with `credentials`." });

const scopes = z.array(z.string());
const bindings = z.record(z.string(), z.array(z.string())).describe("Roles by resource.");
const shared = z.int().optional().describe("Of keys. Absent when it is 0.");
const secretType = z.enum(["access_token", "service_account_key"]);

const Roleset = z
  .object({
    secret_type: secretType,
    bindings,
    service_account_email: z.string(),
    project: z.string(),
    token_scopes: scopes.optional().describe("Of access tokens."),
    share_until: shared,
  })
  .meta({ id: "GcpRoleset" });

const StaticAccount = z
  .object({
    service_account_project: z.string(),
    service_account_email: z.string(),
    secret_type: secretType,
    bindings: bindings.optional(),
    token_scopes: scopes.optional().describe("Of access tokens."),
    share_until: shared,
  })
  .meta({ id: "GcpStaticAccount" });

const ImpersonatedAccount = z
  .object({
    service_account_project: z.string(),
    service_account_email: z.string(),
    token_scopes: scopes,
    ttl: seconds,
  })
  .meta({ id: "GcpImpersonatedAccount" });

const Token = z
  .object({ token: z.string(), token_ttl: seconds, expires_at_seconds: z.int(), metadata })
  .meta({ id: "GcpAccessToken" });
const Key = z
  .object({
    private_key_data: z.string().describe("The key file in base64."),
    key_algorithm: z.string(),
    key_type: z.string(),
    metadata,
  })
  .meta({ id: "GcpServiceAccountKey" });

const parameters = {
  ttl: "TTL of the lease of a key, or life of a token; at most that of the configuration or mount.",
  key_algorithm: "`KEY_ALG_RSA_2048`, or `KEY_ALG_RSA_1024`.",
  key_type: "`TYPE_GOOGLE_CREDENTIALS_FILE`, or `TYPE_PKCS12_FILE`.",
  verify: "Responds when a new key works, or with a warning after a while.",
};
const headers = {
  "X-Orch-Idempotency-Key": text("Repeating a request for a key with the same value gives the same lease."),
};

const token = { headers, answers: data("The token, without a lease.", Token) };
const key = { headers, answers: data("The key, with its lease.", Key) };
const issuingToken = (path: string, id: string) =>
  issuing(`/cloud-c${path}`, `Gcp${id}`, "Generate an access token", parameters, token);
const issuingKey = (path: string, id: string) =>
  issuing(`/cloud-c${path}`, `Gcp${id}`, "Create a service account's key", parameters, key);

/** The operations of one kind of roles. */
const roles = (path: string, plural: string, id: string, shape: z.ZodType, fields: Record<string, string>) => ({
  [`LIST /cloud-c${plural}`]: { id: `listGcp${id}s`, summary: "List the names", answers: data("The names.", keys) },
  [`LIST /cloud-c${path}`]: {
    id: `listGcp${id}`,
    summary: "List the names, by another path",
    answers: data("The names.", keys),
  },
  [`GET /cloud-c${path}/:name`]: { id: `readGcp${id}`, summary: "Read it", answers: data("As stored.", shape) },
  [`POST /cloud-c${path}/:name`]: {
    id: `writeGcp${id}`,
    summary: "Create or update it",
    description: "Omitted fields keep their values. Accounts and rights are made, changed and removed at Google.",
    body: { fields },
    answers: { ...noContent, ...warned("Written, with warnings.") },
    errors: UPSTREAM_FAILS,
  },
  [`DELETE /cloud-c${path}/:name`]: {
    id: `deleteGcp${id}`,
    summary: "Delete it, with what was made for it",
    answers: { ...noContent, ...warned("Deleted; the removal at Google is tried again.") },
  },
});

const rotation = (path: string, id: string, summary: string) => ({
  [`POST /cloud-c${path}`]: {
    id,
    summary,
    answers: { ...noContent, ...warned("Nothing was to be replaced.") },
    errors: UPSTREAM_FAILS,
  },
});

const [staticAccounts, impersonatedAccounts] = description.kinds;

export const gcpCredentials = group(
  "Credentials",
  { name: "The name: word characters, with dots and hyphens inside; the case is kept." },
  {
    "GET /cloud-c/config": {
      id: "readGcpConfig",
      summary: "Read the engine's configuration",
      answers: data("The configuration.", Config),
    },
    "POST /cloud-c/config": {
      id: "writeGcpConfig",
      summary: "Configure the engine",
      description: "Omitted fields keep their values; empty `credentials` remove the stored key.",
      body: { fields: helpOf(description.config) },
    },
    "POST /cloud-c/config/rotate-root": {
      id: "rotateGcpRoot",
      summary: "Replace the engine's key",
      answers: data("The id of the new key.", z.object({ private_key_id: z.string() })),
      errors: UPSTREAM_FAILS,
    },
    ...roles("/roleset", "/rolesets", "Roleset", Roleset, helpOf(description.roles)),
    ...rotation("/roleset/:name/rotate", "rotateGcpRoleset", "Replace the account of a roleset"),
    ...rotation("/roleset/:name/rotate-key", "rotateGcpRolesetKey", "Replace the key of a roleset's tokens"),
    ...roles("/static-account", "/static-accounts", "StaticAccount", StaticAccount, helpOf(staticAccounts.fields)),
    ...rotation("/static-account/:name/rotate-key", "rotateGcpStaticAccountKey", "Replace the key of its tokens"),
    ...roles(
      "/impersonated-account",
      "/impersonated-accounts",
      "ImpersonatedAccount",
      ImpersonatedAccount,
      helpOf(impersonatedAccounts.fields),
    ),
    ...issuingToken("/roleset/:name/token", "RolesetToken"),
    ...issuingKey("/roleset/:name/key", "RolesetKey"),
    ...issuingToken("/token/:name", "Token"),
    ...issuingKey("/key/:name", "Key"),
    ...issuingToken("/static-account/:name/token", "StaticAccountToken"),
    ...issuingKey("/static-account/:name/key", "StaticAccountKey"),
    ...issuingToken("/impersonated-account/:name/token", "ImpersonatedAccountToken"),
  },
);
