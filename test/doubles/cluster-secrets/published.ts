import { integer, list, object, text } from "../../support/json-schemas.ts";
import type { PublishedApi } from "../../support/published-api.ts";

/**
 * Facts of the published document of Kubernetes about Secrets, namespaces and reviews of access:
 * https://github.com/kubernetes/kubernetes/blob/master/api/openapi-spec/v3/api__v1_openapi.json and
 * apis__authorization.k8s.io__v1_openapi.json beside it. It names 401 as a refusal only; each refusal is a Status.
 */

const map = { type: "object", additionalProperties: text };

const metadata = object({
  annotations: map,
  creationTimestamp: text,
  deletionGracePeriodSeconds: integer,
  deletionTimestamp: text,
  finalizers: list(text),
  generateName: text,
  generation: integer,
  labels: map,
  managedFields: list(
    object({
      apiVersion: text,
      fieldsType: text,
      fieldsV1: { type: "object" },
      manager: text,
      operation: text,
      subresource: text,
      time: text,
    }),
  ),
  name: text,
  namespace: text,
  ownerReferences: list({ type: "object" }),
  resourceVersion: text,
  selfLink: text,
  uid: text,
});
const listMetadata = object({ continue: text, remainingItemCount: integer, resourceVersion: text, selfLink: text });
const typed = { apiVersion: text, kind: text };
const secret = object({
  ...typed,
  data: { type: "object", additionalProperties: { type: "string", contentEncoding: "base64" } },
  immutable: { type: "boolean" },
  metadata,
  stringData: map,
  type: text,
});
const partial = object({ apiVersion: { const: "meta.k8s.io/v1" }, kind: { const: "PartialObjectMetadata" }, metadata });
const listOf = (items: object) => object({ ...typed, items: list(items), metadata: listMetadata }, ["items"]);
const status = object({
  ...typed,
  code: integer,
  details: object({
    causes: list(object({ field: text, message: text, reason: text })),
    group: text,
    kind: text,
    name: text,
    retryAfterSeconds: integer,
    uid: text,
  }),
  message: text,
  metadata: listMetadata,
  reason: text,
  status: { enum: ["Success", "Failure"] },
});
const refusals = { default: status };
const deletion = object({
  ...typed,
  dryRun: list(text),
  gracePeriodSeconds: integer,
  orphanDependents: { type: "boolean" },
  preconditions: object({ resourceVersion: text, uid: text }),
  propagationPolicy: text,
});
const review = object(
  {
    ...typed,
    metadata,
    spec: object({
      extra: { type: "object" },
      groups: list(text),
      nonResourceAttributes: object({ path: text, verb: text }),
      resourceAttributes: object({
        fieldSelector: { type: "object" },
        group: text,
        labelSelector: { type: "object" },
        name: text,
        namespace: text,
        resource: text,
        subresource: text,
        verb: text,
        version: text,
      }),
      uid: text,
    }),
    status: object({ allowed: { type: "boolean" }, denied: { type: "boolean" }, evaluationError: text, reason: text }, [
      "allowed",
    ]),
  },
  ["spec"],
);

const secrets = "/api/v1/namespaces/{namespace}/secrets";

export const published: PublishedApi = {
  base: "",
  operations: {
    [`GET ${secrets}`]: {
      query: [
        "allowWatchBookmarks",
        "continue",
        "fieldSelector",
        "labelSelector",
        "limit",
        "pretty",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "timeoutSeconds",
        "watch",
      ],
      answers: { 200: { anyOf: [listOf(secret), listOf(partial)] }, ...refusals },
    },
    [`GET ${secrets}/{name}`]: { query: ["pretty"], answers: { 200: { anyOf: [secret, partial] }, ...refusals } },
    [`PATCH ${secrets}/{name}`]: {
      query: ["dryRun", "fieldManager", "fieldValidation", "force", "pretty"],
      request: secret,
      answers: { 200: secret, 201: secret, ...refusals },
    },
    [`DELETE ${secrets}/{name}`]: {
      query: ["dryRun", "gracePeriodSeconds", "orphanDependents", "pretty", "propagationPolicy"],
      request: deletion,
      answers: { 200: status, 202: status, ...refusals },
    },
    "GET /api/v1/namespaces/{name}": {
      query: ["pretty"],
      answers: {
        200: object({ ...typed, metadata, spec: object({ finalizers: list(text) }), status: { type: "object" } }),
        ...refusals,
      },
    },
    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {
      query: ["dryRun", "fieldManager", "fieldValidation", "pretty"],
      request: review,
      answers: { 200: review, 201: review, ...refusals },
    },
  },
};
