import type { Received } from "../cloud-b/login.ts";

/** An error of the vault, named as on the wire. */
export class VaultError extends Error {
  readonly status: number;
  readonly code: string;
  readonly inner: string | null;
  readonly headers: Record<string, string>;
  constructor(status: number, code: string, message: string, inner: string | null = null, headers = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.inner = inner;
    this.headers = headers;
  }
}

/** One operation with checked parameters. */
export interface Operation {
  /** As the REST reference names it, such as "SetSecret". */
  operation: string;
  /** "" for lists of secrets. */
  name: string;
  /** "" is the current version. */
  version: string;
  body: Record<string, unknown>;
  maxresults: number;
  skiptoken: string | null;
}

/** The versions that the vendor's current client knows, and the one before them. */
const apiVersions = new Set(["7.4", "7.5", "7.6", "2025-07-01", "2026-04-01"]);

/** The access policy's permission for each operation. */
export const permissions: Record<string, string> = {
  SetSecret: "set",
  UpdateSecret: "set",
  GetSecret: "get",
  GetDeletedSecret: "get",
  GetSecrets: "list",
  GetSecretVersions: "list",
  GetDeletedSecrets: "list",
  DeleteSecret: "delete",
  RecoverDeletedSecret: "recover",
  PurgeDeletedSecret: "purge",
};

const routes: readonly [method: string, path: RegExp, operation: string][] = [
  ["GET", /^\/secrets$/, "GetSecrets"],
  ["PUT", /^\/secrets\/(?<name>[^/]+)$/, "SetSecret"],
  ["DELETE", /^\/secrets\/(?<name>[^/]+)$/, "DeleteSecret"],
  ["GET", /^\/secrets\/(?<name>[^/]+)\/versions$/, "GetSecretVersions"],
  ["GET", /^\/secrets\/(?<name>[^/]+)(\/(?<version>[^/]*))?$/, "GetSecret"],
  ["PATCH", /^\/secrets\/(?<name>[^/]+)\/(?<version>[^/]*)$/, "UpdateSecret"],
  ["GET", /^\/deletedsecrets$/, "GetDeletedSecrets"],
  ["GET", /^\/deletedsecrets\/(?<name>[^/]+)$/, "GetDeletedSecret"],
  ["DELETE", /^\/deletedsecrets\/(?<name>[^/]+)$/, "PurgeDeletedSecret"],
  ["POST", /^\/deletedsecrets\/(?<name>[^/]+)\/recover$/, "RecoverDeletedSecret"],
];

const bad = (message: string) => new VaultError(400, "BadParameter", message);

/** The operation and the name that a request is about, unchecked; null when there is no such operation. */
export function routeOf({ method, target }: Received): { operation: string; name: string; version: string } | null {
  const { pathname } = new URL(target, "http://vault");
  for (const [verb, pattern, operation] of routes) {
    const found = verb === method ? pattern.exec(pathname) : null;
    if (found) return { operation, name: found.groups?.["name"] ?? "", version: found.groups?.["version"] ?? "" };
  }
  return null;
}

/** Validates a request except its authentication. @throws VaultError */
export function readOperation(request: Received): Operation {
  const { method, target, headers, body } = request;
  const route = routeOf(request);
  if (route === null) throw new VaultError(404, "NotFound", `There is no ${method} ${target}`);
  const { searchParams } = new URL(target, "http://vault");
  const lists = ["GetSecrets", "GetSecretVersions", "GetDeletedSecrets"].includes(route.operation);
  const allowed = new Set(["api-version", ...(lists ? ["maxresults", "$skiptoken"] : [])]);
  for (const key of searchParams.keys()) {
    if (!allowed.has(key) || searchParams.getAll(key).length > 1) throw bad(`Parameter ${key} is unknown or repeated`);
  }
  if (!apiVersions.has(searchParams.get("api-version") ?? "")) throw bad("api-version must be specified and supported");
  const maxresults = searchParams.get("maxresults") ?? "25";
  if (!/^([1-9]|1\d|2[0-5])$/.test(maxresults)) throw bad(`Invalid maxresults ${maxresults}`);
  if (headers["accept"] !== undefined && !/application\/json|\*\/\*/.test(headers["accept"])) {
    throw new VaultError(406, "NotAcceptable", "Only application/json is served");
  }
  const common = { ...route, maxresults: Number(maxresults), skiptoken: searchParams.get("$skiptoken") };
  if (method !== "PUT" && method !== "PATCH") {
    if (body.length > 0) throw bad("No body is expected");
    return checkOperation({ ...common, body: {} });
  }
  if (!/^application\/json(; ?charset=utf-8)?$/i.test(headers["content-type"] ?? "")) {
    throw new VaultError(415, "UnsupportedMediaType", "The content type must be application/json");
  }
  return checkOperation({ ...common, body: parseObject(body) });
}

/** The rules for names and bodies, for operations that did not come as a request, too. Throws `VaultError`. */
export function checkOperation(given: Operation): Operation {
  const { operation, name, version, body } = given;
  if (!operation.endsWith("ecrets") && !/^[0-9A-Za-z-]{1,127}$/.test(name)) {
    throw bad("The request URI contains an invalid name: it must match ^[0-9a-zA-Z-]{1,127}$");
  }
  if (version !== "" && !/^[\da-f]{32}$/.test(version)) throw bad(`Invalid version ${version}`);
  const rules = operation === "SetSecret" ? { value, ...properties } : operation === "UpdateSecret" ? properties : {};
  checkFields(body, rules);
  if (operation === "SetSecret" && body["value"] === undefined) throw bad("Property value has invalid value");
  return given;
}

/** @throws VaultError for an invalid value; as in the real service, the text may quote it */
type Rule = (value: unknown, field: string) => void;

const text =
  (max: number): Rule =>
  (given, field) => {
    if (typeof given !== "string" || given.length > max) throw bad(`Property ${field} has invalid value '${given}'`);
  };

const value: Rule = (given) => {
  if (typeof given !== "string" || Buffer.byteLength(given) > 25_600) {
    throw bad(`Property value has invalid value '${given}': it must be a text of at most 25600 bytes`);
  }
};

const attributes: Rule = (given) => {
  const time: Rule = (one) => {
    if (!Number.isInteger(one)) throw bad(`Property has invalid value '${one}'`);
  };
  const enabled: Rule = (one) => {
    if (typeof one !== "boolean") throw bad(`Property enabled has invalid value '${one}'`);
  };
  checkFields(given, { enabled, nbf: time, exp: time });
};

const tags: Rule = (given) => {
  const entries = Object.entries(isObject(given) ? given : { "": given });
  if (entries.length > 15) throw bad("There are more than 15 tags");
  for (const [key, one] of entries) {
    if (key === "") throw bad("A tag's name must not be empty");
    text(256)(key, "tags");
    text(256)(one, "tags");
  }
};

const properties: Record<string, Rule> = { contentType: text(255), attributes, tags };

function checkFields(given: unknown, rules: Record<string, Rule>): void {
  if (!isObject(given)) throw bad(`Property has invalid value '${given}'`);
  for (const [field, one] of Object.entries(given)) {
    const rule = Object.hasOwn(rules, field) ? rules[field] : undefined;
    if (rule === undefined) throw bad(`Unknown property ${field}`);
    rule(one, field);
  }
}

const isObject = (given: unknown): given is Record<string, unknown> =>
  typeof given === "object" && given !== null && !Array.isArray(given);

export function parseObject(body: Buffer): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body));
  } catch {
    throw bad("The body is not JSON in UTF-8");
  }
  if (!isObject(parsed)) throw bad("The body must be a JSON object");
  return parsed;
}
