import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of Heroku's published JSON schema about config vars (`config-var` in
 * https://github.com/heroku/platform-api/blob/03fdcdc7ed08fee504bdc767cfbc4b2ec1b635b1/schema.json): null removes one.
 */

const vars = (value: readonly string[]) => ({
  type: "object",
  patternProperties: { "^\\w+$": { type: value } },
  additionalProperties: false,
});
const error = {
  type: "object",
  properties: { id: { type: "string" }, message: { type: "string" }, url: { type: "string" } },
  required: ["id", "message"],
};

export const published: PublishedApi = {
  base: "/apps",
  operations: {
    "GET /{app}/config-vars": { answers: { 200: vars(["string", "null"]), default: error } },
    "PATCH /{app}/config-vars": {
      request: vars(["string", "null"]),
      answers: { 200: vars(["string", "null"]), default: error },
    },
  },
};
