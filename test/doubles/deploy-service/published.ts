import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of Render's published document about environment variables, as the types generated from it have them:
 * https://github.com/render-oss/sdk/blob/28824b6/typescript/src/generated/schema.ts (2026-08-21).
 */

const text = { type: "string" };
const object = (properties: object, required = Object.keys(properties)) => ({ type: "object", properties, required });
const error = object({ id: text, message: text, code: text }, []);
const common = { 401: error, 404: error, 429: error, 500: error, 503: error };
const ofService = { ...common, 403: error, 406: error, 410: error };
const ofGroup = { ...common, 400: error };
const variable = object({ key: text, value: text });
const given = { oneOf: [object({ value: text }), object({ generateValue: { type: "boolean" } })] };
const group = object({
  id: text,
  name: text,
  ownerId: text,
  createdAt: text,
  updatedAt: text,
  serviceLinks: { type: "array" },
  envVars: { type: "array", items: variable },
  secretFiles: { type: "array", items: object({ name: text, content: text }) },
});
const page = { type: "array", items: object({ envVar: variable, cursor: text }) };

export const published: PublishedApi = {
  base: "/v1",
  operations: {
    "GET /services/{serviceId}/env-vars": {
      query: ["cursor", "limit"],
      answers: { 200: page, ...ofService },
    },
    "GET /services/{serviceId}/env-vars/{envVarKey}": {
      answers: { 200: variable, ...ofService },
    },
    "PUT /services/{serviceId}/env-vars/{envVarKey}": {
      request: given,
      answers: { 200: variable, 400: error, ...ofService },
    },
    "DELETE /services/{serviceId}/env-vars/{envVarKey}": {
      answers: { 204: null, ...ofService },
    },
    "GET /env-groups/{envGroupId}": { answers: { 200: group, ...ofGroup } },
    "GET /env-groups/{envGroupId}/env-vars/{envVarKey}": { answers: { 200: variable, ...ofGroup } },
    "PUT /env-groups/{envGroupId}/env-vars/{envVarKey}": { request: given, answers: { 200: group, ...ofGroup } },
    "DELETE /env-groups/{envGroupId}/env-vars/{envVarKey}": { answers: { 204: null, ...ofGroup } },
  },
};
