/** A map of bounded size that drops the entry whose last use is the oldest. */
export class Lru<K, V> {
  readonly #entries = new Map<K, V>();

  /** @param most the number of entries */
  constructor(private readonly most: number) {}

  get size(): number {
    return this.#entries.size;
  }

  /** The value of a key, which counts as a use. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.most) return;
    const [oldest] = this.#entries.keys();
    this.#entries.delete(oldest as K);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}
