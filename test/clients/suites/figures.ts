import { readFileSync } from "node:fs";
import * as z from "zod";

const figures = z.record(
  z.enum(["hvac", "python-nomad", "node-vault"]),
  z.object({
    /** Version of the client, and what is counted: tests or methods. */
    version: z.string(),
    counted: z.enum(["tests", "methods"]),
    /** Passed before logins, KV version 1 and wrapping were added. */
    before: z.int(),
    passed: z.int(),
    skipped: z.int(),
    failures: z.record(z.string(), z.int()),
  }),
);

export type Figures = z.infer<typeof figures>;
export type ClientName = keyof Figures;

/** The figures of docs/reference/client-suites.md; the suites compare them with what they find. */
export const allFigures: Figures = figures.parse(JSON.parse(readFileSync("test/clients/suites/figures.json", "utf8")));

export const figuresOf = (client: ClientName) => allFigures[client];

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((all, count) => all + count, 0);

/** The tables of the page, as Markdown. */
export function figuresAsMarkdown(): string {
  const clients = Object.entries(allFigures);
  const totals = clients.map(([client, { version, counted, before, passed, skipped, failures }]) => {
    const all = passed + sum(failures);
    return `| ${client} ${version} | ${all} ${counted} | ${before} | ${passed} | ${sum(failures)} | ${skipped} |`;
  });
  const reasons = clients.flatMap(([client, { failures }]) =>
    Object.entries(failures)
      .sort(([, a], [, b]) => b - a)
      .map(([why, count]) => `| ${client} | ${count} | ${why} |`),
  );
  return [
    "| Client | Counted | Passed before | Passed now | Failed | Skipped by the suite itself |",
    "|---|---|---|---|---|---|",
    ...totals,
    "",
    "| Client | Failures | Reason: a feature that is not offered, unless it says otherwise |",
    "|---|---|---|",
    ...reasons,
  ].join("\n");
}
