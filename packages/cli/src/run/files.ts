import { chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** One file for each value, with mode 0600, which the program reads; they are removed at the end. */
export class SecretFiles {
  readonly #dir: string;
  readonly #made: boolean;
  readonly #names = new Set<string>();

  constructor(dir: string) {
    this.#dir = dir;
    this.#made = mkdirSync(dir, { recursive: true, mode: 0o700 }) !== undefined;
  }

  /** Each file is replaced as a whole. */
  write(values: ReadonlyMap<string, string>): void {
    for (const [name, value] of values) {
      const part = join(this.#dir, `.${name}.part`);
      try {
        writeFileSync(part, value, { mode: 0o600 });
        chmodSync(part, 0o600);
        renameSync(part, join(this.#dir, name));
      } finally {
        rmSync(part, { force: true });
      }
      this.#names.add(name);
    }
    for (const name of this.#names) if (!values.has(name)) this.#remove(name);
  }

  #remove(name: string): void {
    rmSync(join(this.#dir, name), { force: true });
    this.#names.delete(name);
  }

  close(): void {
    if (this.#made) rmSync(this.#dir, { recursive: true, force: true });
    else for (const name of this.#names) this.#remove(name);
  }
}
