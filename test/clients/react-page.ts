import { readFileSync } from "node:fs";

const PAGE = readFileSync("docs/guides/react-to-changes.md", "utf8");

/** The first block of the page "React to a changed secret" in a language that contains a text. */
export function pageBlock(language: string, text: string): string {
  const blocks = [...PAGE.matchAll(/```(\w+)\n(.*?)```/gs)];
  const found = blocks.find(([, named, code = ""]) => named === language && code.includes(text))?.[2];
  if (found === undefined) throw new Error(`the page has no ${language} with ${text}`);
  return found;
}
