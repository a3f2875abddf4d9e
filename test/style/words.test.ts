import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { type Text, textsOf } from "./texts.ts";

/** Sentences whose subject is a pronoun instead of a noun of the field. */
const OPENER = /(?:^|[.:;!?]\s+)(What|Who|Whoever|Whom)\b/;
const WORD = /\b(anew|came of|comes of|whoever|nobody|somebody)\b/i;

const files = execFileSync("git", ["ls-files", "*.ts", "*.tsx", "*.mts", "*.mjs", "*.md"], { encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && existsSync(path) && !path.startsWith("test/style/"));

const faultOf = ({ kind, text }: Text): string | undefined =>
  (kind === "comment" ? OPENER.exec(text)?.[1] : undefined) ?? WORD.exec(text)?.[1];

it("finds no words in comments, pages, messages and test names that replace a noun of the field", () => {
  const faults = files.flatMap((path) =>
    textsOf(path).flatMap((text) => {
      const word = faultOf(text);
      return word === undefined ? [] : [`${path}:${text.line} ${word}: ${text.text.slice(0, 120)}`];
    }),
  );
  expect(faults).toEqual([]);
});

it.each([
  ["comment", "What a promise comes to.", "What"],
  ["comment", "Returns rows. Whoever asks gets them.", "Whoever"],
  ["comment", "Opens the key anew.", "anew"],
  ["test name", "is for nobody else", "nobody"],
  ["message", "the object is being changed by somebody else", "somebody"],
  ["page", "What it is", undefined],
  ["comment", "Resolves with the value, or rejects after `ms`.", undefined],
] as const)("classifies the %s %j", (kind, text, word) => {
  expect(faultOf({ kind, text, line: 1 })).toBe(word);
});
