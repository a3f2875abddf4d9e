import type { Expression, Match, Selector } from "./expression.ts";
import { resolveEscapes } from "./literals.ts";

/** A syntax error and its position. */
export class ParseError extends Error {
  override readonly name = "ParseError";
}

const MAX_LENGTH = 8_192;
const MAX_DEPTH = 64;

const SPACE = /[ \t\r\n]+/y;
const IDENTIFIER = /[A-Za-z][A-Za-z0-9_/]*/y;
const DIGITS = /\d+/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?/y;
const AFTER_NUMBER = /[ \t\r\n)]|$/y;
const QUOTED = /"([^"]*)"/y;
const RAW = /`([^`]*)`/y;
/** A JSON pointer; between double quotes it is a selector, too. */
const POINTER = /^(?:\/[\p{L}\p{N}\-_.~:|]+)*$/u;

/** An operand: most selectors are valid values as well. */
interface Operand {
  readonly selector: Selector | null;
  readonly value: string;
}

/**
 * Parses a filter expression (docs/internals/wire/nomad.md).
 * @throws ParseError with the position as `line:column (byte)`
 */
export const parse = (text: string): Expression => new Parser(text).parse();

/**
 * Recursive descent over the grammar's ordered alternatives: a rule that does not apply returns null and consumes
 * nothing. No rule is tried twice at one position, except on a word, so time is linear in the length.
 */
class Parser {
  #at = 0;
  #depth = 0;
  /** The farthest position reached, and the expected tokens there. */
  #farthest = 0;
  readonly #expected = new Set<string>();

  constructor(private readonly text: string) {}

  parse(): Expression {
    if (this.text.length > MAX_LENGTH) throw new ParseError(`longer than ${MAX_LENGTH} characters`);
    this.#space();
    const expression = this.#or();
    this.#space();
    if (expression !== null) {
      if (this.#at === this.text.length) return expression;
      this.#expect("EOF");
    }
    const expected = [...this.#expected].sort();
    throw this.#error(
      this.#farthest,
      `no match found, expected: ${expected.join(", ").replace(/, (?=[^,]*$)/, " or ")}`,
    );
  }

  #or(): Expression | null {
    const terms: Expression[] = [];
    if (++this.#depth > MAX_DEPTH) throw this.#error(this.#at, `nested deeper than ${MAX_DEPTH}`);
    let end = this.#at;
    for (;;) {
      const term = this.#and();
      // A collection must be last: between other terms it needs parentheses.
      const last = term ?? this.#collection();
      if (last === null) break;
      terms.push(last);
      end = this.#at;
      if (term === null || !this.#joined("or")) break;
    }
    this.#at = end;
    this.#depth--;
    return joinTerms("or", terms);
  }

  #and(): Expression | null {
    const terms: Expression[] = [];
    let end = this.#at;
    do {
      const term = this.#not();
      if (term === null) break;
      terms.push(term);
      end = this.#at;
    } while (this.#joined("and"));
    this.#at = end;
    return joinTerms("and", terms);
  }

  #not(): Expression | null {
    const starts: number[] = [];
    let start = this.#at;
    while (this.#word("not") && this.#space()) {
      starts.push(start);
      start = this.#at;
    }
    this.#at = start;
    let term = this.#group();
    // `not` may also be a name: `not in Tags`.
    while (term === null) {
      const back = starts.pop();
      if (back === undefined) return null;
      this.#at = back;
      term = this.#match();
    }
    return starts.length % 2 === 0 ? term : { is: "not", term };
  }

  #group(): Expression | null {
    const start = this.#at;
    if (!this.#symbol("(")) return this.#match();
    this.#space();
    const inner = this.#or();
    if (inner === null) return this.#back(start);
    this.#space();
    if (!this.#symbol(")")) throw this.#error(start, 'rule "grouping": Unmatched parentheses');
    return inner;
  }

  #collection(): Expression | null {
    const start = this.#at;
    const is = this.#word("any") ? "any" : this.#word("all") ? "all" : null;
    if (is === null || !this.#space()) return this.#back(start);
    const selector = this.#selector();
    if (selector === null || !this.#joined("as")) return this.#back(start);
    const names = this.#binding();
    if (names === null) return this.#back(start);
    this.#space();
    if (!this.#symbol("{")) return this.#back(start);
    this.#space();
    const body = this.#or();
    if (body === null) return this.#back(start);
    this.#space();
    if (!this.#symbol("}")) return this.#back(start);
    return { is, selector, names, body };
  }

  #binding(): readonly [string] | readonly [string | null, string | null] | null {
    const first = this.#boundName();
    if (first === null) return null;
    const end = this.#at;
    this.#space();
    if (!this.#symbol(",")) {
      this.#at = end;
      return first.name === null ? null : [first.name];
    }
    this.#space();
    const start = this.#at;
    const second = this.#boundName();
    if (second === null || (first.name === null && second.name === null)) return null;
    if (first.name === second.name) throw this.#error(start, 'rule "binding": the same name twice');
    return [first.name, second.name];
  }

  #boundName(): { readonly name: string | null } | null {
    if (this.#symbol("_")) return { name: null };
    const name = this.#token(IDENTIFIER, "identifier");
    return name === null ? null : { name };
  }

  #match(): Expression | null {
    const start = this.#at;
    const left = this.#operand();
    if (left === null) return null;
    const named = (): Selector => {
      if (left.selector === null) throw this.#error(start, 'rule "match": Invalid selector');
      return left.selector;
    };
    return this.#equality(named) ?? this.#wordMatch(left, named) ?? this.#back(start);
  }

  /** `==` and `!=`, the operators that need no surrounding space. */
  #equality(named: () => Selector): Expression | null {
    const start = this.#at;
    this.#space();
    const negated = this.#symbol("!=");
    if (!negated && !this.#symbol("==")) return this.#back(start);
    this.#space();
    const right = this.#operand();
    if (right === null) return this.#back(start);
    return negate({ is: "equal", selector: named(), value: right.value }, negated);
  }

  #wordMatch(left: Operand, named: () => Selector): Expression | null {
    const start = this.#at;
    if (!this.#space()) return null;
    if (this.#word("is")) {
      if (!this.#space()) return this.#back(start);
      const negated = this.#prefix("not");
      const is = this.#word("empty") ? "empty" : this.#word("nil") ? "nil" : null;
      return is === null ? this.#back(start) : negate({ is, selector: named() }, negated);
    }
    const negated = this.#prefix("not");
    const operator = (["in", "contains", "matches"] as const).find((word) => this.#word(word));
    if (operator === undefined || !this.#space()) return this.#back(start);
    const rightStart = this.#at;
    const right = this.#operand();
    if (right === null) return this.#back(start);
    if (operator !== "in") return negate({ is: operator, selector: named(), value: right.value }, negated);
    if (right.selector === null) throw this.#error(rightStart, 'rule "match": Invalid selector');
    return negate({ is: "contains", selector: right.selector, value: left.value }, negated);
  }

  #operand(): Operand | null {
    const path = this.#path();
    if (path !== null) return { selector: path, value: path.join(".") };
    const raw = this.#raw();
    if (raw !== null) return { selector: null, value: raw };
    const quoted = this.#quoted();
    if (quoted !== null) return { selector: pointer(quoted), value: quoted };
    const number = this.#number();
    return number === null ? null : { selector: null, value: number };
  }

  #selector(): Selector | null {
    const path = this.#path();
    if (path !== null) return path;
    const start = this.#at;
    const quoted = this.#quoted();
    return (quoted === null ? null : pointer(quoted)) ?? this.#back(start);
  }

  /** Names joined by dots, and keys in brackets. */
  #path(): Selector | null {
    const first = this.#token(IDENTIFIER, "identifier");
    if (first === null) return null;
    const path = [first];
    for (;;) {
      const start = this.#at;
      if (this.#symbol(".")) {
        const part = this.#token(IDENTIFIER, "identifier") ?? this.#token(DIGITS, "digits");
        if (part === null) {
          this.#at = start;
          return path;
        }
        path.push(part);
      } else if (this.#symbol("[")) {
        this.#space();
        const key = this.#raw() ?? this.#quoted();
        if (key === null) throw this.#error(this.#at, 'rule "index": Invalid index');
        this.#space();
        if (!this.#symbol("]")) throw this.#error(this.#at, 'rule "index": Unclosed index expression');
        path.push(key);
      } else return path;
    }
  }

  #number(): string | null {
    const start = this.#at;
    const number = this.#token(NUMBER, "number");
    if (number === null) return null;
    AFTER_NUMBER.lastIndex = this.#at;
    if (!AFTER_NUMBER.test(this.text)) throw this.#error(start, 'rule "number": Invalid number literal');
    return number;
  }

  #raw(): string | null {
    return this.#string("`", RAW);
  }

  #quoted(): string | null {
    const start = this.#at;
    const written = this.#string('"', QUOTED);
    if (written === null) return null;
    const text = resolveEscapes(written);
    if (text === null) throw this.#error(start, 'rule "string": invalid syntax');
    return text;
  }

  #string(quote: string, pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    if (found?.[1] === undefined) {
      if (this.#symbol(quote)) throw this.#error(this.#at - 1, 'rule "string": Unterminated string literal');
      return null;
    }
    this.#at = pattern.lastIndex;
    return found[1];
  }

  /** A word with required space on both sides. */
  #joined(word: string): boolean {
    const start = this.#at;
    if (this.#space() && this.#word(word) && this.#space()) return true;
    this.#at = start;
    return false;
  }

  /** A word and its following space, if present. */
  #prefix(word: string): boolean {
    const start = this.#at;
    if (this.#word(word) && this.#space()) return true;
    this.#at = start;
    return false;
  }

  #space(): boolean {
    return this.#token(SPACE, "whitespace") !== null;
  }

  #word(word: string): boolean {
    return this.#symbol(word);
  }

  #symbol(symbol: string): boolean {
    if (this.text.startsWith(symbol, this.#at)) {
      this.#at += symbol.length;
      return true;
    }
    this.#expect(JSON.stringify(symbol));
    return false;
  }

  #token(pattern: RegExp, name: string): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0] ?? null;
    if (found === null) this.#expect(name);
    else this.#at += found.length;
    return found;
  }

  #back(start: number): null {
    this.#at = start;
    return null;
  }

  #expect(what: string): void {
    if (this.#at < this.#farthest) return;
    if (this.#at > this.#farthest) {
      this.#farthest = this.#at;
      this.#expected.clear();
    }
    this.#expected.add(what);
  }

  #error(at: number, message: string): ParseError {
    const before = this.text.slice(0, at);
    const lines = before.split("\n");
    const column = [...(lines.at(-1) ?? "")].length + 1;
    const bytes = new TextEncoder().encode(before).length;
    return new ParseError(`${lines.length}:${column} (${bytes}): ${message}`);
  }
}

const negate = (match: Match, negated: boolean): Expression => (negated ? { is: "not", term: match } : match);

function joinTerms(is: "and" | "or", terms: readonly Expression[]): Expression | null {
  const [first] = terms;
  if (first === undefined) return null;
  return terms.length === 1 ? first : { is, terms };
}

/** The parts of a JSON pointer (RFC 6901), or null when invalid. */
const pointer = (text: string): Selector | null =>
  POINTER.test(text)
    ? text
        .split("/")
        .slice(1)
        .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    : null;
