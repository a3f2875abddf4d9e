interface Held<E> {
  readonly entry: E;
  readonly size: number;
  readonly group: string;
}

/** Entries by name, the one whose last use is the oldest first, and their characters. */
interface Pool<E> {
  readonly entries: Map<string, Held<E>>;
  characters: number;
}

const newPool = <E>(): Pool<E> => ({ entries: new Map(), characters: 0 });

/**
 * A memory of bounded size that drops the entries whose last use is the oldest. Absent things have a bound of their own,
 * so that a flood of unknown names does not drive out what is there.
 */
export class BoundedEntries<E> {
  readonly #present = newPool<E>();
  readonly #absent = newPool<E>();
  /** Names of entries by group, so that a group can be dropped without a walk. */
  readonly #groups = new Map<string, Set<string>>();

  /**
   * @param bounds characters of present entries with their names, and again of absent ones, and the number of absent
   * ones
   */
  constructor(private readonly bounds: { readonly characters: number; readonly absent: number }) {}

  get size(): { readonly characters: number; readonly present: number; readonly absent: number } {
    const { entries, characters } = this.#present;
    return { characters, present: entries.size, absent: this.#absent.entries.size };
  }

  /** An entry, which counts as a use. */
  get(name: string): E | undefined {
    const { entries } = this.#poolOf(name);
    const held = entries.get(name);
    if (!held) return undefined;
    entries.delete(name);
    entries.set(name, held);
    return held.entry;
  }

  /** @param group entries that are dropped together */
  set(
    name: string,
    entry: E,
    { absent, size, group }: { readonly absent: boolean; readonly size: number; readonly group: string },
  ): void {
    this.delete(name);
    const held = { entry, size: size + name.length, group };
    const [pool, most] = absent ? [this.#absent, this.bounds.absent] : [this.#present, Number.POSITIVE_INFINITY];
    // A present entry beyond the bound would drop all others first.
    if (!absent && held.size > this.bounds.characters) return;
    pool.entries.set(name, held);
    this.#join(name, group);
    pool.characters += held.size;
    while (pool.entries.size > most || pool.characters > this.bounds.characters) this.#drop(pool.entries);
  }

  delete(name: string): void {
    const pool = this.#poolOf(name);
    const held = pool.entries.get(name);
    if (!held) return;
    pool.characters -= held.size;
    pool.entries.delete(name);
    const group = this.#groups.get(held.group);
    group?.delete(name);
    if (group?.size === 0) this.#groups.delete(held.group);
  }

  /** Drops the entries of a group that are `stale`. */
  deleteGroup(group: string, stale: (entry: E) => boolean): void {
    for (const name of this.#groups.get(group) ?? []) {
      const held = this.#poolOf(name).entries.get(name);
      if (held && stale(held.entry)) this.delete(name);
    }
  }

  clear(): void {
    for (const pool of [this.#present, this.#absent]) {
      pool.entries.clear();
      pool.characters = 0;
    }
    this.#groups.clear();
  }

  /** A name is in one pool at most. */
  #poolOf(name: string): Pool<E> {
    return this.#present.entries.has(name) ? this.#present : this.#absent;
  }

  #join(name: string, group: string): void {
    const names = this.#groups.get(group);
    if (names) names.add(name);
    else this.#groups.set(group, new Set([name]));
  }

  #drop(entries: ReadonlyMap<string, unknown>): void {
    const [oldest] = entries.keys();
    if (oldest !== undefined) this.delete(oldest);
  }
}
