import * as z from "zod";

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
/** A schema in JSON Schema 2020-12, the dialect of OpenAPI 3.1. */
export type JsonSchema = { readonly [key: string]: Json };

type Writable = Record<string, unknown>;

/** Converts zod schemas to JSON Schema. Schemas with an id (`meta({ id })`) are stored once and referenced. */
export class SchemaWriter {
  readonly #shared = new Map<string, JsonSchema>();

  /** Schema of a request. */
  input(schema: z.ZodType): JsonSchema {
    return this.#convert(schema, "input");
  }

  /** Schema of an answer: objects are closed unless stated otherwise. */
  output(schema: z.ZodType): JsonSchema {
    return this.#convert(schema, "output");
  }

  /** Referenced schemas by name. */
  shared(): Record<string, JsonSchema> {
    return Object.fromEntries([...this.#shared].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #convert(schema: z.ZodType, io: "input" | "output"): JsonSchema {
    const override = ({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: Writable }) => {
      const { in: given, out } = zodSchema._zod.def as { in?: z.core.$ZodType; out?: z.core.$ZodType };
      // A field with several spellings accepts any input; its output schema documents it.
      if (io === "input" && given && out && out._zod.def.type !== "transform" && Object.keys(jsonSchema).length === 0) {
        Object.assign(jsonSchema, z.toJSONSchema(out, { io, unrepresentable: "any", override }));
        delete jsonSchema["$schema"];
      }
      tidy(jsonSchema);
    };
    const written = z.toJSONSchema(schema, { io, unrepresentable: "any", override }) as Writable;
    const { $schema: _dialect, $defs: shared = {}, id: _id, ...rest } = written;
    for (const [name, definition] of Object.entries(shared as Record<string, Writable>)) {
      const { id: _name, ...body } = definition;
      this.#shared.set(name, pointed(body) as JsonSchema);
    }
    return pointed(rest) as JsonSchema;
  }
}

/** Removes bounds that every JavaScript number has, and constraints on string keys. */
function tidy(schema: Writable): void {
  if (schema["maximum"] === Number.MAX_SAFE_INTEGER) delete schema["maximum"];
  if (schema["minimum"] === Number.MIN_SAFE_INTEGER) delete schema["minimum"];
  const names = schema["propertyNames"];
  if (names && JSON.stringify(names) === '{"type":"string"}') delete schema["propertyNames"];
}

/** Rewrites references to the components of the document. */
function pointed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pointed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      key === "$ref" && typeof item === "string" ? item.replace("#/$defs/", "#/components/schemas/") : pointed(item),
    ]),
  );
}
