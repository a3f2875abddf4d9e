/** A refusal with its google.rpc.Status. */
export class StatusError extends Error {
  readonly status: StatusName;
  readonly details: readonly Record<string, unknown>[];

  constructor(status: StatusName, message: string, details: readonly Record<string, unknown>[] = []) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

/** google.rpc.Code with its HTTP status (AIP-193). */
export const httpStatus = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  ABORTED: 409,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  UNKNOWN: 500,
  DATA_LOSS: 500,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
} as const;
export type StatusName = keyof typeof httpStatus;

export const errorInfo = (reason: string, metadata: Record<string, string> = {}, domain = "googleapis.com") => ({
  "@type": "type.googleapis.com/google.rpc.ErrorInfo",
  reason,
  domain,
  metadata: { service: "secretmanager.googleapis.com", ...metadata },
});

export const retryInfo = (retryDelay: string) => ({
  "@type": "type.googleapis.com/google.rpc.RetryInfo",
  retryDelay,
});

interface Rpc {
  name: string;
  method: string;
  /** Below the project. */
  path: RegExp;
  permission: string;
  /** Query parameters besides `$alt`. */
  query?: readonly string[];
  /** Fields of the body, with their JSON type; absent: no body may be sent. */
  body?: Readonly<Record<string, "string" | "object">>;
  /** Counts against the project's write requests. */
  write?: true;
}

const secret = "secrets/(?<secret>[^/:]+)";
const version = `${secret}/versions/(?<version>[^/:]+)`;
const path = (pattern: string) => new RegExp(`^${pattern}$`);
const secretBody = {
  name: "string",
  replication: "object",
  labels: "object",
  annotations: "object",
  versionAliases: "object",
  tags: "object",
  etag: "string",
} as const;
const versionVerb = (verb: string): Rpc => ({
  name: `${verb[0]?.toUpperCase()}${verb.slice(1)}SecretVersion`,
  method: "POST",
  path: path(`${version}:${verb}`),
  permission: `secretmanager.versions.${verb}`,
  body: { etag: "string" },
  write: true,
});

/** google.cloud.secretmanager.v1.SecretManagerService, http rules, as far as the double goes. */
const rpcs: readonly Rpc[] = [
  {
    name: "CreateSecret",
    method: "POST",
    path: path("secrets"),
    permission: "secretmanager.secrets.create",
    query: ["secretId"],
    body: secretBody,
    write: true,
  },
  {
    name: "ListSecrets",
    method: "GET",
    path: path("secrets"),
    permission: "secretmanager.secrets.list",
    query: ["pageSize", "pageToken"],
  },
  { name: "GetSecret", method: "GET", path: path(secret), permission: "secretmanager.secrets.get" },
  {
    name: "UpdateSecret",
    method: "PATCH",
    path: path(secret),
    permission: "secretmanager.secrets.update",
    query: ["updateMask"],
    body: secretBody,
    write: true,
  },
  {
    name: "DeleteSecret",
    method: "DELETE",
    path: path(secret),
    permission: "secretmanager.secrets.delete",
    query: ["etag"],
    write: true,
  },
  {
    name: "AddSecretVersion",
    method: "POST",
    path: path(`${secret}:addVersion`),
    permission: "secretmanager.versions.add",
    body: { payload: "object" },
    write: true,
  },
  {
    name: "ListSecretVersions",
    method: "GET",
    path: path(`${secret}/versions`),
    permission: "secretmanager.versions.list",
    query: ["pageSize", "pageToken"],
  },
  { name: "GetSecretVersion", method: "GET", path: path(version), permission: "secretmanager.versions.get" },
  {
    name: "AccessSecretVersion",
    method: "GET",
    path: path(`${version}:access`),
    permission: "secretmanager.versions.access",
  },
  versionVerb("destroy"),
  versionVerb("disable"),
  versionVerb("enable"),
];

/** A request as far as its envelope goes. */
export interface Parsed {
  rpc: Rpc;
  /** The project as the caller named it. */
  project: string;
  secretId: string | null;
  version: string | null;
  query: Record<string, string>;
  /** The vendor's clients ask for enums as numbers. */
  enumsAsNumbers: boolean;
}

/** The RPC of a request. @throws the error of the gateway in front of the service */
export function parseTarget(method: string, target: string): Parsed {
  const { pathname, searchParams } = new URL(target, "http://double");
  const match = /^\/v1\/projects\/([^/]+)\/(.+)$/.exec(pathname);
  const below = match?.[2] ?? "";
  for (const rpc of rpcs) {
    const found = rpc.method === method ? rpc.path.exec(below) : null;
    if (found === null || match === null) continue;
    const query: Record<string, string> = {};
    for (const [name, value] of searchParams) {
      const known = name === "$alt" ? value === "json;enum-encoding=int" : rpc.query?.includes(name);
      if (!known || Object.hasOwn(query, name)) throw invalid(`Invalid JSON payload received. Unknown name "${name}"`);
      query[name] = value;
    }
    const part = (name: string) => (found.groups?.[name] === undefined ? null : decodeURIComponent(found.groups[name]));
    return {
      rpc,
      project: decodeURIComponent(match[1] ?? ""),
      secretId: part("secret"),
      version: part("version"),
      query,
      enumsAsNumbers: query["$alt"] !== undefined,
    };
  }
  throw new StatusError("NOT_FOUND", "");
}

/** The body, checked for unknown fields and wrong types. */
export function parseBody({ rpc }: Parsed, contentType: string | undefined, body: Buffer): Record<string, unknown> {
  if (rpc.body === undefined) {
    if (body.length > 0) throw invalid("This method takes no body");
    return {};
  }
  if (!/^application\/json(;\s*charset=utf-8)?$/i.test(contentType ?? ""))
    throw invalid("The content type is not JSON");
  return checkFields(parseJson(body), rpc.body);
}

export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body));
  } catch {
    throw invalid("Invalid JSON payload received.");
  }
}

export function checkFields(
  given: unknown,
  fields: Readonly<Record<string, "string" | "object">>,
): Record<string, unknown> {
  if (!isObject(given)) throw invalid("Invalid JSON payload received. Not an object");
  for (const [name, value] of Object.entries(given)) {
    const type = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (type === undefined) throw invalid(`Invalid JSON payload received. Unknown name "${name}": Cannot find field.`);
    if (type === "string" ? typeof value !== "string" : !isObject(value)) throw invalid(`Invalid value at '${name}'`);
  }
  return given;
}

export const invalid = (message: string) => new StatusError("INVALID_ARGUMENT", message);

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
