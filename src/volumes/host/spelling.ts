import type * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";

/** Accepted spellings of a schema's fields, by lower-case name. */
interface Spelling {
  readonly names: ReadonlyMap<string, string>;
  readonly inside: Readonly<Record<string, Spelling>>;
}

/** @param aliases further names, in lower case and without underscores */
export const spelling = (
  schema: z.ZodObject,
  inside: Readonly<Record<string, Spelling>> = {},
  aliases: Readonly<Record<string, string>> = {},
): Spelling => ({
  names: new Map([
    ...Object.keys(schema.shape).map((name): [string, string] => [name.toLowerCase(), name]),
    ...Object.entries(aliases),
  ]),
  inside,
});

/** Collects warnings and faults of a normalization. */
export interface Guesses {
  readonly warnings: string[];
  readonly faults: string[];
}

/** Renames fields to their canonical spelling, regardless of case and underscores; drops null fields. */
export function respelt(value: unknown, by: Spelling, at: string, guesses: Guesses): unknown {
  if (Array.isArray(value)) return value.map((item, index) => respelt(item, by, `${at}${index}.`, guesses));
  if (!isPlainObject(value)) return value;
  const found = new Map<string, unknown>();
  for (const [written, item] of Object.entries(value)) {
    const name = by.names.get(written.toLowerCase()) ?? by.names.get(written.toLowerCase().replaceAll("_", ""));
    const field = name ?? written;
    if (found.has(field)) guesses.faults.push(`${at}${field}: is given twice`);
    if (name !== undefined && written.includes("_")) guesses.warnings.push(`${at}${written} was read as ${name}`);
    if (item === null) continue;
    const inside = name === undefined ? undefined : by.inside[name];
    found.set(field, inside ? respelt(item, inside, `${at}${field}.`, guesses) : item);
  }
  return Object.fromEntries(found);
}
