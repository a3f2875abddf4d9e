import { clusterHeader, requestHeader } from "../compat/dialect.ts";
import type { Area } from "../platform/http/areas.ts";
import { PLACE_HEADER, REGIONS, REPLICA_HEADER } from "../platform/place.ts";
import type { Json, JsonSchema } from "./json-schema.ts";

/** Shared parts of operations, under `components` of the document. */

export const ref = (kind: string, name: string): JsonSchema => ({ $ref: `#/components/${kind}/${name}` });

/** An object that always has all of its members. */
const whole = (description: string, properties: JsonSchema): JsonSchema => ({
  type: "object",
  description,
  properties,
  required: Object.keys(properties),
});

const WRAP_INFO = whole("Of a wrapped answer, whose `data` and `auth` are null.", {
  token: { type: "string", description: "The wrapping token; it is returned only here." },
  accessor: { type: "string" },
  ttl: { type: "integer", description: "Seconds." },
  creation_time: { type: "string", format: "date-time" },
  creation_path: { type: "string" },
  wrapped_accessor: { type: "string", description: "Accessor of a token in the answer; empty without one." },
});

export const ENVELOPE = whole("What the secrets API answers.", {
  request_id: { type: "string", format: "uuid" },
  lease_id: { type: "string", description: "Of the lease under which `data` is given; empty without one." },
  renewable: { type: "boolean" },
  lease_duration: { type: "integer", description: "Seconds." },
  data: { description: "The requested data." },
  wrap_info: { anyOf: [WRAP_INFO, { type: "null" }] },
  warnings: { type: ["array", "null"], items: { type: "string" }, description: "Null when there are none." },
  auth: { description: "The token that was made or renewed." },
  mount_type: { type: "string", description: "Of the engine that answered." },
});

export const ERRORS = whole("Error messages with field and rule. Empty for a missing object.", {
  errors: { type: "array", items: { type: "string" } },
});

export const NAMESPACE = {
  name: requestHeader.namespace[0],
  in: "header",
  description:
    "The namespace, such as `team/a`; the root without one. It may lead the path instead: `/v1/team/a/sys/mounts`.",
  schema: { type: "string" },
} as const;

/** Of requests with a token: no replica authorizes the others. */
export const PLACE = {
  name: PLACE_HEADER,
  in: "header",
  description: `The request is answered through the replica of this place, which ${REPLICA_HEADER} names, to compare places.`,
  schema: { type: "string", enum: [...REGIONS] },
} as const;

/** Of answers of the cluster API. */
export const INDEX_HEADERS = {
  [clusterHeader.index[0]]: {
    description: "The index of the data, for a blocking query.",
    schema: { type: "integer" },
  },
  [clusterHeader.nextToken[0]]: {
    description: "Where the next page begins; absent on the last one.",
    schema: { type: "string" },
  },
};

/** Of any answer, except a WebSocket's. */
export const REPLICA_HEADERS = {
  [REPLICA_HEADER]: {
    description: `The replica that answered, such as \`enam-0\`. Only for a request with ${PLACE_HEADER}, and absent when \`AccessControl\` itself authorized it.`,
    schema: { type: "string" },
  },
};

export const HEADERS: Readonly<Record<string, Json>> = { ...INDEX_HEADERS, ...REPLICA_HEADERS };

/** The headers of an answer, as references. */
export const headersOf = (described: object): Json =>
  Object.fromEntries(Object.keys(described).map((name) => [name, ref("headers", name)]));

/** Meaning of each status, shared by all operations. */
export const REFUSALS: Readonly<Record<number, string>> = {
  400: "Invalid request; nothing changed.",
  401: "Unknown caller.",
  403: "Missing or unknown token, or missing right.",
  404: "Not found; also the answer of an empty list.",
  405: "Unsupported method.",
  408: "The body took too long to arrive.",
  409: "In use, or in conflict with the current state.",
  413: "Body too large: the limit is 1 MiB unless the description says otherwise.",
  415: "A patch must be JSON.",
  426: "The connection must be upgraded.",
  429: "Too many requests; see `Retry-After`.",
  500: "Internal error; the message contains the request id for the operator's log.",
  501: "Not supported by the plugin, or the deployment is not initialized.",
  502: "A plugin or provider failed.",
  503: "Sealed, busy or unreachable; see `Retry-After`.",
  504: "Timeout; the operation may still succeed.",
  507: "No capacity, or no suitable node.",
};

/** An error response in the convention of its area. */
export const refusal = (area: Area, description: string): Json => ({
  description,
  headers: headersOf(REPLICA_HEADERS),
  content:
    area === "secrets"
      ? { "application/json": { schema: ref("schemas", "Errors") } }
      : { "text/plain": { schema: { type: "string" } } },
});
