import type * as z from "zod";
import { isPlainObject } from "../../lib/json.ts";
import { isCaseless } from "./fields.ts";

/*
 * Fields of request bodies that a route does not read. The secrets API answers with a warning, the cluster API with a
 * refusal: an accepted field has an effect, or is stored and shown. Schemas are read once; a body costs one look-up per
 * field.
 */

/** The fields of a schema, each with its nested fields; null where any field is accepted. */
interface Known {
  /** Names as compared: in lower case where case is ignored. */
  readonly names: ReadonlyMap<string, Known | null>;
  readonly caseless: boolean;
  /** The names as written. */
  readonly spelt?: readonly string[];
}

/** A field that no schema reads, by its path, and a similar known one. */
export interface UnknownField {
  readonly name: string;
  readonly meant: string | null;
}

const internalSchemas = new WeakSet<z.core.$ZodType>();
const aliases = new WeakMap<z.core.$ZodType, Readonly<Record<string, string>>>();

/** Marks a field that a schema adds itself: callers cannot set it. */
export function internal<Schema extends z.ZodType>(schema: Schema): Schema {
  internalSchemas.add(schema);
  return schema;
}

/** Names accepted beside the schema's own fields. @param names each with the field that it names */
export function withAliases<Schema extends z.ZodType>(schema: Schema, names: Readonly<Record<string, string>>): Schema {
  aliases.set(schema, names);
  return schema;
}

/** The schema of a field; undefined for a name that the schema does not read. */
export function fieldNamed(schema: z.core.$ZodType, name: string): z.core.$ZodType | undefined {
  const field = aliases.get(schema)?.[name] ?? name;
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === "object") return Object.hasOwn(def.shape, field) ? def.shape[field] : undefined;
  if (def.type === "pipe") return fieldNamed(def.out, field) ?? fieldNamed(def.in, field);
  return "innerType" in def ? fieldNamed(def.innerType, field) : undefined;
}

const remembered = new WeakMap<z.core.$ZodType, Known | null>();

/** The fields of a schema; null when it accepts any, or is not an object. */
export function knownFields(schema: z.core.$ZodType): Known | null {
  const before = remembered.get(schema);
  if (before !== undefined) return before;
  const known = withMarks(schema, read(schema));
  remembered.set(schema, known);
  return known;
}

function withMarks(schema: z.core.$ZodType, known: Known | null): Known | null {
  if (known === null) return null;
  const more = Object.keys(aliases.get(schema) ?? {});
  if (!isCaseless(schema) && more.length === 0) return known;
  const caseless = known.caseless || isCaseless(schema);
  const compared = (name: string) => (caseless ? name.toLowerCase() : name);
  const names = [...known.names, ...more.map((name): [string, null] => [name, null])];
  const spelt = [...(known.spelt ?? known.names.keys()), ...more];
  return { caseless, names: new Map(names.map(([name, inside]) => [compared(name), inside])), spelt };
}

function read(schema: z.core.$ZodType): Known | null {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object": {
      if (def.catchall !== undefined && def.catchall._zod.def.type === "unknown") return null;
      const fields = Object.entries(def.shape).filter(([, field]) => !isInternal(field));
      return { caseless: false, names: new Map(fields.map(([name, field]) => [name, knownFields(field)])) };
    }
    case "pipe":
      return knownFields(def.out) ?? knownFields(def.in);
    case "array":
      return knownFields(def.element);
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "catch":
    case "readonly":
      return knownFields(def.innerType);
    default:
      return null;
  }
}

/** Whether callers cannot set a field. */
export const isInternal = (schema: z.core.$ZodType): boolean => {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  return internalSchemas.has(schema) || ("innerType" in def && isInternal(def.innerType));
};

/** Further fields are neither counted nor reported. */
const MAX_REPORTED = 20;

/** The fields of a body that its schema does not read. Null means an omitted field. */
export function unknownFields(known: Known | null, body: unknown, at = ""): UnknownField[] {
  if (known === null) return [];
  if (Array.isArray(body)) return body.flatMap((item) => unknownFields(known, item, at)).slice(0, MAX_REPORTED);
  if (!isPlainObject(body)) return [];
  const found: UnknownField[] = [];
  for (const [name, value] of Object.entries(body)) {
    if (value === null || found.length >= MAX_REPORTED) continue;
    const inside = known.names.get(known.caseless ? name.toLowerCase() : name);
    if (inside === undefined) found.push({ name: `${at}${shortened(name)}`, meant: nearest(name, known) });
    else found.push(...unknownFields(inside, value, `${at}${name}.`));
  }
  return found.slice(0, MAX_REPORTED);
}

const MAX_NAME_LENGTH = 100;
const shortened = (name: string): string => name.slice(0, MAX_NAME_LENGTH).replace(/\p{Cc}/gu, " ");

/**
 * The known field of which a name may be a misspelling: another case or separator, or up to one differing letter in
 * three.
 */
const nearest = (name: string, { names, spelt = [...names.keys()] }: Known): string | null => nearestOf(name, spelt);

/** The known name of which another one may be a misspelling, by the same rule. */
export function nearestOf(name: string, spelt: readonly string[]): string | null {
  if (name.length > MAX_NAME_LENGTH) return null;
  const bare = (text: string) => text.toLowerCase().replaceAll(/[_-]/g, "");
  const most = Math.floor(name.length / 3);
  const near = spelt.map((known) => [known, distance(bare(name), bare(known))] as const);
  const [best] = near.filter(([, edits]) => edits <= most).sort(([, one], [, other]) => one - other);
  return best?.[0] ?? null;
}

/** Edit distance: letters to insert, delete or replace to turn one text into the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [above, letter] of [...one].entries()) {
    const next = [above + 1];
    for (let at = 1; at <= other.length; at++) {
      const replaced = (row[at - 1] ?? 0) + (letter === other[at - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[at] ?? 0) + 1, (next[at - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}

/** Warnings for fields without effect, in upstream's wording, with similar known names. */
export function ignored(unknown: readonly UnknownField[]): string[] {
  if (unknown.length === 0) return [];
  const names = unknown.map(({ name }) => name).sort();
  const guesses = unknown.flatMap(({ name, meant }) => (meant === null ? [] : [`${name}: did you mean ${meant}?`]));
  return [`Endpoint ignored these unrecognized parameters: [${names.join(" ").slice(0, 512)}]`, ...guesses];
}

/** The refusal text for the same fields. */
export const unknownFieldsText = (unknown: readonly UnknownField[]): string =>
  unknown
    .map(
      ({ name, meant }) => `unknown field ${JSON.stringify(name)}${meant === null ? "" : `; did you mean ${meant}?`}`,
    )
    .join("; ");
