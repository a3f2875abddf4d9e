// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates are the subject
import { describe, expect, it } from "vitest";
import { filled, readTemplate, variablesOf } from "./template.ts";

const values: Readonly<Record<string, string>> = { a: "1", "value.team": "${a}" };
const fill = (text: string): string | null => {
  const template = readTemplate(text);
  return template && filled(template, (name) => values[name] ?? "");
};

describe("readTemplate", () => {
  it.each([
    ["", ""],
    ["plain $ text }", "plain $ text }"],
    ["${a}", "1"],
    ["x-${ a }-${a}y", "x-1-1y"],
    ["${absent}", ""],
    ["${value.team}", "${a}"],
  ])("renders %j in one pass", (text, result) => expect(fill(text)).toBe(result));

  it.each(["${", "${}", "${a", "${1 + 2}", "${f(a)}", '${"a"}', "$${a", "${${a}}"])("refuses %j", (text) =>
    expect(readTemplate(text)).toBeNull(),
  );

  it("names its variables", () => {
    expect(variablesOf(readTemplate("${a}x${value.b}") ?? [])).toEqual(["a", "value.b"]);
  });
});
