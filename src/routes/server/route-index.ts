/**
 * Narrows a list of route patterns to those that may match a path, by the literal text of its first two segments. Keeps
 * the order of the list. A look-up costs two map reads, so the size of a table adds nothing to a request.
 */
export class RouteIndex<T extends { readonly path: string }> {
  /** By first segment; `OTHER` for a segment that no pattern spells out. */
  readonly #byFirst: ReadonlyMap<string, ReadonlyMap<string, readonly T[]>>;

  /** @param all each with its path in itty-router's notation */
  constructor(private readonly all: readonly T[]) {
    this.#byFirst = grouped(all, 0, (some) => grouped(some, 1, (few) => few));
  }

  /** The patterns that may match an encoded path. */
  candidates(path: string): readonly T[] {
    // Empty segments are never routed; a pattern decides about them.
    if (path.includes("//")) return this.all;
    const end = path.indexOf("/", 1);
    const first = end < 0 ? path.slice(1) : path.slice(1, end);
    const next = end < 0 ? -1 : path.indexOf("/", end + 1);
    const second = end < 0 ? "" : path.slice(end + 1, next < 0 ? undefined : next);
    const bySecond = this.#byFirst.get(first) ?? this.#byFirst.get(OTHER);
    return bySecond?.get(second) ?? bySecond?.get(OTHER) ?? [];
  }
}

/** No segment of an encoded path: it holds a slash. */
const OTHER = "/";

/** Each literal segment at a position, with the patterns that spell it out or leave it open. */
function grouped<T extends { readonly path: string }, G>(
  all: readonly T[],
  position: number,
  group: (some: readonly T[]) => G,
): ReadonlyMap<string, G> {
  const literals = new Set(all.map(({ path }) => literalAt(path, position)));
  const matching = (segment: string | null) =>
    all.filter(({ path }) => [segment, null].includes(literalAt(path, position)));
  return new Map([...literals].map((literal) => [literal ?? OTHER, group(matching(literal))] as const)).set(
    OTHER,
    group(matching(null)),
  );
}

/** The text of a segment that a pattern spells out; null where it has a parameter, or may have one before. */
function literalAt(path: string, position: number): string | null {
  const segments = path.split("/").slice(1);
  const isOpen = segments.slice(0, position + 1).some((segment) => !/^[\w.~-]*$/.test(segment));
  return isOpen ? null : (segments[position] ?? "");
}
