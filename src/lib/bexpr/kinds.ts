/*
 * Types for filters: the fields of a record and their kinds. Secret fields are simply omitted. To be imported as `* as
 * kind`.
 */

/** Kind of a field. Any field may be absent or null. */
export type Kind =
  | { readonly kind: "string" | "integer" | "number" | "boolean" | "any" }
  | { readonly kind: "list" | "map"; readonly of: Kind }
  | { readonly kind: "struct"; readonly fields: Readonly<Record<string, Kind>> };

export const string: Kind = { kind: "string" };
/** 64 bits, signed. */
export const integer: Kind = { kind: "integer" };
export const number: Kind = { kind: "number" };
export const boolean: Kind = { kind: "boolean" };
/** Determined by each value: for records, or parts of them, with fields unknown to the service. */
export const any: Kind = { kind: "any" };
export const list = (of: Kind): Kind => ({ kind: "list", of });
/** An object with data as keys. */
export const map = (of: Kind): Kind => ({ kind: "map", of });
/** An object with fixed fields. */
export const struct = (fields: Readonly<Record<string, Kind>>): Kind => ({ kind: "struct", fields });
/** The record of a list; only its own fields can be selected. */
export const record = <Row>(fields: { readonly [Name in keyof Row & string]?: Kind }): Kind =>
  struct(fields as Readonly<Record<string, Kind>>);
