import * as z from "zod";
import * as kind from "../../lib/bexpr/kinds.ts";
import { integer } from "../reports/topics/fields.ts";
import { givenNode } from "./fields.ts";

/** The node fields that a filter expression can name: those of a report, which has no secret, the id and the indexes. */
export const nodeFields = kind.struct({
  ID: kind.string,
  ...fieldsOf(givenNode),
  CreateIndex: kind.integer,
  ModifyIndex: kind.integer,
});

function fieldsOf({ shape }: z.ZodObject): Readonly<Record<string, kind.Kind>> {
  return Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, kindOf(schema as z.ZodType)]));
}

/** The kind of a field by its schema: `any` for what the schema does not describe. */
function kindOf(schema: z.ZodType): kind.Kind {
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) return kindOf(schema.unwrap() as z.ZodType);
  if (schema instanceof z.ZodUnion) return kindOf(schema.options[0] as z.ZodType);
  if (schema instanceof z.ZodBoolean) return kind.boolean;
  if (schema instanceof z.ZodNumber || schema === integer) return kind.integer;
  if (schema instanceof z.ZodObject) {
    const fields = fieldsOf(schema);
    return Object.values(fields).every((field) => field.kind === "any") ? kind.any : kind.struct(fields);
  }
  if (schema instanceof z.ZodArray) return ofMany(kind.list, schema.element as z.ZodType);
  if (schema instanceof z.ZodRecord) return ofMany(kind.map, schema.valueType as z.ZodType);
  return kind.string;
}

function ofMany(many: (of: kind.Kind) => kind.Kind, each: z.ZodType): kind.Kind {
  return each instanceof z.ZodUnknown ? kind.any : many(kindOf(each));
}
