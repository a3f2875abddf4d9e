/**
 * A memory of bounded size that drops the entries whose last use is the oldest. Absent things have a bound of their own,
 * so that a flood of unknown names does not drive out what is there.
 */
export class BoundedEntries<E> {
  readonly #bounds: { readonly characters: number; readonly absent: number };
  readonly #present = new Map<string, { readonly entry: E; readonly size: number }>();
  readonly #absent = new Map<string, E>();
  #characters = 0;

  /** @param bounds characters of present entries with their names, and the number of absent ones */
  constructor(bounds: { readonly characters: number; readonly absent: number }) {
    this.#bounds = bounds;
  }

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
    if (absent === undefined) return undefined;
    this.#absent.delete(name);
    this.#absent.set(name, absent);
    return absent;
  }

  set(name: string, entry: E, { absent, size }: { readonly absent: boolean; readonly size: number }): void {
    this.delete(name);
    if (absent) {
      this.#absent.set(name, entry);
      if (this.#absent.size > this.#bounds.absent) this.#drop(this.#absent);
      return;
    }
    const held = size + name.length;
    if (held > this.#bounds.characters) return;
    this.#present.set(name, { entry, size: held });
    this.#characters += held;
    while (this.#characters > this.#bounds.characters) this.#drop(this.#present);
  }

  delete(name: string): void {
    this.#characters -= this.#present.get(name)?.size ?? 0;
    this.#present.delete(name);
    this.#absent.delete(name);
  }

  #drop(entries: ReadonlyMap<string, unknown>): void {
    const [oldest] = entries.keys();
    if (oldest !== undefined) this.delete(oldest);
  }
}
