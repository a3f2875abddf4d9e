import { describe, expect, it } from "vitest";
import { compile } from "./compile.ts";
import { PatternError, parse } from "./parse.ts";
import { run } from "./run.ts";

const program = (pattern: string, most = 1_000) => compile(parse(pattern), most);
const found = (pattern: string, text: string): boolean => run(program(pattern), text).found;

/** Which of the characters a pattern takes whole. */
const taking = (pattern: string, chars: string): string =>
  Array.from(chars)
    .filter((char) => found(`^${pattern}$`, char))
    .join("");

describe("a character class", () => {
  it.each([
    [".", "a\né\u{1f600}", "aé\u{1f600}"],
    ["(?s).", "a\n", "a\n"],
    ["\\d", "5x٣", "5"],
    ["\\D", "5x٣", "x٣"],
    ["\\w", "a_5é-", "a_5"],
    ["\\s", " \t\n\f\r\v\u00a0", " \t\n\f\r"],
    ["[[:space:]]", " \t\n\f\r\v\u00a0", " \t\n\f\r\v"],
    ["[[:punct:]]", "!/:@[`{~a1 ", "!/:@[`{~"],
    ["[[:^alpha:]]", "aZ1é", "1é"],
    ["[^a-c\\d]", "abcd5e", "de"],
    ["[]a]", "]ab", "]a"],
    ["[a-]", "a-b", "a-"],
    ["[+--]", "+,-.", "+,-"],
    ["[\\]\\\\]", "]\\a", "]\\"],
    ["\\pL", "aé1ж", "aéж"],
    ["\\PL", "aé1ж", "1"],
    ["\\p{^L}", "aé1ж", "1"],
    ["\\P{^Greek}", "αa", "α"],
    ["\\p{Assigned}", "a\u0378", "a"],
    ["\\x41|\\x{1f600}|\\101|\\07", "A\u{1f600}B\u0007", "A\u{1f600}\u0007"],
    ["[\\a\\f\\n\\r\\t\\v]", "\u0007\f\n\r\t\va", "\u0007\f\n\r\t\v"],
    ["[^\\x00-\\x{10FFFF}]", "a\u{10ffff}", ""],
  ])("%s matches of %j the characters %j", (pattern, chars, taken) => {
    expect(taking(pattern, chars)).toBe(taken);
  });

  it.each([
    ["(?i)k", "kK\u212ax", "kK\u212a"],
    ["(?i)[r-t]", "rsTſu", "rsTſ"],
    ["(?i)σ", "σςΣs", "σςΣ"],
    ["(?i)ß", "ßẞs", "ßẞ"],
    ["(?i)i", "iIİı", "iI"],
    ["(?i)[^k]", "kK\u212ax", "x"],
    ["(?i)\\w", "kſ\u212a", "kſ\u212a"],
    ["(?i)\\W", "kſ\u212aé", "é"],
    ["(?i)\\p{Lu}", "aA1", "aA"],
    ["(?i)\\P{Lu}", "aA1", "1"],
    ["(?i)(?-i)a", "aA", "a"],
    ["(?i:a)|b", "aAbB", "aAb"],
    ["(?:(?i)a)|b", "aAbB", "aAb"],
    ["(?:x|(?i)a|b)", "aAbB", "aAbB"],
  ])("without case: %s matches of %j the characters %j", (pattern, chars, taken) => {
    expect(taking(pattern, chars)).toBe(taken);
  });
});

it("classes of the same characters differ by case and by negation", () => {
  expect(found("^[a][^a](?i)[a]$", "abA")).toBe(true);
  expect(found("^[a][^a](?i)[a]$", "aaA")).toBe(false);
  expect(found("^[a][^a](?i)[a]$", "AbA")).toBe(false);
});

describe("an anchor", () => {
  it.each([
    ["^b", "a\nb", false],
    ["(?m)^b", "a\nb", true],
    ["a$", "a\nb", false],
    ["a$", "a\n", false],
    ["(?m)a$", "a\nb", true],
    ["(?m)\\Ab", "a\nb", false],
    ["(?m)a\\z", "a\nb", false],
    ["\\bb", "a b", true],
    ["\\bb", "ab", false],
    ["\\Bb", "ab", true],
    ["a\\b", "a_", false],
    ["é\\bb", "éb", true],
    ["\\b", "", false],
    ["\\B", "", true],
    ["(?:^|,)b(?:,|$)", "a,b", true],
    ["^*b", "ab", true],
    ["(?:$)+", "a", true],
  ])("%s in %j: %s", (pattern, text, expected) => {
    expect(found(pattern, text)).toBe(expected);
  });
});

describe("a quantifier", () => {
  it.each([
    ["a*", [0, 1, 2, 3, 4, 5]],
    ["a+?", [1, 2, 3, 4, 5]],
    ["a?", [0, 1]],
    ["a{2}", [2]],
    ["a{0}", [0]],
    ["a{0,2}", [0, 1, 2]],
    ["a{2,}", [2, 3, 4, 5]],
    ["a{2,4}?", [2, 3, 4]],
    ["(?U)a{3,}", [3, 4, 5]],
    ["(?:aa){1,2}", [2, 4]],
    ["(?:a{2}){2}", [4]],
    ["(?:a*)*", [0, 1, 2, 3, 4, 5]],
    ["(?:|a)+", [0, 1, 2, 3, 4, 5]],
    ["(?:a|)*aa", [2, 3, 4, 5]],
    ["\\Qaa\\E{2}", [3]],
    ["a(?i){2}", [2]],
  ])("%s matches the lengths %j", (pattern, counts) => {
    const taken = [0, 1, 2, 3, 4, 5].filter((n) => found(`^(?:${pattern})$`, "a".repeat(n)));
    expect(taken).toEqual(counts);
  });
});

describe("the run time", () => {
  it.each(["(a*)*b", "(a|a)*b", ".*.*.*x", "(.*a){20}$", "((a?){30}){10}b", "(x+x+)+y", "^(a|aa)+$", "(?:a?){400}b"])(
    "of %s is linear in the text and in the program",
    (pattern) => {
      const steps = program(pattern).steps.length;
      for (const length of [100, 200, 400, 6_400]) {
        const { found: isFound, taken } = run(program(pattern), `${"a".repeat(length)}!`);
        expect(isFound).toBe(false);
        // Once a step for each character, and for the end.
        expect(taken).toBeLessThanOrEqual(steps * (length + 2));
      }
    },
  );

  it("ends with the first match", () => {
    expect(run(program("b"), `ab${"a".repeat(10_000)}`).taken).toBeLessThan(10);
  });

  it.each(["a{300}", "(?:a{10}){100}", "(?:a|b){200}", "(?:(?:a?){10}){50}", "[ab]{600,}"])(
    "of %s is bounded by the size limit of programs",
    (pattern) => {
      expect(() => program(pattern, 299)).toThrow(PatternError);
      expect(program(pattern, 2_000).steps.length).toBeLessThanOrEqual(2_000);
    },
  );
});
