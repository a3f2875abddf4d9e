/**
 * Writes the tables of destination types into docs/guides/sync.md, between the marks `<!-- name -->` and
 * `<!-- /name -->`. Run it after a change of a description; a test compares.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type DestinationDescription,
  type FieldDescription,
  hasFederation,
} from "../src/sync/destinations/description.ts";
import { type DestinationType, destinationTypes } from "../src/sync/destinations/index.ts";

const PAGE = join(import.meta.dirname, "../docs/guides/sync.md");

type Type = DestinationType<unknown>;

const types = [...destinationTypes.values()];
const code = (text: string): string => `\`${text.replaceAll("|", "\\|")}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`.replaceAll("| --- ", "|---"))
    .join("\n")
    .replaceAll("--- |", "---|");
}

const reads: Readonly<Record<DestinationDescription["reads"], string>> = {
  value: "the value",
  version: "the version",
  time: "the time of change",
  names: "the name only",
};

const effects: Readonly<Record<DestinationDescription["effect"], string>> = {
  immediate: "at the next read",
  restarts: "at once: the provider restarts the program",
  version: "at once: the provider deploys a new version",
  next_deploy: "with the next deployment",
};

const providers = table(
  [
    "Type",
    "Upstream name",
    "Provider",
    "Objects",
    "Login",
    "Federation",
    "Drift is found by",
    "A new value takes effect",
    "Limits",
  ],
  types.map(({ type, description: of }) => [
    code(type),
    of.upstream === undefined ? "the same" : code(of.upstream),
    of.label,
    of.about,
    of.login,
    hasFederation(of) ? "identity tokens" : "none",
    reads[of.reads],
    effects[of.effect],
    of.limits,
  ]),
);

function fieldRow(type: string, name: string, field: FieldDescription, canChange: boolean): string[] {
  const spelled = `${field.required ? `**${code(name)}**` : code(name)}${canChange ? "" : "†"}${field.secret ? "‡" : ""}`;
  const choices = field.choices && `${Object.keys(field.choices).map(code).join(" or ")}.`;
  const older = field.hidden && "An older name, still accepted.";
  return [
    code(type),
    spelled,
    [`${field.label}.`, choices, field.help?.replaceAll("|", "\\|"), older].filter(Boolean).join(" "),
  ];
}

const fields = table(
  ["Type", "Field", "Meaning"],
  types.flatMap(({ type, description, immutable }: Type) => {
    const rows = Object.entries(description.fields);
    if (rows.length === 0) return [[code(type), "none", `${description.about}.`]];
    return rows.map(([name, field]) => fieldRow(type, name, field, !immutable.includes(name) && !field.fixed));
  }),
);

const names = table(
  ["Type", "Granularity", "Default template", "Other characters become", "Longest name", "Largest value"],
  types.map(({ type, defaults: { granularity, template }, naming, maxValueBytes }) => [
    code(type),
    code(granularity),
    code(template[granularity]),
    code(naming.replacement),
    `${naming.maxLength}`,
    `${maxValueBytes.toLocaleString("en").replaceAll(",", " ")} bytes`,
  ]),
);

const permissions = table(
  ["Type", "Required", "Also required for policies other than `replace`, `verify` and `drift`"],
  types.map(({ type, description }) => [code(type), ...description.permissions]),
);

const tables: Readonly<Record<string, string>> = { providers, fields, names, permissions };

/** The page with the tables of today's descriptions. Throws when a mark is missing. */
export function withTables(page: string): string {
  return Object.entries(tables).reduce((text, [name, lines]) => {
    const [begin, end] = [`<!-- ${name}: scripts/destination-tables.ts -->`, `<!-- /${name} -->`];
    const [from, to] = [text.indexOf(begin), text.indexOf(end)];
    if (from < 0 || to < from) throw new Error(`${PAGE} has no marks for the table ${name}`);
    return `${text.slice(0, from + begin.length)}\n${lines}\n${text.slice(to)}`;
  }, page);
}

if (import.meta.main) writeFileSync(PAGE, withTables(readFileSync(PAGE, "utf8")));
