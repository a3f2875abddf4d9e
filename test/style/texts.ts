import { readFileSync } from "node:fs";

/** A piece of prose in the repository: a comment, a test name, a message of the product, or a paragraph of a page. */
export interface Text {
  readonly kind: "comment" | "test name" | "message" | "page";
  readonly line: number;
  readonly text: string;
}

/** The prose of one file, by its suffix. */
export function textsOf(path: string): Text[] {
  const lines = readFileSync(path, "utf8").split("\n");
  if (path.endsWith(".md")) return pageTexts(lines);
  return [...comments(lines), ...testNames(lines), ...(isProduct(path) ? messages(lines) : [])];
}

const isProduct = (path: string): boolean =>
  /^(src|agent\/src|packages\/[^/]+\/src|console\/src|scripts)\//.test(path) && !/\.test\.tsx?$/.test(path);

/** String literals of a line that hold at least three words: error texts, API descriptions, labels. */
function messages(lines: readonly string[]): Text[] {
  const literal = /"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g;
  return lines.flatMap((line, index) => {
    if (/^\s*(?:\/\/|\*|\/\*)/.test(line)) return [];
    return [...line.matchAll(literal)]
      .map(([, double, single, template]) => double ?? single ?? template ?? "")
      .filter((text) => /\w+ \w+ \w+/.test(text.replace(/\$\{[^}]*\}/g, "x")))
      .map((text) => ({ kind: "message", line: index + 1, text: text.replace(/\$\{[^}]*\}/g, "x") }) as const);
  });
}

/** Paragraphs outside code blocks, without inline code. */
function pageTexts(lines: readonly string[]): Text[] {
  const texts: Text[] = [];
  let inCode = false;
  for (const [index, line] of lines.entries()) {
    if (/^\s*(```|~~~)/.test(line)) inCode = !inCode;
    else if (!inCode && line.trim() !== "") {
      texts.push({ kind: "page", line: index + 1, text: line.replace(/`[^`]*`/g, "") });
    }
  }
  return texts;
}

/** Comment blocks: adjacent comment lines are one text. A comment behind code is a separate text. */
function comments(lines: readonly string[]): Text[] {
  const texts: Text[] = [];
  let block: { line: number; parts: string[] } | null = null;
  let isOpen = false;
  const end = () => {
    if (block) texts.push({ kind: "comment", line: block.line, text: block.parts.join(" ").trim() });
    block = null;
  };
  for (const [index, raw] of lines.entries()) {
    const line = raw.trim();
    const isComment = isOpen || line.startsWith("//") || line.startsWith("/*");
    if (!isComment) {
      end();
      const behind = /[;,{})\]]\s+\/\/\s(.*)$/.exec(line)?.[1];
      if (behind !== undefined) texts.push({ kind: "comment", line: index + 1, text: behind });
      continue;
    }
    if (!isOpen && line.startsWith("/*")) end();
    block ??= { line: index + 1, parts: [] };
    block.parts.push(line.replace(/^(\/\*+|\*\/|\*|\/\/)\s?/, "").replace(/\*\/.*$/, ""));
    if (line.startsWith("/*")) isOpen = true;
    if (isOpen && line.includes("*/")) {
      isOpen = false;
      end();
    }
  }
  end();
  return texts;
}

function testNames(lines: readonly string[]): Text[] {
  const name = /\b(?:it|describe|test)(?:\.\w+)*(?:\([^"'`]*\))?\(\s*(["'`])(.*?)\1\s*,/;
  return lines.flatMap((line, index) => {
    const text = name.exec(line)?.[2];
    return text === undefined ? [] : [{ kind: "test name", line: index + 1, text } as const];
  });
}
