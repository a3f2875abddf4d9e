/** What is asked for far more often than it changes. Whoever changes its rows forgets it, and so does a commit that fails. */
export class Memo<T> {
  readonly #read: () => T;
  #kept: { readonly value: T } | null = null;

  constructor(read: () => T) {
    this.#read = read;
  }

  get(): T {
    this.#kept ??= { value: this.#read() };
    return this.#kept.value;
  }

  forget(): void {
    this.#kept = null;
  }
}
