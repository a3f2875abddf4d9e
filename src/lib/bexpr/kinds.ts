/*
 * What a filter may name: the fields of a record and what they hold. A list's secrets are simply not among them. To be
 * imported as `* as kind`.
 */

/** What a field holds. Whatever its kind, it may be absent or null. */
export type Kind =
  | { readonly kind: "string" | "integer" | "number" | "boolean" | "any" }
  | { readonly kind: "list" | "map"; readonly of: Kind }
  | { readonly kind: "struct"; readonly fields: Readonly<Record<string, Kind>> };

export const string: Kind = { kind: "string" };
/** 64 bits, signed. */
export const integer: Kind = { kind: "integer" };
export const number: Kind = { kind: "number" };
export const boolean: Kind = { kind: "boolean" };
/** Told by each value itself: for records, or parts of them, that keep fields which nobody here knows. */
export const any: Kind = { kind: "any" };
export const list = (of: Kind): Kind => ({ kind: "list", of });
/** An object whose keys are data. */
export const map = (of: Kind): Kind => ({ kind: "map", of });
/** An object whose keys are fields. */
export const struct = (fields: Readonly<Record<string, Kind>>): Kind => ({ kind: "struct", fields });
/** The record that a list is of; only its own fields can be named. */
export const record = <Row>(fields: { readonly [Name in keyof Row & string]?: Kind }): Kind =>
  struct(fields as Readonly<Record<string, Kind>>);
