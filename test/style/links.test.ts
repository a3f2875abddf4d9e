import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((path) => existsSync(path));
const pages = tracked.filter((path) => path.endsWith(".md"));

/** Anchors of a page's headings, by the rule of GitHub. */
function anchorsOf(path: string): Set<string> {
  const prose = readFileSync(path, "utf8").replace(/^```[\s\S]*?^```/gm, "");
  return new Set(
    [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe("links in README and docs", () => {
  it.each(pages)("%s links to files and headings that exist", (page) => {
    const prose = readFileSync(page, "utf8").replace(/^```[\s\S]*?^```/gm, "");
    const broken = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) => {
      if (/^[a-z]+:/.test(link)) return [];
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : normalize(join(dirname(page), path));
      if (!existsSync(target)) return [link];
      return anchor === undefined || anchorsOf(target).has(anchor) ? [] : [link];
    });
    expect(broken).toEqual([]);
  });

  it("the repository mentions only pages of docs that exist", () => {
    const sources = tracked.filter((path) => /\.(ts|mts|mjs|md|html|json|toml|yml|service|conf|sh)$/.test(path));
    const missing = sources.flatMap((path) =>
      [...readFileSync(path, "utf8").matchAll(/(?<![\w/.-])docs\/[\w./-]*\w\.(?:md|json|yml|html)\b/g)].flatMap(
        ([name]) => (existsSync(name) ? [] : [`${path}: ${name}`]),
      ),
    );
    expect(missing).toEqual([]);
  });
});
