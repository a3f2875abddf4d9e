import { flag, object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of GitLab's API about CI/CD variables, by its documentation
 * (https://docs.gitlab.com/api/project_level_variables, `group_level_variables`, `instance_level_ci_variables`) and the types
 * of the client that it names (npm `@gitbeaker/core` 43.8.0, `ProjectVariableSchema`).
 */

const variable = object(
  {
    variable_type: { enum: ["env_var", "file"] },
    key: text,
    value: { type: ["string", "null"] },
    protected: flag,
    masked: flag,
    hidden: flag,
    raw: flag,
    environment_scope: text,
    description: { type: ["string", "null"] },
  },
  ["variable_type", "key", "value", "protected", "masked", "raw", "environment_scope"],
);
const { environment_scope: _scope, hidden: _hidden, ...common } = variable.properties as Record<string, object>;
const ofInstance = object(common, ["variable_type", "key", "value", "protected", "masked", "raw"]);
const writable = {
  value: text,
  variable_type: { enum: ["env_var", "file"] },
  protected: flag,
  masked: flag,
  raw: flag,
  description: text,
};
const scoped = { ...writable, environment_scope: text };
const refusal = { anyOf: [object({ message: {} }, ["message"]), { type: "object", required: ["error"] }] };

/** @param place the path before `/variables` */
const variables = (place: string, one: object, fields: object, filter: readonly string[]) => ({
  [`GET ${place}/variables`]: {
    query: ["per_page", "page"],
    answers: { 200: { type: "array", items: one }, default: refusal },
  },
  [`POST ${place}/variables`]: {
    request: object({ ...fields, key: text, ...(filter.length > 0 && { masked_and_hidden: flag }) }, ["key", "value"]),
    answers: { 201: one, default: refusal },
  },
  [`GET ${place}/variables/{key}`]: { query: filter, answers: { 200: one, default: refusal } },
  [`PUT ${place}/variables/{key}`]: {
    query: filter,
    request: object(fields, ["value"]),
    answers: { 200: one, default: refusal },
  },
  [`DELETE ${place}/variables/{key}`]: { query: filter, answers: { 204: null, default: refusal } },
});

const FILTER = ["filter[environment_scope]"];

export const published: PublishedApi = {
  base: "/api/v4",
  operations: {
    ...variables("/projects/{id}", variable, scoped, FILTER),
    ...variables("/groups/{id}", variable, scoped, FILTER),
    ...variables("/admin/ci", ofInstance, writable, []),
  },
};
