import { describe, expect, it } from "vitest";
import { parse } from "./parse.ts";

const said = (pattern: string): string => {
  try {
    parse(pattern);
    return "taken";
  } catch (failure) {
    return (failure as Error).message.replace("error parsing regexp: ", "");
  }
};

describe("an invalid regular expression returns Go's error message:", () => {
  it.each([
    ["(a", "missing closing ): `(a`"],
    ["((a)", "missing closing ): `((a)`"],
    ["a)", "unexpected ): `a)`"],
    ["x[a", "missing closing ]: `[a`"],
    ["x[]", "missing closing ]: `[]`"],
    ["x[a-", "missing closing ]: `[a-`"],
    ["*", "missing argument to repetition operator: `*`"],
    ["a|+?b", "missing argument to repetition operator: `+?`"],
    ["(?i)?", "missing argument to repetition operator: `?`"],
    ["{2}", "missing argument to repetition operator: `{2}`"],
    ["a**b", "invalid nested repetition operator: `**`"],
    ["a*?{2}?b", "invalid nested repetition operator: `*?{2}?`"],
    ["a{2,1}", "invalid repeat count: `{2,1}`"],
    ["a{1001}", "invalid repeat count: `{1001}`"],
    ["a{1,1001}", "invalid repeat count: `{1,1001}`"],
    ["a{1001,}", "invalid repeat count: `{1001,}`"],
    ["(a{2}){501}", "invalid repeat count: `{501}`"],
    ["((x{0}){500}){1000}?", "invalid repeat count: `{1000}?`"],
    ["a\\", "trailing backslash at end of expression: ``"],
    ["[\\", "trailing backslash at end of expression: ``"],
    ["\\é", "invalid escape sequence: `\\é`"],
    ["\\ya", "invalid escape sequence: `\\y`"],
    ["\\8", "invalid escape sequence: `\\8`"],
    ["\\1a", "invalid escape sequence: `\\1`"],
    ["\\C", "invalid escape sequence: `\\C`"],
    ["\\x4", "invalid escape sequence: `\\x4`"],
    ["\\xg12", "invalid escape sequence: `\\xg1`"],
    ["\\x{}", "invalid escape sequence: `\\x{}`"],
    ["\\x{1g}", "invalid escape sequence: `\\x{1g`"],
    ["\\x{1100000}", "invalid escape sequence: `\\x{110000`"],
    ["[\\b]", "invalid escape sequence: `\\b`"],
    ["[a-\\d]", "invalid escape sequence: `\\d`"],
    ["[b-a]", "invalid character class range: `b-a`"],
    ["[[:nope:]]", "invalid character class range: `[:nope:]`"],
    ["\\p", "invalid character class range: `\\p`"],
    ["\\p{Greek", "invalid character class range: `\\p{Greek`"],
    ["\\p{Nope}a", "invalid character class range: `\\p{Nope}`"],
    ["\\p{Grek}", "invalid character class range: `\\p{Grek}`"],
    ["\\p{Alphabetic}", "invalid character class range: `\\p{Alphabetic}`"],
    ["(?P<n", "invalid named capture: `(?P<n`"],
    ["(?<a b>c)", "invalid named capture: `(?<a b>`"],
    ["(?<>c)", "invalid named capture: `(?<>`"],
    ["(?i", "invalid or unsupported Perl syntax: `(?i`"],
    ["(?ix)", "invalid or unsupported Perl syntax: `(?ix`"],
    ["(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"],
    ["(?-:a)", "invalid or unsupported Perl syntax: `(?-:`"],
    ["(?#a)", "invalid or unsupported Perl syntax: `(?#`"],
    ["(?=a)", "invalid or unsupported Perl syntax: `(?=`"],
  ])("%s: %s", (pattern, message) => {
    expect(said(pattern)).toBe(message);
  });

  it.each([
    "a{",
    "a{1",
    "a{01}",
    "a{,2}",
    "a{1,x}",
    "}",
    "]",
    "[]a]",
    "[^]a]",
    "[-a-]",
    "[[:]",
    "[[:alpha]",
    "()",
    "(|)",
    "|",
    "(?)",
    "\\_",
    "\\-",
    "\\Q(",
    "a\\Q\\E*",
    "a(?i)*",
    "a*(?i)*",
    "(?P<n>a)(?P<n>b)",
    "(x{0}){1000}",
    "(?:(?:x{1000}){0}){2}",
    "\\p{Lao}",
    "\\p{Yi}",
    "\\p{Old_Italic}",
  ])("%s is valid", (pattern) => {
    expect(said(pattern)).toBe("taken");
  });
});
