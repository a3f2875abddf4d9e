/** Calls at a time; each has a page of rows at most, of 512 KiB. */
const MAX_CALLS = 16;

/**
 * The calls by which a restore hands rows to objects: those of one object in their order, those of several at the same
 * time. After a failure no further call is begun. Owns the calls under way.
 */
export class Staging {
  readonly #underWay = new Set<Promise<void>>();
  /** The calls of the current object. */
  #latest: Promise<void> = Promise.resolve();
  #failed: { readonly failure: unknown } | null = null;

  /** The first call of another object. */
  begin(call: () => Promise<unknown>): void {
    this.#latest = Promise.resolve();
    this.goOn(call);
  }

  /** The next call of the current object. */
  goOn(call: () => Promise<unknown>): void {
    const ended = this.#latest
      .then(() => (this.#failed ? undefined : call()))
      .catch((failure: unknown) => {
        this.#failed ??= { failure };
      })
      .then(() => void this.#underWay.delete(ended));
    this.#underWay.add(ended);
    this.#latest = ended;
  }

  /** Resolves when another call may begin. @throws the first failure */
  async room(): Promise<void> {
    while (this.#underWay.size >= MAX_CALLS && !this.#failed) await Promise.race(this.#underWay);
    this.check();
  }

  /** Resolves when no call is under way. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** @throws the first failure */
  check(): void {
    if (this.#failed) throw this.#failed.failure;
  }
}
