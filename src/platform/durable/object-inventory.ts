import type { KnownPage, ObjectKind } from "./object-kinds.ts";

/** Objects of one kind, by the names that a query gives; it has an index by them. */
export interface Source {
  readonly kind: ObjectKind;
  /** Selects `name`. */
  readonly from: string;
}

const PAGE = 1_000;

/** A page of the objects that an object's tables name, source by source. Some may come twice. */
export function knownPage(sql: SqlStorage, sources: readonly Source[], after: string): KnownPage {
  const [position = "0", ...behind] = after.split(" ");
  const at = Number(position);
  const source = sources[at];
  if (!source) return { objects: [], next: null };
  const names = sql
    .exec<{ name: string }>(
      `SELECT name FROM (${source.from}) WHERE name > ? ORDER BY name LIMIT ?`,
      behind.join(" "),
      PAGE,
    )
    .toArray()
    .map(({ name }) => name);
  const last = names.length < PAGE ? undefined : names.at(-1);
  const next = last === undefined ? `${at + 1} ` : `${at} ${last}`;
  const isLast = last === undefined && at + 1 >= sources.length;
  return { objects: names.map((name) => ({ kind: source.kind, name })), next: isLast ? null : next };
}
