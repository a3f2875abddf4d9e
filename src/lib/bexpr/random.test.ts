import { describe, expect, it } from "vitest";
import { randomFrom } from "../../../test/crash/random.ts";
import { amount, PROPERTY } from "../../../test/support/long.ts";
import { compileFilter } from "./compile.ts";
import { FilterError } from "./errors.ts";
import * as kind from "./kinds.ts";
import { readPattern } from "./pattern.ts";

/*
 * Random expressions: written out as text for the filter, and judged by a second evaluator that knows nothing of its
 * parser, its kinds or its missing values.
 */

const EXPRESSIONS = amount(1_000, 4_000);
const TEXTS = amount(2_500, 10_000);

const FIELDS = kind.record<Row>({
  Name: kind.string,
  Size: kind.integer,
  Ok: kind.boolean,
  Tags: kind.list(kind.string),
  Meta: kind.map(kind.string),
  Opts: kind.struct({ Type: kind.string, Depth: kind.integer }),
  Caps: kind.list(kind.struct({ Mode: kind.string, Count: kind.integer })),
  Open: kind.any,
});

interface Row {
  Name?: string;
  Size: number;
  Ok: boolean;
  Tags: string[] | null;
  Meta: Record<string, string> | null;
  Opts: { Type: string; Depth: number } | null;
  Caps: { Mode: string; Count: number }[];
  Open: unknown;
}

/** An expression: its text, how tightly it binds, and what it says of a row and of the names around it. */
interface Said {
  readonly text: string;
  readonly binds: "or" | "and" | "not" | "match" | "collection";
  readonly holds: (row: Row, names: Names) => boolean;
}
type Names = Readonly<Record<string, unknown>>;

function generator(seed: number) {
  const random = randomFrom(seed);
  const below = (n: number) => Math.floor(random() * n);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
  const chance = (share: number) => random() < share;
  const words = ["a", "b", "ab", "c", "x"] as const;
  const space = () => pick([" ", "  ", "\n", "\t "]);
  const maybe = () => (chance(0.3) ? space() : "");
  const quote = (text: string) => (/^[a-z]+$/.test(text) ? pick([text, `"${text}"`, `\`${text}\``]) : `"${text}"`);

  const row = (): Row => ({
    ...(chance(0.8) ? { Name: pick(["", ...words]) } : {}),
    Size: below(4),
    Ok: chance(0.5),
    Tags: chance(0.2) ? null : Array.from({ length: below(3) }, () => pick(words)),
    Meta: chance(0.2) ? null : Object.fromEntries(Array.from({ length: below(3) }, () => [pick(words), pick(words)])),
    Opts: chance(0.3) ? null : { Type: pick(words), Depth: below(3) },
    Caps: Array.from({ length: below(3) }, () => ({ Mode: pick(words), Count: below(3) })),
    Open: pick<unknown>([undefined, null, "a", 2, true, ["a", 2], { a: "b", c: { a: 1 } }]),
  });

  /** Strings that an expression can name here, and how to get them. */
  const texts = (names: readonly string[]) => {
    const key = pick(words);
    const at = below(2);
    return pick<{ path: string; get: (row: Row, bound: Names) => unknown }>([
      { path: "Name", get: (each) => each.Name },
      { path: pick([`Meta.${key}`, `Meta["${key}"]`, `"/Meta/${key}"`]), get: (each) => each.Meta?.[key] },
      { path: pick(["Opts.Type", '"/Opts/Type"', "Opts[`Type`]"]), get: (each) => each.Opts?.Type },
      { path: `Tags.${at}`, get: (each) => each.Tags?.[at] },
      { path: `Caps.${at}.Mode`, get: (each) => each.Caps[at]?.Mode },
      ...names.map((name) => ({ path: name, get: (_: Row, bound: Names) => bound[name] })),
    ]);
  };

  const match = (names: readonly string[]): Said => {
    const word = pick(words);
    const negated = chance(0.4);
    const said = (text: string, plain: (row: Row, bound: Names) => boolean): Said => ({
      text,
      binds: "match",
      holds: (each, bound) => plain(each, bound) !== negated,
    });
    const not = negated ? `not${space()}` : "";
    const equal = `${maybe()}${negated ? "!=" : "=="}${maybe()}`;
    switch (below(9)) {
      case 0: {
        const { path, get } = texts(names);
        return said(`${path}${equal}${quote(word)}`, (each, bound) => get(each, bound) === word);
      }
      case 1: {
        const size = below(4);
        return said(`Size${equal}${pick([`${size}`, `"0x${size}"`])}`, (each) => each.Size === size);
      }
      case 2:
        return said(`Ok${equal}${pick(["true", "1", "T"])}`, (each) => each.Ok);
      case 3: {
        const { path, get } = texts(names);
        const text = pick([
          `${path}${space()}${not}contains${space()}${quote(word)}`,
          `${quote(word)}${space()}${not}in${space()}${path}`,
        ]);
        return said(text, (each, bound) => String(get(each, bound) ?? "").indexOf(word) !== -1);
      }
      case 4:
        return said(
          `${quote(word)}${space()}${not}in${space()}Tags`,
          (each) => each.Tags?.find((tag) => tag === word) !== undefined,
        );
      case 5:
        return said(`Meta${space()}${not}contains${space()}${quote(word)}`, (each) =>
          Object.keys(each.Meta ?? {}).some((key) => key === word),
        );
      case 6: {
        const { path, get } = texts(names);
        const pattern = pick(["^a", "b$", "^(a|c)+$", "."]);
        return said(`${path}${space()}${not}matches${space()}\`${pattern}\``, (each, bound) => {
          const text = get(each, bound);
          return text !== undefined && String(text).search(new RegExp(pattern)) >= 0;
        });
      }
      case 7: {
        const { path, length } = pick<{ path: string; length: (row: Row) => number }>([
          { path: "Tags", length: (each) => each.Tags?.length ?? 0 },
          { path: "Meta", length: (each) => Object.keys(each.Meta ?? {}).length },
          { path: "Opts.Type", length: (each) => each.Opts?.Type.length ?? 0 },
          { path: "Caps", length: (each) => each.Caps.length },
        ]);
        return said(`${path}${space()}is${space()}${not}empty`, (each) => length(each) === 0);
      }
      default: {
        const name = pick(["Tags", "Meta", "Opts", "Open"] as const);
        return said(
          `${name}${space()}is${space()}${not}nil`,
          (each) => each[name] === null || each[name] === undefined,
        );
      }
    }
  };

  const collection = (depth: number, names: readonly string[]): Said => {
    const is = pick(["any", "all"]);
    const quantified = (items: readonly Names[], body: Said, each: Row, bound: Names) => {
      const results = items.map((item) => body.holds(each, { ...bound, ...item }));
      return is === "any" ? results.includes(true) : !results.includes(false);
    };
    const name = `n${names.length}`;
    const wrap = (head: string, body: Said, items: (row: Row, bound: Names) => readonly Names[]): Said => ({
      text: `${is}${space()}${head}${maybe()}{${maybe()}${body.text}${space()}}`,
      binds: "collection",
      holds: (each, bound) => quantified(items(each, bound), body, each, bound),
    });
    const body = expression(depth - 1, [...names, name]);
    switch (below(4)) {
      case 0:
        return wrap(`Tags as ${name}`, body, (each) => (each.Tags ?? []).map((tag) => ({ [name]: tag })));
      case 1:
        return wrap(`Meta as ${name}`, body, (each) => Object.keys(each.Meta ?? {}).map((key) => ({ [name]: key })));
      case 2:
        return wrap(`Meta as _${maybe()},${maybe()}${name}`, body, (each) =>
          Object.values(each.Meta ?? {}).map((value) => ({ [name]: value })),
        );
      default: {
        const count = below(3);
        const inner: Said = {
          text: `${name}.Count == ${count}`,
          binds: "match",
          holds: (_each, bound) => (bound[name] as { Count: number }).Count === count,
        };
        return wrap(`Caps as ${name}`, inner, (each) => each.Caps.map((cap) => ({ [name]: cap })));
      }
    }
  };

  const parenthesised = (said: Said): string => `(${maybe()}${said.text}${maybe()})`;
  /** In parentheses where it must be, and now and then where it need not. */
  const within = (said: Said, loose: readonly Said["binds"][]): string =>
    loose.includes(said.binds) || chance(0.1) ? parenthesised(said) : said.text;

  function expression(depth: number, names: readonly string[]): Said {
    if (depth <= 0) return match(names);
    switch (below(6)) {
      case 0:
      case 1: {
        const terms = Array.from({ length: 2 + below(2) }, () => expression(depth - 1, names));
        const text = terms.map((term) => within(term, ["or", "collection"])).join(`${space()}and${space()}`);
        return { text, binds: "and", holds: (each, bound) => !terms.some((term) => !term.holds(each, bound)) };
      }
      case 2:
      case 3: {
        const terms = Array.from({ length: 2 + below(2) }, () => expression(depth - 1, names));
        const text = terms
          // A collection may stand last; so may an `or` that ends with one, as `or` joins to the right.
          .map((term, n) => within(term, n === terms.length - 1 ? [] : ["or", "collection"]))
          .join(`${space()}or${space()}`);
        return {
          text,
          binds: "or",
          holds: (each, bound) => terms.filter((term) => term.holds(each, bound)).length > 0,
        };
      }
      case 4: {
        const term = expression(depth - 1, names);
        const text = `not${space()}${within(term, ["or", "and", "collection"])}`;
        return { text, binds: "not", holds: (each, bound) => !term.holds(each, bound) };
      }
      default:
        return collection(depth, names);
    }
  }
  return { row, expression, below, pick };
}

describe("a random expression", () => {
  it("has the same result as the reference evaluator", PROPERTY, () => {
    let held = 0;
    for (let seed = 1; seed <= EXPRESSIONS; seed++) {
      const { row, expression, below } = generator(seed);
      const said = expression(below(4), []);
      const filter = compileFilter<Row>(said.text, FIELDS);
      for (let n = 0; n < 5; n++) {
        const each = row();
        const expected = said.holds(each, {});
        held += expected ? 1 : 0;
        expect(filter(each), `seed ${seed}: ${said.text} of ${JSON.stringify(each)}`).toBe(expected);
      }
    }
    // Were all of them true, or none, nothing would have been tried.
    expect(held).toBeGreaterThan(EXPRESSIONS);
    expect(held).toBeLessThan(4 * EXPRESSIONS);
  });

  it("with random changes is accepted or returns an error", PROPERTY, () => {
    let refused = 0;
    for (let seed = 1; seed <= TEXTS; seed++) {
      const { row, expression, below, pick } = generator(seed);
      const { text } = expression(below(4), []);
      const at = below(text.length);
      const junk = pick([
        "",
        "(",
        ")",
        '"',
        "`",
        "{",
        "}",
        "[",
        "\\",
        ".",
        " ",
        "not ",
        "any ",
        "\u0000",
        "\ud800",
        "0",
      ]);
      refused += tried(text.slice(0, at) + junk + text.slice(at + below(3)), row()) ? 0 : 1;
    }
    expect(refused).toBeGreaterThan(TEXTS / 5);
  });
});

/** Whether a filter was taken; whatever else than a refusal happens fails the test. */
function tried(text: string, row: Row): boolean {
  try {
    compileFilter<Row>(text, FIELDS)(row);
    return true;
  } catch (failure) {
    expect(failure, `for ${JSON.stringify(text)}`).toBeInstanceOf(FilterError);
    return false;
  }
}

const PIECES =
  'Name|Size|Tags|Meta|Caps|Open|==|!=|in|not|and|or|is|empty|nil|matches|contains|any|all|as|{|}|(|)|[|]|.|,|_|"|`|a|0|1.5|-|/|~|\\|\n| |  |é|\u{1f600}|\ud800|\u0000'.split(
    "|",
  );
const PATTERN_PIECES =
  "a|b|.|*|+|?|{2}|{1,3}|{,|(|)|[|]|^|$|\\|\\d|\\pL|\\b|(?i)|(?:|(?P<n>|[[:alpha:]]|[^-]|||-|é|\ud800|{999}".split("|");

describe("random text", () => {
  it("as a filter is accepted or returns an error", PROPERTY, () => {
    for (let seed = 1; seed <= 2 * TEXTS; seed++) {
      const { below, pick, row } = generator(seed);
      const glue = pick(["", " "]);
      tried(Array.from({ length: below(24) }, () => pick(PIECES)).join(glue), row());
    }
  });

  it("as a regular expression is accepted or returns an error", PROPERTY, () => {
    for (let seed = 1; seed <= 2 * TEXTS; seed++) {
      const { below, pick } = generator(seed);
      const pattern = readPattern(Array.from({ length: below(16) }, () => pick(PATTERN_PIECES)).join(""));
      if (typeof pattern === "string") continue;
      expect(pattern.found(Array.from({ length: below(40) }, () => pick(PIECES)).join(""))).toBeTypeOf("boolean");
    }
  });
});
