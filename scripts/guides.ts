/**
 * The guides as trees, which the console draws without making HTML from texts. Reads the Markdown that `docs/` uses:
 * headings, paragraphs, lists, tables, code, quotes, and in a line code, links and emphasis. Links between pages become
 * places of the console; those to other files lose their target.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

/** A text, or an element: its name, its attributes, its content. */
export type GuideNode = string | readonly [tag: string, attributes: Readonly<Record<string, string>>, ...GuideNode[]];

export interface Guide {
  readonly title: string;
  readonly content: readonly GuideNode[];
}

const FOLDERS = ["start", "guides", "guides/integrations", "operate", "reference"];

/** Guides by their names in addresses, such as `guides/secrets`. */
export function readGuides(docs: string): Map<string, Guide> {
  const names = FOLDERS.flatMap((folder) =>
    existsSync(join(docs, folder))
      ? readdirSync(join(docs, folder))
          .filter((file) => file.endsWith(".md"))
          .map((file) => `${folder}/${file.slice(0, -".md".length)}`)
      : [],
  );
  return new Map(names.map((name) => [name, guideOf(readFileSync(join(docs, `${name}.md`), "utf8"), name, names)]));
}

/** @param name of the page, which its links start from; @param names of all pages */
export function guideOf(text: string, name: string, names: readonly string[]): Guide {
  const hrefOf = (target: string): string | null => {
    if (/^https?:/.test(target)) return target;
    const [path = "", anchor] = target.split("#", 2);
    const page = path === "" ? name : posix.join(posix.dirname(name), path).replace(/\.md$/, "");
    if (!names.includes(page)) return null;
    return `/ui/guides/${page}${anchor === undefined ? "" : `?at=${anchor}`}`;
  };
  const content = blocks(text.replace(/<!--[\s\S]*?-->\n?/g, "").split("\n"), hrefOf);
  const title = content.findIndex((node) => typeof node !== "string" && node[0] === "h1");
  return {
    title: title < 0 ? name : textOf(content[title] ?? ""),
    content: content.filter((_, at) => at !== title),
  };
}

type HrefOf = (target: string) => string | null;

const textOf = (node: GuideNode): string =>
  typeof node === "string"
    ? node
    : node
        .slice(2)
        .map((part) => textOf(part as GuideNode))
        .join("");

/** The anchor of a heading, as GitHub makes it. */
const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");

const ITEM = /^(\s*)([-*]|\d+\.)\s+/;
const FENCE = /^\s*```/;

function blocks(lines: readonly string[], hrefOf: HrefOf): GuideNode[] {
  const found: GuideNode[] = [];
  let at = 0;
  const take = (isPart: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && isPart(lines[at] ?? "")) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const [, marks = "", heading = ""] = /^(#{1,6}) (.*)$/.exec(line) ?? [];
    if (line.trim() === "") at++;
    else if (marks !== "") {
      const content = inline(heading, hrefOf);
      found.push([`h${marks.length}`, { id: slugOf(textOf(["", {}, ...content])) }, ...content]);
      at++;
    } else if (FENCE.test(line)) {
      at++;
      const code = take((each) => !FENCE.test(each));
      at++;
      found.push(["pre", {}, ["code", {}, code.join("\n")]]);
    } else if (line.startsWith("|"))
      found.push(
        table(
          take((each) => each.startsWith("|")),
          hrefOf,
        ),
      );
    else if (line.startsWith(">"))
      found.push([
        "blockquote",
        {},
        ...blocks(
          take((each) => each.startsWith(">")).map((each) => each.replace(/^> ?/, "")),
          hrefOf,
        ),
      ]);
    else if (ITEM.test(line)) {
      const tag = /^\s*\d/.test(line) ? "ol" : "ul";
      found.push([
        tag,
        {},
        ...list(
          take((each) => isOfList(each, lines[at + 1] ?? "")),
          hrefOf,
        ),
      ]);
    } else {
      const paragraph = take(
        (each) => each.trim() !== "" && !FENCE.test(each) && !/^(#{1,6} |\||>)/.test(each) && !ITEM.test(each),
      );
      found.push(["p", {}, ...inline(paragraph.join(" "), hrefOf)]);
    }
  }
  return found;
}

/** A line of a list is an item, or indented, or an empty line before one of these. */
const isOfList = (line: string, next: string): boolean =>
  ITEM.test(line) || /^\s+\S/.test(line) || (line.trim() === "" && (ITEM.test(next) || /^\s+\S/.test(next)));

function list(lines: readonly string[], hrefOf: HrefOf): GuideNode[] {
  const items: string[][] = [];
  const depth = /^\s*/.exec(lines[0] ?? "")?.[0].length ?? 0;
  for (const line of lines) {
    const [begin = "", indent = ""] = ITEM.exec(line) ?? [];
    if (begin !== "" && indent.length === depth) items.push([line.slice(begin.length)]);
    else items.at(-1)?.push(line);
  }
  return items.map(([first = "", ...rest]) => {
    const indent = Math.min(...rest.filter((line) => line.trim()).map((line) => /^\s*/.exec(line)?.[0].length ?? 0));
    const content = blocks([first, ...rest.map((line) => line.slice(indent))], hrefOf);
    const [only] = content;
    const isText = content.length === 1 && typeof only !== "string" && only?.[0] === "p";
    return ["li", {}, ...(isText ? (only.slice(2) as GuideNode[]) : content)];
  });
}

function table(lines: readonly string[], hrefOf: HrefOf): GuideNode {
  const [head = [], , ...rows] = lines.map((line) =>
    line
      .replace(/^\||\|\s*$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll("\\|", "|")),
  );
  const row = (cells: readonly string[], tag: string): GuideNode => [
    "tr",
    {},
    ...cells.map((cell): GuideNode => [tag, {}, ...inline(cell, hrefOf)]),
  ];
  return ["table", {}, ["thead", {}, row(head, "th")], ["tbody", {}, ...rows.map((cells) => row(cells, "td"))]];
}

const INLINE =
  /(`+)(.+?)\1(?!`)|!\[[^\]]*\]\([^)]*\)|\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]*)\)|\*\*(.+?)\*\*|\*(?=\S)(.+?)\*|<br>/g;

/** Images are left out. */
function inline(text: string, hrefOf: HrefOf): GuideNode[] {
  const found: GuideNode[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, label, target = "", strong, em] = match;
    if (match.index > end) found.push(text.slice(end, match.index));
    end = match.index + whole.length;
    if (code !== undefined) found.push(["code", {}, code]);
    else if (label !== undefined) {
      const href = hrefOf(target);
      found.push(href === null ? ["span", {}, ...inline(label, hrefOf)] : ["a", { href }, ...inline(label, hrefOf)]);
    } else if (strong !== undefined) found.push(["strong", {}, ...inline(strong, hrefOf)]);
    else if (em !== undefined) found.push(["em", {}, ...inline(em, hrefOf)]);
    else if (whole === "<br>") found.push(["br", {}]);
  }
  if (end < text.length) found.push(text.slice(end));
  return found;
}
