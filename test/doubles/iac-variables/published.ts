import { flag, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of HCP Terraform's API about variables of workspaces and variable sets, by its official client
 * (https://github.com/hashicorp/go-tfe/blob/0703f4cf32c07354ea2607e9b8b3025f21f64eb7/variable.go),
 * https://developer.hashicorp.com/terraform/cloud-docs/api-docs/workspace-variables and JSON:API.
 */

const object = (properties: object, required: readonly string[] = [], more = false) => ({
  type: "object",
  properties,
  required,
  additionalProperties: more,
});
const category = { enum: ["env", "terraform", "policy-set"] };
const writable = { key: text, value: text, description: text, category, hcl: flag, sensitive: flag };
const shown = object(
  {
    ...writable,
    value: { type: ["string", "null"] },
    description: { type: ["string", "null"] },
    "version-id": text,
    "created-at": text,
  },
  ["key", "value", "category", "hcl", "sensitive"],
);
const resource = object({ id: text, type: { const: "vars" }, attributes: shown }, ["id", "type", "attributes"], true);
const one = object({ data: resource }, ["data"], true);
const list = object({ data: { type: "array", items: resource }, meta: { type: "object" } }, ["data", "meta"], true);
const refused = object({ status: text, title: text, detail: text }, ["status", "title"], true);
const errors = object({ errors: { type: "array", items: refused } }, ["errors"]);
const body = (members: object, required: readonly string[], attributes: readonly string[]) =>
  object(
    {
      data: object({ type: { const: "vars" }, attributes: object(writable, attributes), ...members }, [
        "type",
        "attributes",
        ...required,
      ]),
    },
    ["data"],
  );

/** @param place the path before `/vars` */
const variables = (place: string, query: readonly string[]) => ({
  [`GET ${place}/vars`]: { query, answers: { 200: list, default: errors } },
  [`POST ${place}/vars`]: { request: body({}, [], ["key", "category"]), answers: { 201: one, default: errors } },
  [`PATCH ${place}/vars/{variable_id}`]: {
    request: body({ id: text }, ["id"], []),
    answers: { 200: one, default: errors },
  },
  [`DELETE ${place}/vars/{variable_id}`]: { answers: { 204: null, default: errors } },
});

const PAGES = ["page[size]", "page[number]"];

export const published: PublishedApi = {
  base: "/api/v2",
  operations: {
    ...variables("/workspaces/{workspace_id}", PAGES),
    ...variables("/varsets/{varset_id}/relationships", PAGES),
  },
};
