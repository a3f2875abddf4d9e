/** JSON schemas of which the documents of doubles are made. */

export const text = { type: "string" };
export const flag = { type: "boolean" };
export const integer = { type: "integer" };
export const nullable = { type: ["string", "null"] };
export const list = (items: object) => ({ type: "array", items });

/** An object without other members. */
export const object = (properties: object, required: readonly string[] = []) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
