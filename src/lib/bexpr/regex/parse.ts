import { named, property, shorthand } from "./characters.ts";

/** Syntax tree of a regular expression. Match preference is omitted: a search needs only existence. */
export type Node =
  | { readonly is: "literal"; readonly code: number }
  | CharactersNode
  | { readonly is: "assertion"; readonly asserts: Assertion }
  | { readonly is: "sequence" | "choice"; readonly parts: readonly Node[] }
  | { readonly is: "repeat"; readonly part: Node; readonly min: number; readonly max: number };

/** One character matched by `source`, in the platform's syntax, or its complement when negated. */
export interface CharactersNode {
  readonly is: "characters";
  readonly source: string;
  readonly negated: boolean;
  readonly fold: boolean;
}

export type Assertion = "text start" | "text end" | "line start" | "line end" | "word boundary" | "no word boundary";

/** An invalid or unsupported regular expression. */
export class PatternError extends Error {}

/** Flags of `(?ims)`, for the rest of a group. `U` swaps greediness, which makes no difference here. */
interface Flags {
  readonly fold: boolean;
  readonly lines: boolean;
  readonly dotAll: boolean;
}

/** Limit of a count, and of the product of nested counts. */
const MAX_REPEATS = 1_000;
const COUNT = /\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}/y;

/**
 * Parses a regular expression as Go's regexp (https://pkg.go.dev/regexp/syntax, Perl flags), with the same error texts.
 * @throws PatternError
 */
export function parse(text: string): Node {
  return new Parser(text).all();
}

class Parser {
  #at = 0;
  #flags: Flags = { fold: false, lines: false, dotAll: false };

  constructor(private readonly text: string) {}

  all(): Node {
    const node = this.#choice();
    if (this.#more()) this.#fail("unexpected )", this.text);
    return node;
  }

  #choice(): Node {
    const parts = [this.#sequence()];
    while (this.#eat("|")) parts.push(this.#sequence());
    return oneOr("choice", parts);
  }

  #sequence(): Node {
    const parts: Node[] = [];
    /** Start of the last repetition. */
    let repeated: number | null = null;
    while (this.#more() && !this.#ahead("|") && !this.#ahead(")")) {
      const from = this.#at;
      const count = this.#count();
      if (count) {
        this.#eat("?");
        if (repeated !== null) this.#fail("invalid nested repetition operator", this.#since(repeated));
        const part = parts.pop();
        if (!part) this.#fail("missing argument to repetition operator", this.#since(from));
        const node: Node = { is: "repeat", part, ...count };
        if (repeats(node) > MAX_REPEATS) this.#fail("invalid repeat count", this.#since(from));
        parts.push(node);
        repeated = from;
      } else {
        parts.push(...this.#atom());
        repeated = null;
      }
    }
    return oneOr("sequence", parts);
  }

  /** The repetition count of the previous part, if one follows. A brace that is no count is literal. */
  #count(): { min: number; max: number } | null {
    if (this.#eat("*")) return { min: 0, max: Infinity };
    if (this.#eat("+")) return { min: 1, max: Infinity };
    if (this.#eat("?")) return { min: 0, max: 1 };
    COUNT.lastIndex = this.#at;
    const [written, least, range, most] = COUNT.exec(this.text) ?? [];
    if (!written) return null;
    this.#at += written.length;
    const min = Number(least);
    const max = most ? Number(most) : range ? Infinity : min;
    if (min > MAX_REPEATS || (max > MAX_REPEATS && most) || min > max) this.#fail("invalid repeat count", written);
    return { min, max };
  }

  /** One part; empty for flags, several for quoted text. */
  #atom(): readonly Node[] {
    const from = this.#at;
    const char = this.#next();
    switch (char) {
      case "(":
        return this.#group(from);
      case "[":
        return [this.#class(from)];
      case "^":
        return [{ is: "assertion", asserts: this.#flags.lines ? "line start" : "text start" }];
      case "$":
        return [{ is: "assertion", asserts: this.#flags.lines ? "line end" : "text end" }];
      case ".":
        return [this.#characters(this.#flags.dotAll ? "[^]" : "[^\\n]")];
      case "\\":
        return this.#escape(from);
      default:
        return [this.#literal(codeOf(char))];
    }
  }

  #group(from: number): readonly Node[] {
    if (!this.#ahead("?")) return [this.#enclosed(this.#flags)];
    const [opening] = /^\(\?P?<(?=.)/s.exec(this.text.slice(from)) ?? [];
    if (opening) {
      const end = this.text.indexOf(">", from);
      if (end < 0) this.#fail("invalid named capture", this.text.slice(from));
      this.#at = end + 1;
      if (!/^\w+$/.test(this.text.slice(from + opening.length, end)))
        this.#fail("invalid named capture", this.#since(from));
      return [this.#enclosed(this.#flags)];
    }
    this.#next();
    let flags = this.#flags;
    let on = true;
    for (let last = "?"; this.#more(); ) {
      const char = this.#next();
      if (char === "i") flags = { ...flags, fold: on };
      else if (char === "m") flags = { ...flags, lines: on };
      else if (char === "s") flags = { ...flags, dotAll: on };
      else if (char === "-" && on) on = false;
      else if (char === ":" && last !== "-") return [this.#enclosed(flags)];
      else if (char === ")" && last !== "-") {
        this.#flags = flags;
        return [];
      } else if (char !== "U") break;
      last = char;
    }
    return this.#fail("invalid or unsupported Perl syntax", this.#since(from));
  }

  /** The rest of the group; flags are restored at its end. */
  #enclosed(flags: Flags): Node {
    const outside = this.#flags;
    this.#flags = flags;
    const node = this.#choice();
    if (!this.#eat(")")) this.#fail("missing closing )", this.text);
    this.#flags = outside;
    return node;
  }

  #escape(from: number): readonly Node[] {
    const known = this.#known(from);
    if (known) return [this.#characters(known)];
    if (this.#eat("A")) return [{ is: "assertion", asserts: "text start" }];
    if (this.#eat("z")) return [{ is: "assertion", asserts: "text end" }];
    if (this.#eat("b")) return [{ is: "assertion", asserts: "word boundary" }];
    if (this.#eat("B")) return [{ is: "assertion", asserts: "no word boundary" }];
    if (this.#eat("Q")) {
      const end = this.text.indexOf("\\E", this.#at);
      const quoted = end < 0 ? this.text.slice(this.#at) : this.text.slice(this.#at, end);
      this.#at += quoted.length + (end < 0 ? 0 : 2);
      return Array.from(quoted, (char) => this.#literal(codeOf(char)));
    }
    return [this.#literal(this.#escaped(from))];
  }

  /** The source of `\d`, `\pN` and similar, after the backslash at `from`; also valid inside a class. */
  #known(from: number): string | null {
    const letter = this.text.charAt(this.#at);
    if (!/^[dswDSWpP]$/.test(letter)) return null;
    this.#at += 1;
    const lower = letter.toLowerCase();
    let negated = letter !== lower;
    if (lower !== "p") return shorthand(lower, negated);
    let name = this.#more() ? this.#next() : "{";
    if (name === "{") {
      const end = this.text.indexOf("}", this.#at);
      if (end < 0) this.#fail("invalid character class range", this.text.slice(from));
      name = this.text.slice(this.#at, end);
      this.#at = end + 1;
    }
    if (name.startsWith("^")) {
      negated = !negated;
      name = name.slice(1);
    }
    return property(name, negated) ?? this.#fail("invalid character class range", this.#since(from));
  }

  /** The code point escaped by the backslash at `from`. */
  #escaped(from: number): number {
    if (!this.#more()) this.#fail("trailing backslash at end of expression", "");
    const char = this.#next();
    const plain = PLAIN.get(char);
    if (plain !== undefined) return plain;
    if (/^[0-7]$/.test(char)) {
      const [digits = ""] = /^[0-7]{1,3}/.exec(this.text.slice(from + 1)) ?? [];
      if (digits !== "0" && digits.length === 1) this.#fail("invalid escape sequence", this.#since(from));
      this.#at = from + 1 + digits.length;
      return Number.parseInt(digits, 8);
    }
    if (char === "x") return this.#hexadecimal(from);
    if (codeOf(char) > 0x7f || /^[0-9A-Za-z]$/.test(char)) this.#fail("invalid escape sequence", this.#since(from));
    return codeOf(char);
  }

  #hexadecimal(from: number): number {
    const digits: string[] = [];
    const braced = this.#eat("{");
    while (this.#more() && (braced || digits.length < 2)) {
      const char = this.#next();
      if (braced && char === "}" && digits.length > 0) return Number.parseInt(digits.join(""), 16);
      digits.push(char);
      const readable = /^[0-9a-f]$/i.test(char) && Number.parseInt(digits.join(""), 16) <= 0x10ffff;
      // Without braces, the error text contains both characters.
      if (!readable && braced) break;
    }
    if (braced || !/^[0-9a-f]{2}$/i.test(digits.join(""))) this.#fail("invalid escape sequence", this.#since(from));
    return Number.parseInt(digits.join(""), 16);
  }

  #class(from: number): Node {
    const negated = this.#eat("^");
    const members: string[] = [];
    while (members.length === 0 || !this.#ahead("]")) members.push(this.#member(from));
    this.#eat("]");
    return { ...this.#characters(members.join("|")), negated };
  }

  /** The source of one member of the class that begins at `opened`. */
  #member(opened: number): string {
    const from = this.#at;
    const end = this.#ahead("[:") ? this.text.indexOf(":]", from + 2) : -1;
    if (end >= 0) {
      this.#at = end + 2;
      const [, caret, name = ""] = /^\[:(\^?)(.*):\]$/s.exec(this.#since(from)) ?? [];
      return named(name, caret === "^") ?? this.#fail("invalid character class range", this.#since(from));
    }
    if (this.#eat("\\")) {
      const known = this.#known(from);
      if (known) return known;
      this.#at = from;
    }
    const low = this.#single(opened);
    let high = low;
    if (this.#ahead("-") && !this.#ahead("-]")) {
      this.#eat("-");
      high = this.#single(opened);
      if (high < low) this.#fail("invalid character class range", this.#since(from));
    }
    return `[\\u{${low.toString(16)}}-\\u{${high.toString(16)}}]`;
  }

  #single(opened: number): number {
    const from = this.#at;
    if (!this.#more()) this.#fail("missing closing ]", this.text.slice(opened));
    const char = this.#next();
    return char === "\\" ? this.#escaped(from) : codeOf(char);
  }

  #literal(code: number): Node {
    if (!this.#flags.fold) return { is: "literal", code };
    return this.#characters(`\\u{${code.toString(16)}}`);
  }

  #characters(source: string): CharactersNode {
    return { is: "characters", source, negated: false, fold: this.#flags.fold };
  }

  #more(): boolean {
    return this.#at < this.text.length;
  }

  #ahead(text: string): boolean {
    return this.text.startsWith(text, this.#at);
  }

  #eat(text: string): boolean {
    if (!this.#ahead(text)) return false;
    this.#at += text.length;
    return true;
  }

  /** The next character, up to two UTF-16 units. */
  #next(): string {
    const char = String.fromCodePoint(this.text.codePointAt(this.#at) as number);
    this.#at += char.length;
    return char;
  }

  #since(from: number): string {
    return this.text.slice(from, this.#at);
  }

  #fail(why: string, where: string): never {
    throw new PatternError(`error parsing regexp: ${why}: \`${where}\``);
  }
}

/** Single-letter escapes. */
const PLAIN: ReadonlyMap<string, number> = new Map([
  ["a", 7],
  ["t", 9],
  ["n", 10],
  ["v", 11],
  ["f", 12],
  ["r", 13],
]);

const codeOf = (char: string): number => char.codePointAt(0) as number;

const oneOr = (is: "sequence" | "choice", parts: readonly Node[]): Node =>
  parts.length === 1 ? (parts[0] as Node) : { is, parts };

/** Product of nested counts: `(a{2}){3}` gives 6. A star does not count. */
function repeats(node: Node): number {
  switch (node.is) {
    case "sequence":
    case "choice":
      return node.parts.reduce((most, part) => Math.max(most, repeats(part)), 1);
    case "repeat": {
      if (node.max === 0) return 1;
      return Math.max(1, node.max === Infinity ? node.min : node.max) * repeats(node.part);
    }
    default:
      return 1;
  }
}
