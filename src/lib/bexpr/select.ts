import { isRaw } from "../json.ts";
import { FilterError } from "./errors.ts";
import type { Selector } from "./expression.ts";
import type { Kind } from "./kinds.ts";

/** A name that a selector can begin with: its kind, and where its value is while a row is looked at. */
export interface Bound {
  /** Null for the row itself, whose fields are named directly. */
  readonly name: string | null;
  readonly kind: Kind;
  readonly slot: number;
}

/** The values that names stand for while a row is looked at, by slot. */
export type Values = unknown[];

/** A selector whose every part is known to exist, as far as that can be known without a row. */
export interface Selected {
  readonly kind: Kind;
  /** The value; undefined when there is none on the way, or it is null. */
  of(values: Values): unknown;
}

/** @throws FilterError when a selector names what no row has */
export function select(selector: Selector, scope: readonly Bound[]): Selected {
  const bound = scope.findLast(({ name }) => name === selector[0]) ?? scope[0];
  if (bound === undefined) throw new Error("a scope without a row");
  const path = bound.name === null ? selector : selector.slice(1);
  let { kind } = bound;
  for (const [at, part] of path.entries()) kind = below(kind, part, selector, at + selector.length - path.length);
  const { slot } = bound;
  return { kind, of: (values) => walk(values[slot], path) };
}

/** What a part of a path leads to. */
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
    // Own members only; `length` of a list is none of them to a filter.
    const known = typeof value === "object" && value !== null && Object.hasOwn(value, part);
    if (!known || (Array.isArray(value) && !/^\d+$/.test(part))) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return plain(value ?? undefined);
}

/** A number that was carried as it was written, as a number. */
export const plain = (value: unknown): unknown =>
  typeof value === "object" && value !== null && isRaw(value) ? Number(value.rawJSON) : value;
