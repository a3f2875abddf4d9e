/** TypeScript types of the API's requests and responses, generated from the OpenAPI document for the web console. */

/** The part of JSON Schema that the document uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly description?: string;
}

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

interface Operation {
  /** The right that it needs, such as `node:read`. */
  readonly "x-sallyport-right"?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
  };
}

/**
 * Source text of `Schemas` (by component name) and `Api` (by `VERB path`, where a path with a trailing slash is a
 * LIST).
 */
export function apiTypes(api: ApiDocument): string {
  const schemas = Object.entries(api.components.schemas).map(([name, schema]) => `  ${name}: ${typeOf(schema)};`);
  const operations = Object.entries(api.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method !== "parameters")
      .map(([method, operation]) => `  ${JSON.stringify(keyOf(method, path))}: ${operationType(api, operation)};`),
  );
  return [
    "/* Written by scripts/api-types.ts from docs/openapi.json. */",
    `export interface Schemas {\n${schemas.join("\n")}\n}`,
    `export interface Api {\n${operations.join("\n")}\n}`,
    "",
  ].join("\n");
}

/** The JSON schema of an operation's request body, without references. @throws Error when there is none */
export function bodySchema(api: ApiDocument, key: string): Schema {
  for (const [path, item] of Object.entries(api.paths))
    for (const [method, operation] of Object.entries(item))
      if (keyOf(method, path) === key) {
        const schema = operation.requestBody?.content["application/json"]?.schema;
        if (schema) return resolved(api, schema);
      }
  throw new Error(`docs/openapi.json has no body for ${key}`);
}

const keyOf = (method: string, path: string): string =>
  path.endsWith("/") && method === "get" ? `LIST ${path.slice(0, -1)}` : `${method.toUpperCase()} ${path}`;

function operationType(api: ApiDocument, { parameters = [], requestBody, responses }: Operation): string {
  const query = parameters
    .map((parameter) => (parameter.$ref ? api.components.parameters[nameOf(parameter.$ref)] : parameter))
    .filter((parameter) => parameter?.in === "query" && parameter.name !== "list")
    .map((parameter) => `${JSON.stringify(parameter?.name)}?: ${typeOf(parameter?.schema ?? {})}`);
  const bodies = Object.values(requestBody?.content ?? {}).map(({ schema }) => typeOf(schema ?? {}));
  const answers = ["200", "202"].flatMap((status) => {
    const schema = responses[status]?.content?.["application/json"]?.schema;
    return schema ? [typeOf(schema)] : [];
  });
  if (responses["204"]) answers.push("null");
  return `{ query: { ${query.join("; ")} }; body: ${union(bodies, "undefined")}; answer: ${union(answers, "unknown")} }`;
}

const union = (types: readonly string[], none: string): string =>
  types.length === 0 ? none : [...new Set(types)].join(" | ");

function typeOf(schema: Schema): string {
  if (schema.$ref) return `Schemas[${JSON.stringify(nameOf(schema.$ref))}]`;
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum)
    return union(
      schema.enum.map((value) => JSON.stringify(value)),
      "never",
    );
  if (schema.anyOf) return `(${union(schema.anyOf.map(typeOf), "never")})`;
  if (schema.allOf) {
    // Members of the schema override those of its bases.
    const own = Object.keys(schema.properties ?? {}).map((name) => JSON.stringify(name));
    const bases = schema.allOf.map((base) =>
      own.length > 0 ? `Omit<${typeOf(base)}, ${own.join(" | ")}>` : typeOf(base),
    );
    const required = Object.keys(schema.properties ?? {});
    return [...bases, objectType({ ...schema, required })].join(" & ");
  }
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  return union(
    types.map((type) => simpleType(type, schema)),
    "unknown",
  );
}

function simpleType(type: string, schema: Schema): string {
  if (type === "integer" || type === "number") return "number";
  if (type === "array") return `(${typeOf(schema.items ?? {})})[]`;
  if (type === "object") return objectType(schema);
  return type;
}

function objectType({ properties, required = [], additionalProperties }: Schema): string {
  if (!properties)
    return `Record<string, ${typeof additionalProperties === "object" ? typeOf(additionalProperties) : "unknown"}>`;
  const members = Object.entries(properties).map(
    ([name, schema]) => `${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema)}`,
  );
  return `{ ${members.join("; ")} }`;
}

const nameOf = (ref: string): string => ref.split("/").at(-1) ?? "";

/** References become their targets, once on each path: a recursive schema ends as any value. */
function resolved(api: ApiDocument, schema: Schema, seen: readonly string[] = []): Schema {
  const visit = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) return value.map((item) => visit(item, path));
    if (typeof value !== "object" || value === null) return value;
    const ref = (value as Schema).$ref;
    if (typeof ref === "string") {
      const name = nameOf(ref);
      return path.includes(name) ? {} : visit(api.components.schemas[name] ?? {}, [...path, name]);
    }
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, visit(member, path)]));
  };
  return visit(schema, seen) as Schema;
}
