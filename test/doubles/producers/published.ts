import { flag, integer, list, nullable, object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";
import type { ProviderName } from "./account.ts";

/** Facts of the APIs of examples/producers, in our words: each says where its provider publishes them. */

const moment = { type: "string", pattern: "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?Z$" };
const date = { type: "string", pattern: "^\\d{4}-\\d\\d-\\d\\d$" };
const hex = (digits: number) => ({ type: "string", pattern: `^[\\da-f]{${digits}}$` });

/**
 * GitLab: https://docs.gitlab.com/api/project_access_tokens/ and the entities of the API that it names (`PersonalAccessToken`
 * and `ResourceAccessToken` in https://github.com/gitlabhq/gitlabhq, 41946e65).
 */
const scopes = list({ enum: ["api", "read_api", "read_repository", "write_repository", "read_registry"] });
const gitlabToken = {
  id: integer,
  name: text,
  revoked: flag,
  active: flag,
  created_at: moment,
  scopes,
  user_id: integer,
  last_used_at: nullable,
  last_used_ips: list(text),
  expires_at: date,
  description: nullable,
};
const OF_TOKEN = ["id", "name", "revoked", "active", "created_at", "scopes", "user_id", "expires_at"];
const ofProject = { ...gitlabToken, access_level: integer, resource_type: text, resource_id: integer };
const gitlabRefusal = { anyOf: [object({ message: {} }, ["message"]), { type: "object", required: ["error"] }] };
const gitlab: PublishedApi = {
  base: "/api/v4",
  operations: {
    "POST /projects/{id}/access_tokens": {
      request: object(
        {
          name: text,
          description: text,
          scopes,
          access_level: { enum: [10, 15, 20, 30, 40, 50] },
          expires_at: date,
        },
        ["name", "scopes", "expires_at"],
      ),
      answers: {
        201: object({ ...ofProject, token: text }, [...OF_TOKEN, "access_level", "token"]),
        default: gitlabRefusal,
      },
    },
    "GET /projects/{id}/access_tokens": {
      query: ["state", "search", "revoked", "sort", "page", "per_page"],
      answers: { 200: list(object(ofProject, [...OF_TOKEN, "access_level"])), default: gitlabRefusal },
    },
    "DELETE /projects/{id}/access_tokens/{token}": { answers: { 204: null, default: gitlabRefusal } },
    "GET /personal_access_tokens/self": { answers: { 200: object(gitlabToken, OF_TOKEN), default: gitlabRefusal } },
  },
};

/**
 * Cloudflare: account tokens of its client (https://github.com/cloudflare/cloudflare-typescript, 1810ca27), which is
 * generated from its OpenAPI schema.
 */
const group = object({ id: text, name: text, meta: { type: "object" } }, ["id"]);
const policy = {
  effect: { enum: ["allow", "deny"] },
  permission_groups: list(group),
  resources: { type: "object", additionalProperties: { type: ["string", "object"] } },
};
const RULES = ["effect", "permission_groups", "resources"];
const cloudflareToken = {
  id: text,
  name: text,
  status: { enum: ["active", "disabled", "expired"] },
  policies: list(object({ ...policy, id: text }, ["id", ...RULES])),
  condition: { type: "object" },
  expires_on: moment,
  not_before: moment,
  issued_on: moment,
  modified_on: moment,
  last_used_on: moment,
};
const information = list({ type: "object", required: ["code", "message"] });
const wrapped = (result: object) =>
  object({ success: { const: true }, errors: information, messages: information, result, result_info: {} }, [
    "success",
    "errors",
    "messages",
    "result",
  ]);
const cloudflareRefusal = object(
  {
    success: { const: false },
    errors: { ...information, minItems: 1 },
    messages: information,
    result: { type: ["object", "null"] },
  },
  ["success", "errors", "messages"],
);
const cloudflare: PublishedApi = {
  base: "/client/v4",
  operations: {
    "GET /accounts/{account}/tokens/verify": {
      answers: {
        200: wrapped(
          object({ id: text, status: cloudflareToken.status, expires_on: moment, not_before: moment }, [
            "id",
            "status",
          ]),
        ),
        default: cloudflareRefusal,
      },
    },
    "POST /accounts/{account}/tokens": {
      request: object(
        {
          name: text,
          policies: { ...list(object(policy, RULES)), minItems: 1 },
          condition: {},
          expires_on: moment,
          not_before: moment,
        },
        ["name", "policies"],
      ),
      answers: { 200: wrapped(object({ ...cloudflareToken, value: text })), default: cloudflareRefusal },
    },
    "GET /accounts/{account}/tokens": {
      query: ["page", "per_page", "direction"],
      answers: { 200: wrapped(list(object(cloudflareToken))), default: cloudflareRefusal },
    },
    "DELETE /accounts/{account}/tokens/{token}": {
      answers: { 200: wrapped(object({ id: text }, ["id"])), default: cloudflareRefusal },
    },
  },
};

/**
 * Datadog: models `api_key_create_*`, `full_api_key*`, `partial_api_key*`, `api_error_response` and
 * `api/key_management_api.py` of https://github.com/DataDog/datadog-api-client-python (6d8f356e), generated from its
 * OpenAPI schema.
 */
const keys = { const: "api_keys" };
const attributes = {
  name: text,
  category: text,
  created_at: text,
  date_last_used: nullable,
  last4: { type: "string", minLength: 4, maxLength: 4 },
  modified_at: text,
  remote_config_read_enabled: flag,
};
const key = (given: object) => object({ id: text, type: keys, attributes: object(given), relationships: {} });
const datadogRefusal = object({ errors: list(text) }, ["errors"]);
const datadog: PublishedApi = {
  base: "/api",
  operations: {
    "POST /v2/api_keys": {
      request: object(
        {
          data: object(
            {
              type: keys,
              attributes: object({ name: text, category: text, remote_config_read_enabled: flag }, ["name"]),
            },
            ["type", "attributes"],
          ),
        },
        ["data"],
      ),
      answers: { 201: object({ data: key({ ...attributes, key: text }), included: {} }), default: datadogRefusal },
    },
    "GET /v2/api_keys": {
      query: ["filter", "page[size]", "page[number]", "sort", "include", "category"],
      answers: { 200: object({ data: list(key(attributes)), included: {}, meta: {} }), default: datadogRefusal },
    },
    "DELETE /v2/api_keys/{key}": { answers: { 204: null, default: datadogRefusal } },
    "GET /v1/validate": { answers: { 200: object({ valid: flag }), default: datadogRefusal } },
  },
};

/**
 * MongoDB Atlas: `admin/model_cloud_database_user.go` of https://github.com/mongodb/atlas-sdk-go (1a1a2ce4), generated from its OpenAPI
 * schema, whose `ApiError` is the refusal; RFC 6749 for the login.
 */
const role = object({ roleName: text, databaseName: text, collectionName: text }, ["roleName", "databaseName"]);
const user = {
  databaseName: { enum: ["admin", "$external"] },
  groupId: hex(24),
  username: text,
  roles: list(role),
  scopes: list({ type: "object" }),
  labels: list({ type: "object" }),
  description: { type: "string", maxLength: 100 },
  deleteAfterDate: moment,
  awsIAMType: text,
  ldapAuthType: text,
  oidcAuthType: text,
  x509Type: text,
};
const OF_USER = ["databaseName", "groupId", "username"];
const shown = object({ ...user, links: list({ type: "object" }) }, OF_USER);
const writable = object({ ...user, password: { type: "string", minLength: 8 } }, OF_USER);
const atlasRefusal = {
  type: "object",
  properties: { error: integer, errorCode: text, reason: text, detail: text },
  required: ["error", "errorCode"],
};
const atlasUser = "/atlas/v2/groups/{group}/databaseUsers/{database}/{user}";
const atlas: PublishedApi = {
  base: "/api",
  operations: {
    "POST /oauth/token": {
      request: object({ grant_type: { const: "client_credentials" }, scope: text }, ["grant_type"]),
      answers: {
        200: object({ access_token: text, expires_in: integer, token_type: { const: "Bearer" } }, [
          "access_token",
          "token_type",
        ]),
        default: { type: "object" },
      },
    },
    "POST /atlas/v2/groups/{group}/databaseUsers": {
      request: writable,
      answers: { 201: shown, default: atlasRefusal },
    },
    [`GET ${atlasUser}`]: { answers: { 200: shown, default: atlasRefusal } },
    [`PATCH ${atlasUser}`]: { request: writable, answers: { 200: shown, default: atlasRefusal } },
    [`DELETE ${atlasUser}`]: { answers: { 204: null, default: atlasRefusal } },
  },
};

/**
 * Snowflake: `specifications/sqlapi.yaml` of https://github.com/snowflakedb/snowflake-rest-api-specs (42671a90), which
 * demands a `User-Agent`, too.
 */
const handle = { type: "string", pattern: "^[\\da-f]{8}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{4}-[\\da-f]{12}$" };
const status = {
  code: text,
  sqlState: text,
  message: text,
  statementHandle: handle,
  createdOn: integer,
  statementStatusUrl: text,
};
const column = object({ name: text, type: text, length: integer, precision: integer, scale: integer, nullable: flag });
const metaData = object({
  format: { const: "jsonv2" },
  numRows: integer,
  rowType: { ...list(column), minItems: 1 },
  partitionInfo: list(object({ rowCount: integer, compressedSize: integer, uncompressedSize: integer })),
  nullable: flag,
  parameters: { type: "object" },
});
const snowflake: PublishedApi = {
  base: "/api/v2",
  operations: {
    "POST /statements": {
      query: ["requestId", "async", "nullable"],
      request: object({
        statement: text,
        timeout: { type: "integer", minimum: 0 },
        database: text,
        schema: text,
        warehouse: text,
        role: text,
        bindings: { type: "object" },
        parameters: { type: "object" },
      }),
      answers: {
        200: object({ ...status, resultSetMetaData: metaData, data: list(list(nullable)), stats: { type: "object" } }, [
          "code",
          "statementHandle",
          "resultSetMetaData",
          "data",
        ]),
        422: object(status, ["message", "statementHandle"]),
        default: { type: "object", properties: { code: text, message: text }, required: ["code", "message"] },
      },
    },
  },
};

export const published: Readonly<Record<ProviderName, PublishedApi>> = {
  gitlab,
  cloudflare,
  datadog,
  atlas,
  snowflake,
};
