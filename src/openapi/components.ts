import { clusterHeader, requestHeader } from "../compat/dialect.ts";
import type { Area } from "../platform/http/areas.ts";
import type { Json, JsonSchema } from "./json-schema.ts";

/** Shared parts of operations, under `components` of the document. */

export const ref = (kind: string, name: string): JsonSchema => ({ $ref: `#/components/${kind}/${name}` });

export const ENVELOPE: JsonSchema = {
  type: "object",
  description: "What the secrets API answers.",
  properties: {
    request_id: { type: "string", format: "uuid" },
    lease_id: { type: "string", description: "Of the lease under which `data` is given; empty without one." },
    renewable: { type: "boolean" },
    lease_duration: { type: "integer", description: "Seconds." },
    data: { description: "What was asked for." },
    wrap_info: { type: "null" },
    warnings: { type: ["array", "null"], items: { type: "string" }, description: "Null when there are none." },
    auth: { description: "The token that was made or renewed." },
    mount_type: { type: "string", description: "Of the engine that answered." },
  },
  required: [
    ...["request_id", "lease_id", "renewable", "lease_duration", "data", "wrap_info", "warnings", "auth", "mount_type"],
  ],
};

export const ERRORS: JsonSchema = {
  type: "object",
  description: "What is wrong: each text names the field and the rule. Empty for what is simply not there.",
  properties: { errors: { type: "array", items: { type: "string" } } },
  required: ["errors"],
};

export const NAMESPACE = {
  name: requestHeader.namespace[0],
  in: "header",
  description:
    "The namespace, such as `team/a`; the root without one. It may lead the path instead: `/v1/team/a/sys/mounts`.",
  schema: { type: "string" },
} as const;

export const HEADERS = {
  [clusterHeader.index[0]]: { description: "The index of what was read, to wait beyond.", schema: { type: "integer" } },
  [clusterHeader.nextToken[0]]: {
    description: "Where the next page begins; absent on the last one.",
    schema: { type: "string" },
  },
};

/** Meaning of each status, shared by all operations. */
export const REFUSALS: Readonly<Record<number, string>> = {
  400: "The request breaks a rule, and changed nothing.",
  401: "Nobody whom the service knows.",
  403: "No token, an unknown one, or one without the right.",
  404: "There is nothing of that name; a list without entries answers it, too.",
  405: "The path does not know the method.",
  408: "The body took too long to arrive.",
  409: "It is in use, or in conflict with what is there.",
  413: "The body is larger than the route takes: 1 MiB unless its description says otherwise.",
  415: "A patch must be JSON.",
  426: "The connection must be upgraded.",
  429: "Too many requests; `Retry-After` says when to try again.",
  500: "A defect; the text names the request, and the operator finds it in the log.",
  501: "What it takes is not there: a capability of a plugin, or the deployment is not set up yet.",
  502: "A plugin or provider failed.",
  503: "Sealed, busy, or out of reach; `Retry-After` says when to try again.",
  504: "It was not over in time, and may yet succeed.",
  507: "No room, or no node that fits.",
};

/** An error response in the convention of its area. */
export const refusal = (area: Area, description: string): Json => ({
  description,
  content:
    area === "secrets"
      ? { "application/json": { schema: ref("schemas", "Errors") } }
      : { "text/plain": { schema: { type: "string" } } },
});
