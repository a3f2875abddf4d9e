import { describe, expect, it } from "vitest";
import { type Pattern, readPattern } from "./pattern.ts";

const found = (pattern: string, text: string): boolean => (readPattern(pattern) as Pattern).found(text);

describe("a regular expression", () => {
  it.each([
    ["b", "abc"],
    ["^abc$", "abc"],
    ["\\Aabc\\z", "abc"],
    ["(?i)ABC", "abc"],
    ["(?s)a.b", "a\nb"],
    ["(?m)^b$", "a\nb\nc"],
    ["(?i:A)b", "ab"],
    ["(?:ab)+c", "ababc"],
    ["(?P<n>a)(?<m>b)", "ab"],
    ["a|b|", ""],
    ["^a{2,3}$", "aaa"],
    ["^a{2,}?$", "aaaa"],
    ["^a*?b+?c??$", "aab"],
    ["\\d\\w\\s\\D\\W\\S", "1a b-c"],
    ["[[:alpha:]][^[:digit:]]", "ab"],
    ["[\\d_-]", "-"],
    ["\\pL\\p{Greek}\\PL", "éα1"],
    ["\\x41\\x{1f600}\\.", "A\u{1f600}."],
    ["\\Qa.b\\E", "a.b"],
    ["\\bfoo\\b", "a foo b"],
    ["^.$", "\u{1f600}"],
    ["", "anything"],
  ])("%s matches %j", (pattern, text) => {
    expect(found(pattern, text)).toBe(true);
  });

  it.each([
    ["^b", "abc"],
    ["ABC", "abc"],
    ["a.b", "a\nb"],
    ["^a{2,3}$", "aaaa"],
    ["\\pL", "123"],
    ["\\bfoo\\b", "afoob"],
    ["\\d", "٣"],
    ["^$", "a"],
  ])("%s does not match %j", (pattern, text) => {
    expect(found(pattern, text)).toBe(false);
  });

  it.each(["(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", "(a*)*b"])(
    "%s takes bounded time on a long text",
    (pattern) => {
      expect(found(pattern, `${"a".repeat(16_000)}!`)).toBe(false);
      expect(found(pattern, `${"x".repeat(16_000)}!`)).toBe(false);
    },
  );

  it.each([
    ["(", /missing closing \)/],
    ["[", /missing closing \]/],
    ["*", /missing argument to repetition operator/],
    ["a**", /invalid nested repetition/],
    ["a{2,1}", /invalid repeat count/],
    ["\\", /trailing backslash/],
    ["(?=a)", /^look-around is not supported$/],
    ["(?!a)b", /^look-around is not supported$/],
    ["(?<=a)b", /^look-around is not supported$/],
    ["(?<!a)b", /^look-around is not supported$/],
    ["(a)\\1", /^back-references are not supported$/],
    ["(?P<n>a)(?P=n)", /^back-references are not supported$/],
    ["(?<n>a)\\k<n>", /^back-references are not supported$/],
    ["\\(?=[", /missing closing \]/],
    ["(((a{30}){30}){30})", /invalid repeat count|repeats too much/],
    ["(?:abc){334}", /^repeats too much/],
    ["a".repeat(513), /^longer than 512 characters$/],
    ["(".repeat(512), /./],
  ])("%s returns an error", (pattern, why) => {
    expect(readPattern(pattern)).toMatch(why);
  });
});
