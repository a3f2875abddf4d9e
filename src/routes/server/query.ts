import type * as z from "zod";
import { invalid } from "../../platform/http/errors.ts";
import { isRepeatable } from "../../platform/http/query-fields.ts";

/** The values of each schema without any parameter. */
const withoutParameters = new WeakMap<z.ZodObject, unknown>();

/**
 * The parameters of a query that a route's schema names; of repeated ones the first, unless the
 * schema has all, and others are ignored. A request without them costs no parse.
 * @throws RequestError 400
 */
export function parseQuery<Schema extends z.ZodObject>(schema: Schema, query: URLSearchParams): z.output<Schema> {
  const given: Record<string, string | string[]> = {};
  let isEmpty = true;
  for (const name in schema.shape) {
    const value = query.get(name);
    if (value === null) continue;
    given[name] = isRepeatable(schema.shape[name] ?? schema) ? query.getAll(name) : value;
    isEmpty = false;
  }
  const known = isEmpty ? withoutParameters.get(schema) : undefined;
  if (known !== undefined) return known as z.output<Schema>;
  const parsed = schema.safeParse(given);
  if (!parsed.success) throw invalid(parsed.error);
  if (isEmpty) withoutParameters.set(schema, parsed.data);
  return parsed.data;
}
