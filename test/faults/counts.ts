/** How often what has happened, by kind. */
export class Tally {
  readonly #counts = new Map<string, number>();

  add(kind: string): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
  }

  get(kind: string): number {
    return this.#counts.get(kind) ?? 0;
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** @example "300 (created 200, refused 100)" */
  toString(): string {
    const parts = [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, count]) => `${kind} ${count}`);
    return parts.length === 0 ? "0" : `${this.total} (${parts.join(", ")})`;
  }
}
