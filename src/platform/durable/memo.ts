/**
 * Memoizes a value that is read far more often than it changes. Writers of its rows call `forget`, as does a rollback.
 */
export class Memo<T> {
  #memo: { readonly value: T } | null = null;

  constructor(private readonly read: () => T) {}

  get(): T {
    this.#memo ??= { value: this.read() };
    return this.#memo.value;
  }

  /** Replaces a value in memory after a write of known effect; undefined forgets it. */
  change(next: (value: T) => T | undefined): void {
    const value = this.#memo ? next(this.#memo.value) : undefined;
    this.#memo = value === undefined ? null : { value };
  }

  forget(): void {
    this.#memo = null;
  }
}
