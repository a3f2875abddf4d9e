import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of the Machines API's published document about secrets of apps
 * (https://docs.machines.dev/spec/openapi3.json, 2026). Null removes a secret: the document says texts only, the
 * provider's own client sends null (https://github.com/superfly/fly-go/blob/22d6e51/flaps/flaps_secrets.go).
 */

const text = { type: "string" };
const object = (properties: object) => ({ type: "object", properties, additionalProperties: false });
const secret = object({ name: text, value: text, digest: text, created_at: text, updated_at: text });
const secrets = { type: "array", items: { ...secret, required: ["name"] } };
const error = object({ error: text, status: text, details: { type: "object" } });
const version = { type: "integer" };

export const published: PublishedApi = {
  base: "/v1",
  operations: {
    "GET /apps/{app_name}/secrets": {
      query: ["min_version", "show_secrets"],
      answers: { 200: object({ secrets }), default: error },
    },
    "POST /apps/{app_name}/secrets": {
      request: object({ values: { type: "object", additionalProperties: { type: ["string", "null"] } } }),
      answers: { 200: object({ secrets, version, Version: version }), default: error },
    },
  },
};
