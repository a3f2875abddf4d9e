import { RE2JS, RE2JSSyntaxException } from "re2js";
import { expect, it } from "vitest";
import { randomFrom } from "../../../../test/crash/random.ts";
import { amount, PROPERTY } from "../../../../test/support/long.ts";
import { compile, type Program } from "./compile.ts";
import { PatternError, parse } from "./parse.ts";
import { run } from "./run.ts";

/*
 * Random regular expressions, well-formed and not, read and run here and by a port of Go's own engine.
 * REGEX_CASES and REGEX_SEED are for longer runs; a failure names its seed.
 */
const CASES = Number(process.env["REGEX_CASES"] ?? amount(1_000, 4_000));
const FIRST_SEED = Number(process.env["REGEX_SEED"] ?? 1);
const TEXTS = 6;
/** Larger programs are refused here, not there. */
const MAX_STEPS = 1_000;

/** Characters that fold in pairs, in threes (K, k and the Kelvin sign), not at all, and that are several units long. */
const CHARS =
  "a|b|A|B|k|K|\u212a|s|S|\u017f|x|0|9|_|-| |\n|\t|\v|\u0000|é|É|ß|ẞ|σ|ς|Σ|İ|ı|i|I|Ω|α|ж|Ж|中|\u01c4|\u01c5|\u0345|\u{10400}|\u{10428}|\u{1f600}|\ud800|\u{10ffff}".split(
    "|",
  );
const SETS =
  "\\d|\\D|\\s|\\S|\\w|\\W|\\pL|\\PL|\\pN|\\p{Lu}|\\P{Lu}|\\p{^Ll}|\\p{Greek}|\\P{Greek}|\\p{Latin}|\\P{^Cyrillic}|\\p{Han}|\\p{Yi}|\\p{Any}|\\P{Any}|\\p{Mn}|\\p{Zs}|\\p{Sc}|\\p{Cc}|\\p{Lt}".split(
    "|",
  );
const NAMED =
  "alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit|^alpha|^ascii|^upper|^word".split(
    "|",
  );
const ESCAPES =
  "\\.|\\\\|\\-|\\]|\\_|\\ |\\n|\\t|\\a|\\f|\\v|\\r|\\x41|\\x{3b1}|\\x{10FFFF}|\\x{1F600}|\\101|\\0|\\07|\\7".split(
    "|",
  );
const BROKEN =
  "(|)|[|]|{|}|*|+|?|\\|^|$|(?|(?i|(?-|(?<|(?P<|(?P=|(?=|(?<!|(?#|\\8|\\x|\\x{|\\xg|\\p|\\p{|\\p{Nope}|\\p{Grek}|\\pX|\\C|\\Z|\\E|\\Q|[:|:]|[[:nope:]]|[b-a]|{1001}|{2,1}|{,2}|{01}|{99999999999}|**|[^|-|\\é".split(
    "|",
  );

function generator(seed: number) {
  const random = randomFrom(seed);
  const below = (n: number) => Math.floor(random() * n);
  const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
  let names = 0;

  const literal = () => pick(CHARS).replace(/[-[\]{}()*+?.\\^$|]/, "\\$&");
  const member = (): string => {
    switch (below(6)) {
      case 0:
        return pick(SETS);
      case 1:
        return `[:${pick(NAMED)}:]`;
      case 2: {
        const [low = "", high = ""] = [pick(CHARS), pick(CHARS)].sort(
          (a, b) => (a.codePointAt(0) ?? 0) - (b.codePointAt(0) ?? 0),
        );
        return `${low === "-" ? "\\-" : low}-${high === "-" ? "\\-" : high}`;
      }
      case 3:
        return pick(ESCAPES);
      default:
        return literal();
    }
  };
  const count = () => {
    const min = below(4);
    return pick([`{${min}}`, `{${min},}`, `{${min},${min + below(3)}}`, "*", "+", "?", "*", "?", "{0}", "{3,10}"]);
  };
  const flags = () => pick(["i", "s", "m", "U", "is", "im-s", "-i", "-sm", "ims", "i-U", ""]);
  const atom = (depth: number): string => {
    switch (below(depth > 0 ? 14 : 8)) {
      case 0:
        return ".";
      case 1:
        return pick(SETS);
      case 2:
        return `[${pick(["", "^"])}${Array.from({ length: 1 + below(3) }, member).join("")}]`;
      case 3:
        return pick(ESCAPES);
      case 4:
        return pick(["^", "$", "\\A", "\\z", "\\b", "\\B", "\\b", "\\B"]);
      case 8:
      case 9:
        return `(${choice(depth - 1)})`;
      case 10:
        return `(?:${choice(depth - 1)})`;
      case 11:
        return `(?${flags()}:${choice(depth - 1)})`;
      case 12:
        return pick([`(?${flags()})`, `(?${flags()})`, `\\Q${pick(CHARS)}*.\\E`]);
      case 13:
        return `(${pick(["?P", "?"])}<n${names++}>${choice(depth - 1)})`;
      default:
        return literal();
    }
  };
  const sequence = (depth: number): string =>
    Array.from({ length: below(4) }, () => atom(depth) + (random() < 0.35 ? count() + pick(["", "", "?"]) : "")).join(
      "",
    );
  const choice = (depth: number): string =>
    Array.from({ length: pick([1, 1, 1, 2, 3]) }, () => sequence(depth)).join("|");

  const pattern = () => {
    const whole = random() < 0.3 ? `(?${pick(["i", "m", "s", "ims"])})${choice(3)}` : choice(3);
    if (random() < 0.7) return whole;
    let broken = whole;
    for (let n = below(3); n >= 0; n--) {
      const at = below(broken.length + 1);
      broken = broken.slice(0, at) + pick(BROKEN) + broken.slice(at + below(2));
    }
    return broken;
  };
  const text = () => Array.from({ length: below(below(2) === 0 ? 4 : 12) }, () => pick(CHARS)).join("");
  return { pattern, text };
}

function ours(pattern: string): Program | string {
  try {
    return compile(parse(pattern), MAX_STEPS);
  } catch (failure) {
    if (!(failure instanceof PatternError)) throw failure;
    return failure.message;
  }
}

function theirs(pattern: string): RE2JS | string {
  try {
    return RE2JS.compile(pattern);
  } catch (failure) {
    if (!(failure instanceof RE2JSSyntaxException)) throw failure;
    return failure.message;
  }
}

/** Where the port reads an expression otherwise than Go does, or says another thing about it. */
const isOutOfStep = (pattern: string, said: RE2JS | string): boolean =>
  pattern.includes("[:]") ||
  /\(\?P?<$/.test(pattern) ||
  (typeof said === "string" && /duplicate capture group name|trailing backslash|expression too large/.test(said));

it("a random regular expression has the same validity and matches as in Go", PROPERTY, () => {
  let [taken, refused, found, compared] = [0, 0, 0, 0];
  for (let seed = FIRST_SEED; seed < FIRST_SEED + CASES; seed++) {
    const { pattern: write, text } = generator(seed);
    const pattern = write();
    const [program, judge] = [ours(pattern), theirs(pattern)];
    if (isOutOfStep(pattern, judge) || /^repeats too much/.test(String(program))) continue;
    const told = `seed ${seed}: ${JSON.stringify(pattern)}`;
    if (typeof program === "string" || typeof judge === "string") {
      expect(program, told).toBe(judge);
      refused += 1;
      continue;
    }
    taken += 1;
    for (let n = 0; n < TEXTS; n++) {
      const searched = text();
      const verdict: boolean = run(program, searched).found;
      if (verdict !== judge.test(searched)) expect.fail(`${told} in ${JSON.stringify(searched)}: said ${verdict}`);
      found += verdict ? 1 : 0;
      compared += 1;
    }
  }
  // Enough random patterns were accepted, refused and found for the comparison to mean something.
  expect(taken).toBeGreaterThan(CASES * 0.6);
  expect(refused).toBeGreaterThan(CASES * 0.1);
  expect(found).toBeGreaterThan(compared * 0.2);
  expect(found).toBeLessThan(compared * 0.8);
});
