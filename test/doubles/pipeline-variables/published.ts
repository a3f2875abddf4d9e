import { nullable, object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of Microsoft's published document about variable groups, version 7.1 (2026-08):
 * https://github.com/MicrosoftDocs/vsts-rest-api-specs/blob/HEAD/specification/distributedTask/7.1/taskAgent.json. Its
 * example of a read shows that secret values are null. It gives refusals no body, and says nothing of a missing group.
 */

const variable = object({ isReadOnly: { type: "boolean" }, isSecret: { type: "boolean" }, value: nullable });
const references = {
  type: "array",
  items: object({ description: nullable, name: text, projectReference: object({ id: text, name: text }) }),
};
const parameters = {
  description: nullable,
  name: text,
  providerData: { type: ["object", "null"] },
  type: text,
  variableGroupProjectReferences: references,
  variables: { type: "object", additionalProperties: variable },
};
const identity = { type: "object", properties: { id: text, displayName: text, uniqueName: text } };
const group = object({
  ...parameters,
  createdBy: identity,
  createdOn: text,
  id: { type: "integer" },
  isShared: { type: "boolean" },
  modifiedBy: identity,
  modifiedOn: text,
});
const any = {};
const refusals = { 401: null, 403: any, 404: any, 429: any };

export const published: PublishedApi = {
  base: "",
  operations: {
    "GET /{organization}/{project}/_apis/distributedtask/variablegroups/{groupId}": {
      query: ["api-version"],
      answers: { 200: { anyOf: [group, { type: "null" }] }, ...refusals },
    },
    "PUT /{organization}/_apis/distributedtask/variablegroups/{groupId}": {
      query: ["api-version"],
      request: object(parameters, ["name", "type", "variables", "variableGroupProjectReferences"]),
      answers: { 200: group, ...refusals },
    },
  },
};
