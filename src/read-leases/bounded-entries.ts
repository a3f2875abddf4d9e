interface Held<E> {
  readonly entry: E;
  readonly size: number;
  readonly group: string;
}

/**
 * A memory of bounded size that drops the entries whose last use is the oldest. Absent things have a bound of their own,
 * so that a flood of unknown names does not drive out what is there.
 */
export class BoundedEntries<E> {
  readonly #present = new Map<string, Held<E>>();
  readonly #absent = new Map<string, Held<E>>();
  /** Names of entries by group, so that a group can be dropped without a walk. */
  readonly #groups = new Map<string, Set<string>>();
  #characters = 0;
  #absentCharacters = 0;

  /**
   * @param bounds characters of present entries with their names, and again of absent ones, and the number of absent
   * ones
   */
  constructor(private readonly bounds: { readonly characters: number; readonly absent: number }) {}

  get size(): { readonly characters: number; readonly present: number; readonly absent: number } {
    return { characters: this.#characters, present: this.#present.size, absent: this.#absent.size };
  }

  /** An entry, which counts as a use. */
  get(name: string): E | undefined {
    const present = this.#present.get(name);
    if (present) {
      this.#present.delete(name);
      this.#present.set(name, present);
      return present.entry;
    }
    const absent = this.#absent.get(name);
    if (!absent) return undefined;
    this.#absent.delete(name);
    this.#absent.set(name, absent);
    return absent.entry;
  }

  /** @param group entries that are dropped together */
  set(
    name: string,
    entry: E,
    { absent, size, group }: { readonly absent: boolean; readonly size: number; readonly group: string },
  ): void {
    this.delete(name);
    const held = { entry, size: size + name.length, group };
    if (absent) {
      this.#absent.set(name, held);
      this.#join(name, group);
      this.#absentCharacters += held.size;
      while (this.#absent.size > this.bounds.absent || this.#absentCharacters > this.bounds.characters) {
        this.#drop(this.#absent);
      }
      return;
    }
    if (held.size > this.bounds.characters) return;
    this.#present.set(name, held);
    this.#join(name, group);
    this.#characters += held.size;
    while (this.#characters > this.bounds.characters) this.#drop(this.#present);
  }

  delete(name: string): void {
    const present = this.#present.get(name);
    const held = present ?? this.#absent.get(name);
    if (!held) return;
    if (present) this.#characters -= present.size;
    else this.#absentCharacters -= held.size;
    this.#present.delete(name);
    this.#absent.delete(name);
    const group = this.#groups.get(held.group);
    group?.delete(name);
    if (group?.size === 0) this.#groups.delete(held.group);
  }

  /** Drops the entries of a group that are `stale`. */
  deleteGroup(group: string, stale: (entry: E) => boolean): void {
    for (const name of this.#groups.get(group) ?? []) {
      const held = this.#present.get(name) ?? this.#absent.get(name);
      if (held && stale(held.entry)) this.delete(name);
    }
  }

  clear(): void {
    this.#present.clear();
    this.#absent.clear();
    this.#groups.clear();
    this.#characters = 0;
    this.#absentCharacters = 0;
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
