import { describe, expect, it } from "vitest";
import { elementNamed, membersOf, parseXml, textNamed } from "./xml.ts";

describe("parseXml", () => {
  it("reads texts, entities and lists", () => {
    const xml = parseXml(
      '<?xml version="1.0"?>\n<R xmlns="https://x/"><A>1 &lt;&#43;&#x2B;&amp;</A><L><member><K>a</K></member><member><K>b</K></member></L><E/><Z></Z></R>',
    );
    expect(textNamed(xml, "A")).toBe("1 <++&");
    expect(membersOf(xml, "L").map((member) => textNamed(member, "K"))).toEqual(["a", "b"]);
    expect([textNamed(xml, "E"), textNamed(xml, "Z"), textNamed(xml, "N")]).toEqual(["", "", null]);
    expect(membersOf(xml, "N")).toEqual([]);
    expect(elementNamed(xml, "R")?.children.map(({ name }) => name)).toEqual(["A", "L", "E", "Z"]);
  });

  it("returns null for other texts", () => {
    const texts = ["", "text", "<A>", "<A></B>", "<A/><B/>", "</A>", "<A><![CDATA[x]]></A>", "<!DOCTYPE A><A/>", "{}"];
    for (const text of texts) expect(parseXml(text), text).toBeNull();
    expect(parseXml("<A>".repeat(100))).toBeNull();
  });
});
