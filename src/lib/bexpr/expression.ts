/** Syntax tree of a filter (docs/internals/wire/nomad.md). */
export type Expression =
  | { readonly is: "and" | "or"; readonly terms: readonly Expression[] }
  | { readonly is: "not"; readonly term: Expression }
  | Match
  | Collection;

/**
 * `==`, `contains`, `matches`, `is empty`, `is nil`; `in` is `contains` with swapped operands, and a negation is an
 * enclosing `not`.
 */
export type Match =
  | { readonly is: "equal" | "contains" | "matches"; readonly selector: Selector; readonly value: string }
  | { readonly is: "empty" | "nil"; readonly selector: Selector };

export interface Collection {
  readonly is: "any" | "all";
  readonly selector: Selector;
  /** Name of a list's element or a map's key; with two names, of index or key, and value. Null = unnamed. */
  readonly names: readonly [string] | readonly [string | null, string | null];
  readonly body: Expression;
}

/** Path to a value: fields, keys, positions. */
export type Selector = readonly string[];
