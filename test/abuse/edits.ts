/** Bodies with one thing changed, as JSON: some of what goes in cannot be written as a value. */

export type Path = readonly string[];

/** Every place in a JSON value, but the whole of it. */
export function pathsIn(value: unknown, at: Path): Path[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [[...at, key], ...pathsIn(inner, [...at, key])]);
}

const MARK = "\u0000here\u0000";

/** The value as JSON, with other JSON at a place; null takes the place away. */
export function edited(value: unknown, path: Path, json: string | null): string {
  const copy = structuredClone(value ?? {});
  const parent = parentOf(copy, path);
  const key = path.at(-1) ?? "";
  if (json === null && !Array.isArray(parent)) delete parent[key];
  else parent[key] = json === null ? null : MARK;
  return JSON.stringify(copy).replace(JSON.stringify(MARK), () => json ?? "null");
}

/** The same key a second time, with another value. */
export function twice(value: unknown, path: Path, json: string): string {
  const key = JSON.stringify(path.at(-1) ?? "");
  const copy = structuredClone(value ?? {});
  const parent = parentOf(copy, path);
  if (Array.isArray(parent)) return JSON.stringify(copy);
  parent[MARK] = 0;
  return JSON.stringify(copy).replace(`${JSON.stringify(MARK)}:0`, () => `${key}:${json}`);
}

export function respelt(value: unknown, path: Path): string {
  const key = path.at(-1) ?? "";
  const copy = structuredClone(value ?? {});
  const parent = parentOf(copy, path);
  if (!Array.isArray(parent)) {
    parent[key.toUpperCase() === key ? key.toLowerCase() : key.toUpperCase()] = parent[key];
    delete parent[key];
  }
  return JSON.stringify(copy);
}

function parentOf(value: unknown, path: Path): Record<string, unknown> {
  let at = value as Record<string, unknown>;
  for (const key of path.slice(0, -1)) {
    const inner = at[key];
    if (typeof inner !== "object" || inner === null) at[key] = {};
    at = at[key] as Record<string, unknown>;
  }
  return at;
}

export function withMany(value: unknown): string {
  const more = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`unknown_${at}`, at]));
  return JSON.stringify({ ...(value as object), ...more });
}
