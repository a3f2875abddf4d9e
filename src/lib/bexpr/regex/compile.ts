import { Characters } from "./characters.ts";
import { type Assertion, type CharactersNode, type Node, PatternError } from "./parse.ts";

/** Instructions; execution continues with the next step unless stated otherwise. */
export const DO = {
  /** Accept. */
  match: 0,
  /** Consume the code point given as argument. */
  literal: 1,
  /** Consume one of the set with the argument as index. */
  characters: 2,
  /** Consume nothing; the argument is one of `ASSERT`. */
  assert: 3,
  /** Also continue with the step given as argument. */
  split: 4,
  /** Continue with the step given as argument. */
  jump: 5,
} as const;

/** One bit per assertion, so that all assertions at a position form one number. */
export const ASSERT: Readonly<Record<Assertion, number>> = {
  "text start": 1,
  "text end": 2,
  "line start": 4,
  "line end": 8,
  "word boundary": 16,
  "no word boundary": 32,
};

/** Compiled regular expression, executed by `run`. */
export interface Program {
  readonly steps: Uint8Array;
  readonly arguments: Int32Array;
  readonly sets: readonly Characters[];
}

/**
 * Compiles to at most `most` steps: `(a{30}){30}` is short to write and long to run.
 * @throws PatternError beyond that
 */
export function compile(tree: Node, most: number): Program {
  const compiler = new Compiler(most);
  compiler.emit(tree);
  return compiler.finished();
}

class Compiler {
  readonly #steps: number[] = [];
  readonly #arguments: number[] = [];
  readonly #sets: Characters[] = [];
  /** Index of each distinct set of an expression. */
  readonly #indices = new Map<string, number>();

  constructor(private readonly most: number) {}

  finished(): Program {
    this.#step(DO.match);
    return { steps: Uint8Array.from(this.#steps), arguments: Int32Array.from(this.#arguments), sets: this.#sets };
  }

  emit(node: Node): void {
    switch (node.is) {
      case "literal":
        this.#step(DO.literal, node.code);
        return;
      case "characters":
        this.#step(DO.characters, this.#indexOf(node));
        return;
      case "assertion":
        this.#step(DO.assert, ASSERT[node.asserts]);
        return;
      case "sequence":
        for (const part of node.parts) this.emit(part);
        return;
      case "choice":
        this.#choice(node.parts);
        return;
      case "repeat":
        this.#repeat(node.part, node.min, node.max);
    }
  }

  #choice(parts: readonly Node[]): void {
    const ends: number[] = [];
    for (const part of parts.slice(0, -1)) {
      const other = this.#step(DO.split);
      this.emit(part);
      ends.push(this.#step(DO.jump));
      this.#leadHere(other);
    }
    for (const part of parts.slice(-1)) this.emit(part);
    for (const end of ends) this.#leadHere(end);
  }

  #repeat(part: Node, min: number, max: number): void {
    for (let n = 1; n < min; n++) this.emit(part);
    const last = this.#steps.length;
    if (min > 0) this.emit(part);
    if (max < Infinity) {
      const ends: number[] = [];
      for (let n = min; n < max; n++) {
        ends.push(this.#step(DO.split));
        this.emit(part);
      }
      for (const end of ends) this.#leadHere(end);
    } else if (min > 0) {
      this.#step(DO.split, last);
    } else {
      const end = this.#step(DO.split);
      this.emit(part);
      this.#step(DO.jump, last);
      this.#leadHere(end);
    }
  }

  #step(what: number, argument = 0): number {
    if (this.#steps.length === this.most) throw new PatternError(`repeats too much: more than ${this.most} steps`);
    this.#arguments.push(argument);
    return this.#steps.push(what) - 1;
  }

  #leadHere(step: number): void {
    this.#arguments[step] = this.#steps.length;
  }

  #indexOf(node: CharactersNode): number {
    const key = `${node.negated} ${node.fold} ${node.source}`;
    const index = this.#indices.get(key) ?? this.#sets.push(new Characters(node)) - 1;
    this.#indices.set(key, index);
    return index;
  }
}
