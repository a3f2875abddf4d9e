import { object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of Cloudflare's published document about secrets of Workers and of Secrets Stores, as its client that is generated
 * from it has them (https://www.npmjs.com/package/cloudflare, 7.3.0). The client itself is too large for a dependency. Of
 * refusals it has the envelope only.
 */

const note = { type: "array", items: { type: "object", properties: { code: { type: "integer" }, message: text } } };
const enveloped = (result: object, more: object = {}) => ({
  type: "object",
  properties: { success: { const: true }, errors: note, messages: note, result, ...more },
  required: ["success", "errors", "messages"],
});
const refusal = {
  type: "object",
  properties: { success: { const: false }, errors: { ...note, minItems: 1 }, messages: note },
  required: ["success", "errors", "messages"],
};
const refusals = { default: refusal };

const named = object({ name: text, type: { const: "secret_text" } }, ["name", "type"]);
const secretText = object({ name: text, text, type: { const: "secret_text" } }, ["name", "text", "type"]);

const scopes = {
  type: "array",
  items: { enum: ["workers", "ai_gateway", "dex", "access", "containers", "websearch"] },
};
const stored = {
  type: "object",
  properties: {
    id: text,
    created: text,
    modified: text,
    name: text,
    status: { enum: ["pending", "active", "deleted"] },
    store_id: text,
    comment: text,
    scopes,
  },
  required: ["id", "created", "modified", "name", "status", "store_id"],
  // A value is never answered.
  additionalProperties: false,
};

/** The numbers of a list by pages. */
const pageInfo = { type: "object", properties: { page: { type: "integer" }, per_page: { type: "integer" } } };

const worker = "/accounts/{account}/workers/scripts/{script}";
const store = "/accounts/{account}/secrets_store/stores/{store}/secrets";
/** Of the token, when a call is refused. */
const verified = { answers: { 200: enveloped({ type: "object" }), ...refusals } };

export const published: PublishedApi = {
  base: "",
  operations: {
    "GET /user/tokens/verify": verified,
    "GET /accounts/{account}/tokens/verify": verified,
    [`GET ${worker}/secrets`]: { answers: { 200: enveloped({ type: "array", items: named }), ...refusals } },
    [`PATCH ${worker}/secrets-bulk`]: {
      request: object(
        {
          secrets: { type: "object", additionalProperties: { anyOf: [secretText, { type: "null" }] } },
          version_tags: { type: "object" },
        },
        [],
      ),
      answers: { 200: enveloped({ type: "object", additionalProperties: named }), ...refusals },
    },
    [`GET ${store}`]: {
      query: ["page", "per_page", "direction", "order", "scopes", "search"],
      answers: { 200: enveloped({ type: "array", items: stored }, { result_info: pageInfo }), ...refusals },
    },
    [`POST ${store}`]: {
      request: {
        type: "array",
        items: object({ name: text, value: text, scopes, comment: text }, ["name", "scopes", "value"]),
      },
      answers: { 200: enveloped({ type: "array", items: stored }), ...refusals },
    },
    [`PATCH ${store}/{id}`]: {
      request: object({ value: text, scopes, comment: text }, []),
      answers: { 200: enveloped(stored), ...refusals },
    },
    [`DELETE ${store}/{id}`]: { answers: { 200: enveloped({}), ...refusals } },
  },
};
