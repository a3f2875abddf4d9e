/** JSON schemas of the API document as fields of a form. */

export interface JsonSchema {
  readonly title?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

type FieldKind = "text" | "number" | "flag" | "choice" | "texts" | "map" | "group" | "groups" | "json";

/** A schema without null and without alternatives that a form does not tell apart. */
export function plainSchema(schema: JsonSchema): JsonSchema {
  const options = schema.anyOf?.filter(({ type }) => type !== "null");
  if (options && options.length > 0) {
    // A list is preferred to its text form, any other first alternative to the later ones.
    const chosen = options.find(({ type }) => type === "array") ?? options[0];
    const { anyOf: _, ...rest } = schema;
    return plainSchema({ ...chosen, ...rest });
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    const type = ["array", "string"].find((preferred) => types.includes(preferred)) ?? types[0];
    return type === undefined ? schema : { ...schema, type };
  }
  return schema;
}

export function fieldKind(schema: JsonSchema): FieldKind {
  if (schema.enum) return "choice";
  if (schema.type === "string") return "text";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "boolean") return "flag";
  if (schema.type === "array") {
    const item = plainSchema(schema.items ?? {});
    return item.properties ? "groups" : item.type === "string" ? "texts" : "json";
  }
  if (schema.properties) return "group";
  if (schema.type !== "object") return "json";
  const value = typeof schema.additionalProperties === "object" ? plainSchema(schema.additionalProperties) : {};
  return value.type === "string" ? "map" : "json";
}

/** `secret_name_template` and `SecretNameTemplate` as `Secret name template`. */
export function labelOf(name: string): string {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .split(/[_\s]+/)
    .map((word) => (/^[A-Z0-9]{2,}$/.test(word) ? word : word.toLowerCase()))
    .map((word) => ABBREVIATIONS.get(word) ?? word)
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const ABBREVIATIONS = new Map(
  [
    "ID",
    "URL",
    "URI",
    "TTL",
    "ARN",
    "KV",
    "CSI",
    "CAS",
    "OIDC",
    "JWT",
    "JWKS",
    "KMS",
    "CA",
    "PEM",
    "IP",
    "TLS",
    "CIDRs",
    "IDs",
    "IPv4",
    "IPv6",
    "JWTs",
    "URIs",
    "URLs",
    "SPIFFE",
    "GitHub",
    "Azure",
    "AWS",
  ].map((word) => [word.toLowerCase(), word]),
);

const SECRET =
  /(^|_)(password|secret|secret_access_key|access_token|private_key|credentials|client_secret|reviewer_jwt)$|^(Secrets|SecretID)$/;

export const isSecretName = (name: string): boolean => SECRET.test(name);

/** Problems by field, from the service's words (`field: rule`); words that name no field have the key "". */
export function fieldProblems(messages: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const message of messages) {
    const [, field = "", rule = message] = /^([\w.[\]-]+): (.+)$/s.exec(message) ?? [];
    found[field] ??= rule;
  }
  return found;
}
