import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";

/** Appended entries after which the file is rewritten. */
const MAX_APPENDED = 50_000;

type Entry = readonly [name: string, index: number | null];

/**
 * Owns `reported.jsonl`: the cluster's modification index of each mirrored object in its last reported state, by
 * `nameKey`. Comparisons read it: an object with a newer index has changed without an event. Each record appends one
 * line; an entry that is lost with the process costs one read of its object.
 */
export class ReportedIndexes {
  readonly #path: string;
  readonly #indexes = new Map<string, number>();
  #appended = 0;

  constructor(path: string) {
    this.#path = path;
    for (const entries of readLines(path)) this.#apply(entries);
  }

  /** The index of the last reported state; -1 when the object was not reported. */
  of(name: string): number {
    return this.#indexes.get(name) ?? -1;
  }

  /** Records reported states; null for a deleted object. */
  record(reported: Iterable<Entry>): void {
    const entries = [...reported];
    if (entries.length === 0) return;
    this.#apply(entries);
    this.#appended += entries.length;
    if (this.#appended > MAX_APPENDED) this.#rewrite();
    else appendFileSync(this.#path, `${JSON.stringify(entries)}\n`, { mode: 0o600 });
  }

  /** Forgets all objects: the cluster was restored to an earlier state. */
  clear(): void {
    this.#indexes.clear();
    this.#rewrite();
  }

  #apply(entries: readonly Entry[]): void {
    for (const [name, index] of entries) {
      if (index === null) this.#indexes.delete(name);
      else this.#indexes.set(name, index);
    }
  }

  #rewrite(): void {
    writeFileSync(`${this.#path}.new`, `${JSON.stringify([...this.#indexes])}\n`, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#appended = 0;
  }
}

/** The readable lines of the file; the last one may be torn. */
function readLines(path: string): Entry[][] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return [];
  }
  return text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as Entry[]];
    } catch {
      return [];
    }
  });
}
