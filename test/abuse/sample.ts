import * as z from "zod";

/** The subset of JSON Schema that request bodies here use. */
interface Shape {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
}

const shapeOf = (schema: z.ZodType): Shape => z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Shape;

/** The fields that a schema names. */
export const fieldsOf = (schema: z.ZodType): string[] => Object.keys(shapeOf(schema).properties ?? {});

/**
 * A body that a schema should take: each field that it asks for, and each that there is a hint for.
 * @param hints values of fields that must lead to something
 */
export function sampleOf(schema: z.ZodType, hints: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { properties = {}, required = [] } = shapeOf(schema);
  const given = Object.entries(properties).filter(([name]) => required.includes(name) || Object.hasOwn(hints, name));
  return Object.fromEntries(given.map(([name, shape]) => [name, hints[name] ?? something(shape)]));
}

function something(shape: Shape): unknown {
  if (shape.const !== undefined) return shape.const;
  if (shape.enum) return shape.enum[0];
  if (shape.anyOf?.[0]) return something(shape.anyOf[0]);
  switch ([shape.type].flat()[0]) {
    case "object":
      return Object.fromEntries(
        (shape.required ?? []).map((name) => [name, something(shape.properties?.[name] ?? {})]),
      );
    case "array":
      return [];
    case "integer":
    case "number":
      return shape.minimum ?? 1;
    case "boolean":
      return false;
    default:
      return "n";
  }
}
