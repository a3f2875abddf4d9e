import { object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of CircleCI's API v2 about variables of contexts and projects, by its official client
 * (https://github.com/CircleCI-Public/circleci-cli/blob/583e14546ac91f65939a6e17432b7778a2f463d5/api/context/rest.go) and
 * https://circleci.com/docs/api/v2.
 */

const page = (items: object) =>
  object({ items: { type: "array", items }, next_page_token: { type: ["string", "null"] } }, ["items"]);
const ofContext = object(
  { variable: text, context_id: text, created_at: text, updated_at: text, truncated_value: text },
  ["variable", "context_id", "created_at"],
);
const ofProject = object({ name: text, value: text, "created-at": text }, ["name", "value"]);
const message = object({ message: text }, ["message"]);

export const published: PublishedApi = {
  base: "/api/v2",
  operations: {
    "GET /context/{context_id}/environment-variable": {
      query: ["page-token"],
      answers: { 200: page(ofContext), default: message },
    },
    "PUT /context/{context_id}/environment-variable/{env_var_name}": {
      request: object({ value: text }, ["value"]),
      answers: { 200: ofContext, default: message },
    },
    "DELETE /context/{context_id}/environment-variable/{env_var_name}": { answers: { 200: message, default: message } },
    "GET /project/{vcs}/{organization}/{project}/envvar": { answers: { 200: page(ofProject), default: message } },
    "GET /project/{vcs}/{organization}/{project}/envvar/{name}": { answers: { 200: ofProject, default: message } },
    "POST /project/{vcs}/{organization}/{project}/envvar": {
      request: object({ name: text, value: text }, ["name", "value"]),
      answers: { 201: ofProject, default: message },
    },
    "DELETE /project/{vcs}/{organization}/{project}/envvar/{name}": { answers: { 200: message, default: message } },
  },
};
