import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { textsOf } from "./texts.ts";

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && existsSync(path));
const sources = tracked.filter((path) => /\.(ts|mts|mjs)$/.test(path) && !path.startsWith("test/style/"));
const comments = sources.flatMap((path) =>
  textsOf(path)
    .filter(({ kind }) => kind === "comment")
    .map((comment) => ({ path, ...comment })),
);

it("comments name only files that are in the repository", () => {
  const isThere = (name: string) => tracked.some((path) => path === name || path.endsWith(`/${name}`));
  const missing = comments.flatMap(({ path, line, text }) =>
    [
      ...text
        .replace(/https?:\/\/\S+/g, "")
        .matchAll(/(?<![\w/.@*{-])[\w.-]+(?:\/[\w.-]+)*\.(?:md|ts|mts|mjs|toml|yml|sql|proto)\b/g),
    ].flatMap(([name]) => (isThere(name) ? [] : [`${path}:${line} ${name}`])),
  );
  expect(missing).toEqual([]);
});

it("comments cite public sources or pages of docs, no documents from elsewhere", () => {
  const cited = comments
    .filter(({ text }) => /\b(contract(?::|\/\w)|interface document|design \d)/i.test(text))
    .map(({ path, line, text }) => `${path}:${line} ${text.slice(0, 100)}`);
  expect(cited).toEqual([]);
});
