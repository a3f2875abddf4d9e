import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** The first argument of each `recordAction(…)` in the code: one event, or two to choose from. */
function eventsInCode(): Set<string> {
  const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  );
  const texts = files.map((name) => readFileSync(`src/${name}`, "utf8"));
  const first = texts.flatMap((text) =>
    [...text.matchAll(/(?<![\w.#])recordAction\(([^,]*"[^,]*),/g)].map(([, words = ""]) => words),
  );
  return new Set(first.flatMap((words) => [...words.matchAll(/"([a-z-]+)"/g)].map(([, event = ""]) => event)));
}

it("docs/operate/audit.md lists exactly the recorded actions", () => {
  const [, list = ""] = /\nActions are: ([^.]*)\./.exec(readFileSync("docs/operate/audit.md", "utf8")) ?? [];
  const named = [...list.matchAll(/`([a-z-]+)`/g)].map(([, event]) => event);
  expect(named.toSorted()).toEqual([...eventsInCode()].toSorted());
});

it("every action is asserted by a test", () => {
  const files = readdirSync("test/workers").filter((name) => name.endsWith(".test.ts"));
  const tests = files.map((name) => readFileSync(`test/workers/${name}`, "utf8")).join();
  expect([...eventsInCode()].filter((event) => !tests.includes(`"${event}"`))).toEqual([]);
});
