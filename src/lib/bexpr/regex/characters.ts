/** Named classes between `[:` and `:]`. */
const NAMED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    alnum: "0-9A-Za-z",
    alpha: "A-Za-z",
    ascii: "\\0-\\x7f",
    blank: "\\t ",
    cntrl: "\\0-\\x1f\\x7f",
    digit: "0-9",
    graph: "!-~",
    lower: "a-z",
    print: " -~",
    punct: "!-\\/:-@\\[-`{-~",
    space: "\\t-\\r ",
    upper: "A-Z",
    word: "0-9A-Za-z_",
    xdigit: "0-9A-Fa-f",
  }),
);

/** Shorthand classes after a backslash: ASCII only, unlike the platform's own. */
const SHORTHANDS: ReadonlyMap<string, string> = new Map(
  Object.entries({ d: "0-9", s: "\\t\\n\\f\\r ", w: "0-9A-Za-z_" }),
);

/** Scripts whose full names look like short names, which Go does not support. */
const SHORT_SCRIPTS = /^(?:Ahom|Cham|Kawi|Lisu|Miao|Modi|Newa|Thai|Toto)$/;

/** The source of `[:name:]`, or of its complement. @returns null for an unknown name */
export const named = (name: string, negated: boolean): string | null => bracketed(NAMED.get(name), negated);

/** The source of `\d` and similar, or of its complement. @returns null for other letters */
export const shorthand = (letter: string, negated: boolean): string | null =>
  bracketed(SHORTHANDS.get(letter), negated);

/**
 * The source of a Unicode category (`L`, `Lu`) or script (`Greek`), by the platform's Unicode tables: a character newer
 * than Go's tables may be classified differently.
 * @returns null for a name unknown to Go
 */
export function property(name: string, negated: boolean): string | null {
  const sources: string[] = [];
  if (/^(?:Any|ASCII|Assigned|LC|[A-Z][a-z]?)$/.test(name)) sources.push(`\\p{${name}}`);
  if (/^[A-Z][A-Za-z_]+$/.test(name) && (name.length !== 4 || SHORT_SCRIPTS.test(name)))
    sources.push(`\\p{Script=${name}}`);
  return bracketed(sources.find(isKnown), negated);
}

function isKnown(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false;
  }
}

/**
 * `[^…]` instead of `\P{…}`: case-insensitively, the platform's complement of the latter still contains some of the
 * set.
 */
const bracketed = (members: string | undefined, negated: boolean): string | null =>
  members === undefined ? null : `[${negated ? "^" : ""}${members}]`;

const UNKNOWN = 0;
const IN = 1;
const OUT = 2;

/** A set of code points. Results are cached for ASCII and for the last other code point. */
export class Characters {
  readonly #pattern: RegExp;
  readonly #negated: boolean;
  readonly #ascii = new Uint8Array(0x80);
  #last = -1;
  #lastIsIn = false;

  /** @param source alternatives of one character each, in the platform's syntax */
  constructor({ source, negated, fold }: { source: string; negated: boolean; fold: boolean }) {
    this.#pattern = new RegExp(`^(?:${source})$`, fold ? "iu" : "u");
    this.#negated = negated;
  }

  has(code: number): boolean {
    if (code < 0x80) {
      if (this.#ascii[code] === UNKNOWN) this.#ascii[code] = this.#ask(code) ? IN : OUT;
      return this.#ascii[code] === IN;
    }
    if (code !== this.#last) {
      this.#lastIsIn = this.#ask(code);
      this.#last = code;
    }
    return this.#lastIsIn;
  }

  #ask(code: number): boolean {
    return this.#pattern.test(String.fromCodePoint(code)) !== this.#negated;
  }
}
