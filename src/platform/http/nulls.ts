import type * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { isDuration } from "./fields.ts";
import { fieldNamed } from "./unknown-fields.ts";

/*
 * JSON null in bodies of the secrets API, by the type of the field, as upstream reads it (sdk/framework/field_data.go):
 * an empty text, list or map, 0, or false. A null duration is an absent one. In patches null removes a field instead.
 */

const meanings = new WeakMap<z.core.$ZodType, unknown>();

/** A field whose null has another meaning than its type says; undefined: null is an absent field. */
export function nullMeans<Schema extends z.ZodType>(schema: Schema, meaning: unknown): Schema {
  meanings.set(schema, meaning);
  return schema;
}

/** The body with the meanings of its null members. Members of objects inside are absent when they are null. */
export function readNulls(schema: z.core.$ZodType, body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const members = Object.entries(body).map(([name, value]) => {
    const field = fieldNamed(schema, name);
    return [name, value === null ? meaningIn(schema, field) : field ? inside(field, value) : value] as const;
  });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}

/** Fields that a schema passes on unread keep their null. */
const meaningIn = (schema: z.core.$ZodType, field: z.core.$ZodType | undefined): unknown =>
  field ? meaningOf(field) : isLoose(schema) ? null : undefined;

function inside(field: z.core.$ZodType, value: unknown): unknown {
  if (!isPlainObject(value) || !hasFields(field)) return value;
  const members = Object.entries(value).map(([name, member]) => {
    const own = fieldNamed(field, name);
    return [name, own && member === null ? markOf(own) : own ? inside(own, member) : member] as const;
  });
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

function hasFields(schema: z.core.$ZodType): boolean {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === "pipe") return hasFields(def.out) || hasFields(def.in);
  return def.type === "object" || ("innerType" in def && hasFields(def.innerType));
}

function isLoose(schema: z.core.$ZodType): boolean {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return def.type === "object" && def.catchall?._zod.def.type === "unknown";
}

/** The meaning that a field is marked with, also below `optional` and the like. */
function markOf(schema: z.core.$ZodType): unknown {
  if (meanings.has(schema)) return meanings.get(schema);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return "innerType" in def ? markOf(def.innerType) : undefined;
}

function meaningOf(schema: z.core.$ZodType): unknown {
  if (meanings.has(schema)) return meanings.get(schema);
  if (isDuration(schema as z.ZodType)) return undefined;
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "string":
    case "enum":
    case "literal":
      return "";
    case "number":
      return 0;
    case "boolean":
      return false;
    case "array":
      return [];
    case "record":
      return {};
    case "union":
      return def.options[0] && meaningOf(def.options[0]);
    case "pipe":
      return meaningOf(def.out) ?? meaningOf(def.in);
    default:
      return "innerType" in def ? meaningOf(def.innerType) : undefined;
  }
}
