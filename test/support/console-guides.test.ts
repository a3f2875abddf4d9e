import { describe, expect, it } from "vitest";
import { type GuideNode, guideOf, readGuides } from "../../scripts/guides.ts";

const NAMES = ["guides/a", "operate/b"];
const drawn = (text: string) => guideOf(`# A\n\n${text}`, "guides/a", NAMES).content;

describe("a guide", () => {
  it.each<[string, GuideNode[]]>([
    ["## Move `x` *on*", [["h2", { id: "move-x-on" }, "Move ", ["code", {}, "x"], " ", ["em", {}, "on"]]]],
    ["one\ntwo **b**", [["p", {}, "one two ", ["strong", {}, "b"]]]],
    ["[b](../operate/b.md#c)", [["p", {}, ["a", { href: "/ui/guides/operate/b?at=c" }, "b"]]]],
    ["[c](#c)", [["p", {}, ["a", { href: "/ui/guides/guides/a?at=c" }, "c"]]]],
    ["[d](https://d.example/)", [["p", {}, ["a", { href: "https://d.example/" }, "d"]]]],
    ["[e](../../src/e.ts)", [["p", {}, ["span", {}, "e"]]]],
    ["[f](javascript:alert)", [["p", {}, ["span", {}, "f"]]]],
    ["`[a](b) <img>`", [["p", {}, ["code", {}, "[a](b) <img>"]]]],
    ["```sh\n# no heading\n- no list\n```", [["pre", {}, ["code", {}, "# no heading\n- no list"]]]],
    ["- a\n  b\n- c", [["ul", {}, ["li", {}, "a b"], ["li", {}, "c"]]]],
    [
      "1. a\n\n   ```\n   x\n   ```\n2. b",
      [["ol", {}, ["li", {}, ["p", {}, "a"], ["pre", {}, ["code", {}, "x"]]], ["li", {}, "b"]]],
    ],
    [
      "| a | b |\n|---|---|\n| `x\\|y` | z |",
      [
        [
          "table",
          {},
          ["thead", {}, ["tr", {}, ["th", {}, "a"], ["th", {}, "b"]]],
          ["tbody", {}, ["tr", {}, ["td", {}, ["code", {}, "x|y"]], ["td", {}, "z"]]],
        ],
      ],
    ],
    ["![picture](../x.png)", [["p", {}]]],
  ])("draws %j", (text, content) => expect(drawn(text)).toEqual(content));
});

describe("the guides of the docs", () => {
  const guides = readGuides("docs");

  it("have titles, only known elements, and links that lead to a page and an anchor", () => {
    const ids = new Map<string, Set<string>>();
    const links: [string, string][] = [];
    const tags = new Set<string>();
    const visit = (name: string, node: GuideNode): void => {
      if (typeof node === "string") return;
      const [tag, { id, href }, ...content] = node;
      tags.add(tag);
      if (id) ids.set(name, (ids.get(name) ?? new Set()).add(id));
      if (href?.startsWith("/ui/guides/")) links.push([name, href.slice("/ui/guides/".length)]);
      for (const part of content) visit(name, part as GuideNode);
    };
    for (const [name, { title, content }] of guides) {
      expect([name, title !== name]).toEqual([name, true]);
      for (const node of content) visit(name, node);
    }
    const lost = links.filter(([, link]) => {
      const [page = "", at] = link.split("?at=");
      return !guides.has(page) || (at !== undefined && !ids.get(page)?.has(at));
    });
    expect(lost).toEqual([]);
    expect(links.length).toBeGreaterThan(300);
    expect(
      [...tags].filter(
        (tag) => !/^(a|code|em|h[2-4]|li|ol|p|pre|span|strong|t(able|body|d|h|head|r)|ul|blockquote|br)$/.test(tag),
      ),
    ).toEqual([]);
  });
});
