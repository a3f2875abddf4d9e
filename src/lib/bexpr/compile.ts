import { FilterError } from "./errors.ts";
import type { Collection, Expression, Match } from "./expression.ts";
import { integer, type Kind, string } from "./kinds.ts";
import { readBoolean, readInteger, readNumber, type Unreadable } from "./literals.ts";
import { ParseError, parse } from "./parse.ts";
import { readPattern } from "./pattern.ts";
import { type Bound, plain, type Selected, select, type Values } from "./select.ts";

/** Maximum work of one filter over all rows: one to two seconds, reached only by nested collections and long texts. */
const MAX_STEPS = 100_000_000;
/** Longer texts match no regular expression. */
const MAX_MATCHED_LENGTH = 16_384;

type Test = (values: Values) => boolean;

/**
 * Compiles a filter expression (docs/internals/wire/nomad.md). All errors are found here, independent of rows; the
 * compiled function throws only beyond the work limit.
 * @param kind of the rows; other names are errors
 * @throws FilterError, in upstream's wording
 */
export function compileFilter<Row>(text: string, kind: Kind, mostSteps = MAX_STEPS): (row: Row) => boolean {
  const test = new Compiler(mostSteps).compile(read(text), [{ name: null, kind, slot: 0 }]);
  return (row) => test([row]);
}

function read(text: string): Expression {
  try {
    return parse(text);
  } catch (failure) {
    if (!(failure instanceof ParseError)) throw failure;
    throw new FilterError(`failed to create result paginator: failed to read filter expression: ${failure.message}`);
  }
}

/** An expression quoted in an error. */
const quoted = (text: string): string => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);

const unreadable = (why: string) => new FilterError(`failed to read result page: ${why}`);

class Compiler {
  constructor(private left: number) {}

  compile(expression: Expression, scope: readonly Bound[]): Test {
    switch (expression.is) {
      case "and":
      case "or": {
        const tests = expression.terms.map((term) => this.compile(term, scope));
        return expression.is === "and"
          ? (values) => tests.every((test) => test(values))
          : (values) => tests.some((test) => test(values));
      }
      case "not": {
        const test = this.compile(expression.term, scope);
        return (values) => !test(values);
      }
      case "any":
      case "all":
        return this.#collection(expression, scope);
      default: {
        const selected = select(expression.selector, scope);
        const test = this.#match(expression, selected.kind);
        return (values) => {
          this.#spend(1);
          return test(selected.of(values));
        };
      }
    }
  }

  /** The predicate of a match over the selected value, undefined when missing. */
  #match(match: Match, kind: Kind): (value: unknown) => boolean {
    switch (match.is) {
      case "equal":
        return equals(match.value, kind);
      case "contains":
        return this.#contains(match.value, kind, match);
      case "matches":
        return this.#matches(match.value, kind, match);
      case "empty":
        expectKind(kind, ["list", "map", "string"], "is empty/is not empty", match);
        return (value) => value === undefined || sizeOf(value) === 0;
      case "nil":
        expectKind(kind, ["list", "map", "struct"], "is nil/is not nil", match);
        return (value) => value === undefined;
    }
  }

  #contains(text: string, kind: Kind, match: Match): (value: unknown) => boolean {
    expectKind(kind, ["list", "map", "string"], "in/contains", match);
    const isElement = equals(text, kind.kind === "list" ? kind.of : { kind: "any" });
    return (value) => {
      if (typeof value === "string") return value.includes(text);
      if (typeof value !== "object" || value === null) return false;
      if (!Array.isArray(value)) return Object.hasOwn(value, text);
      this.#spend(value.length);
      return value.some((element) => isElement(plain(element)));
    };
  }

  #matches(text: string, kind: Kind, match: Match): (value: unknown) => boolean {
    expectKind(kind, ["string"], "matches", match);
    const pattern = readPattern(text);
    if (typeof pattern === "string") {
      throw unreadable(`failed to compile regular expression ${quoted(text)}: ${pattern}`);
    }
    return (value) => {
      if (typeof value !== "string" || value.length > MAX_MATCHED_LENGTH) return false;
      this.#spend(pattern.size * value.length);
      return pattern.found(value);
    };
  }

  #collection({ is, selector, names, body }: Collection, scope: readonly Bound[]): Test {
    const selected = select(selector, scope);
    const kinds = boundKinds(selected, names.length);
    const slot = 1 + (scope.at(-1)?.slot ?? 0);
    const bound = kinds.flatMap((kind, n) => (names[n] ? [{ name: names[n], kind, slot: slot + n }] : []));
    const test = this.compile(body, [...scope, ...bound]);
    return (values) => {
      const holds = (first: unknown, second?: unknown): boolean => {
        this.#spend(1);
        values[slot] = first;
        if (names.length === 2) values[slot + 1] = second;
        return test(values);
      };
      const value = selected.of(values);
      const isList = Array.isArray(value);
      const entries = isList ? value.entries() : Object.entries(typeof value === "object" ? (value ?? {}) : {});
      for (const [key, element] of entries) {
        const held = names.length === 2 ? holds(key, element) : holds(isList ? element : key);
        if (held === (is === "any")) return held;
      }
      return is === "all";
    };
  }

  #spend(steps: number): void {
    this.left -= steps;
    if (this.left < 0) throw new FilterError("filter: takes too much work on these rows");
  }
}

/** The kinds of a collection's bound names. */
function boundKinds({ kind }: Selected, names: number): readonly Kind[] {
  switch (kind.kind) {
    case "any":
      return [kind, kind];
    case "list":
      return names === 1 ? [kind.of] : [integer, kind.of];
    case "map":
      return [string, kind.of];
    default:
      throw unreadable(`any and all work on lists and maps, not on a ${kind.kind}`);
  }
}

function expectKind(kind: Kind, allowed: readonly Kind["kind"][], operation: string, { selector }: Match): void {
  if (kind.kind === "any" || allowed.includes(kind.kind)) return;
  const name = JSON.stringify(selector.join("."));
  throw unreadable(`cannot perform ${operation} operations on type ${kind.kind} for selector: ${name}`);
}

/** Whether a value equals a literal, which must be of its kind. */
function equals(text: string, { kind }: Kind): (value: unknown) => boolean {
  const fail = (parser: string, why: Unreadable) =>
    unreadable(`error getting match value in expression: strconv.${parser}: parsing ${quoted(text)}: ${why}`);
  const whole = readInteger(text);
  const fraction = readNumber(text);
  const truth = readBoolean(text);
  switch (kind) {
    case "string":
      return (value) => value === text;
    case "integer":
      if (typeof whole === "string") throw fail("ParseInt", whole);
      return (value) => value === whole;
    case "number":
      if (typeof fraction === "string") throw fail("ParseFloat", fraction);
      return (value) => value === fraction;
    case "boolean":
      if (typeof truth === "string") throw fail("ParseBool", truth);
      return (value) => value === truth;
    case "any":
      // A refusal never equals a value: values of kind string are compared with the text.
      return (value) => {
        if (typeof value === "string") return value === text;
        if (typeof value === "number") return value === (typeof fraction === "string" ? whole : fraction);
        return value === truth;
      };
    default:
      throw unreadable("unable to find suitable primitive comparison function for matching");
  }
}

function sizeOf(value: unknown): number | null {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return typeof value === "object" && value !== null ? Object.keys(value).length : null;
}
