/** What a parsed filter says (docs/internals/wire/nomad.md). */
export type Expression =
  | { readonly is: "and" | "or"; readonly terms: readonly Expression[] }
  | { readonly is: "not"; readonly term: Expression }
  | Match
  | Collection;

/** `==`, `contains`, `matches`, `is empty`, `is nil`; `in` is `contains` from the other side, and a negation is a `not` around it. */
export type Match =
  | { readonly is: "equal" | "contains" | "matches"; readonly selector: Selector; readonly value: string }
  | { readonly is: "empty" | "nil"; readonly selector: Selector };

export interface Collection {
  readonly is: "any" | "all";
  readonly selector: Selector;
  /** Names of the element of a list or the key of a map; with two, of the index or key, and the value. Null = not named. */
  readonly names: readonly [string] | readonly [string | null, string | null];
  readonly body: Expression;
}

/** The way to a value: names of fields, keys, positions. */
export type Selector = readonly string[];
