import { isRaw } from "../json.ts";
import { FilterError } from "./errors.ts";
import type { Selector } from "./expression.ts";
import type { Kind } from "./kinds.ts";

/** A name at the start of a selector: its kind, and the slot of its value during evaluation. */
export interface Bound {
  /** Null for the row itself, whose fields are selected directly. */
  readonly name: string | null;
  readonly kind: Kind;
  readonly slot: number;
}

/** Values of bound names during evaluation, by slot. */
export type Values = unknown[];

/** A selector checked against the kinds as far as possible without a row. */
export interface Selected {
  readonly kind: Kind;
  /** The value; undefined when a part is missing or null. */
  of(values: Values): unknown;
}

/** @throws FilterError for a selector that no row has */
export function select(selector: Selector, scope: readonly Bound[]): Selected {
  const bound = scope.findLast(({ name }) => name === selector[0]) ?? scope[0];
  if (bound === undefined) throw new Error("a scope without a row");
  const path = bound.name === null ? selector : selector.slice(1);
  let { kind } = bound;
  for (const [at, part] of path.entries()) kind = below(kind, part, selector, at + selector.length - path.length);
  const { slot } = bound;
  return { kind, of: (values) => walk(values[slot], path) };
}

/** The kind of a part of a path. */
function below(kind: Kind, part: string, selector: Selector, at: number): Kind {
  const refuse = (why: string) => {
    const path = selector.map((each) => `/${each.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
    return new FilterError(`failed to read result page: error finding value in datum: ${path} at part ${at}: ${why}`);
  };
  switch (kind.kind) {
    case "any":
      return kind;
    case "map":
      return kind.of;
    case "list":
      if (!/^\d{1,9}$/.test(part)) throw refuse(`couldn't convert ${JSON.stringify(part)} to an index`);
      return kind.of;
    case "struct": {
      const field = Object.hasOwn(kind.fields, part) ? kind.fields[part] : undefined;
      if (field === undefined) throw refuse(`couldn't find struct field with name ${JSON.stringify(part)}`);
      return field;
    }
    default:
      throw refuse(`invalid value kind: ${kind.kind}`);
  }
}

function walk(start: unknown, path: Selector): unknown {
  let value = start;
  for (const part of path) {
    // Own members only; a list's `length` is not selectable.
    const known = typeof value === "object" && value !== null && Object.hasOwn(value, part);
    if (!known || (Array.isArray(value) && !/^\d+$/.test(part))) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return plain(value ?? undefined);
}

/** Converts a verbatim number to a number. */
export const plain = (value: unknown): unknown =>
  typeof value === "object" && value !== null && isRaw(value) ? Number(value.rawJSON) : value;
