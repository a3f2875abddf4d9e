import type * as z from "zod";
import { isDuration } from "../src/platform/http/fields.ts";

/** Walks over schemas of request bodies, for tests about all routes. */

/** The schemas that one is made of. */
function inside(schema: z.core.$ZodType): z.core.$ZodType[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "pipe":
      return [def.in, def.out];
    case "union":
      return [...def.options];
    case "array":
      return [def.element];
    case "record":
      return [def.valueType];
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "catch":
    case "readonly":
      return [def.innerType];
    default:
      return [];
  }
}

/** Whether a field holds a length of time. */
export const holdsDuration = (schema: z.core.$ZodType): boolean =>
  isDuration(schema as z.ZodType) || inside(schema).some(holdsDuration);

export interface Field {
  readonly name: string;
  readonly schema: z.core.$ZodType;
}

/** Every field that a schema has, however deep: `config.max_lease_ttl`. */
export function schemaFields(schema: z.core.$ZodType, within = ""): Field[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type !== "object") return inside(schema).flatMap((part) => schemaFields(part, within));
  return Object.entries(def.shape).flatMap(([key, field]) => {
    const name = within === "" ? key : `${within}.${key}`;
    return [{ name, schema: field }, ...schemaFields(field, name)];
  });
}
