import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { warn } from "./log.ts";
import { ReportedIndexes } from "./reported-indexes.ts";

/**
 * Owns the state directory: the position in the cluster's stream, and the scope that was mirrored. Both are replaced
 * whole. A position older than the service's is harmless: the service ignores lines that it has. Without a position
 * all objects are compared.
 */

interface Position {
  /** The cluster is mirrored up to this index; null before the first comparison. */
  readonly index: number | null;
  /** Whether all lines of the index are mirrored; else the last ones may be missing. */
  readonly whole: boolean;
  /** Counts restores of the cluster to an earlier index: each begins a source of its own. */
  readonly epoch: number;
}

interface Scope {
  readonly namespaces: readonly string[];
  /** Nodes and pools, which have no namespace that tells them from others. */
  readonly global: readonly string[];
  /** Objects reported by a comparison in a state newer than the position, by `nameKey`: earlier events are skipped. */
  readonly ahead: Readonly<Record<string, number>>;
}

const START: Position = { index: null, whole: true, epoch: 0 };
const NOTHING: Scope = { namespaces: [], global: [], ahead: {} };

export class StateDirectory {
  readonly #path: string;
  readonly reported: ReportedIndexes;
  position: Position;
  scope: Scope;

  constructor(path: string) {
    this.#path = path;
    mkdirSync(path, { recursive: true, mode: 0o700 });
    this.position = this.#read("position.json", START);
    this.scope = this.#read("scope.json", NOTHING);
    this.reported = new ReportedIndexes(join(path, "reported.jsonl"));
  }

  move(position: Position): void {
    this.position = position;
    this.#write("position.json", position);
  }

  keep(scope: Scope): void {
    this.scope = scope;
    this.#write("scope.json", scope);
  }

  #read<State extends object>(name: string, initial: State): State {
    let text: string;
    try {
      text = readFileSync(join(this.#path, name), "utf8");
    } catch {
      return initial;
    }
    try {
      return { ...initial, ...(JSON.parse(text) as State) };
    } catch {
      warn("state unreadable", { file: name });
      return initial;
    }
  }

  #write(name: string, state: object): void {
    const path = join(this.#path, name);
    writeFileSync(`${path}.new`, JSON.stringify(state), { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }
}
