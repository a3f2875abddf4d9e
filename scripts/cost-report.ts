import { parseArgs } from "node:util";
import { ASSUMED, bill, DEFAULTS, type Deployment, PRICES, SOURCES } from "./cost-model.ts";

/** The monthly bill of a deployment as text, for `npm run cost` and `sallyport cost` (docs/operate/cost.md). */

/** The options of both commands: the fields of a deployment, and the form of the report. */
const COST_OPTIONS = Object.fromEntries(
  Object.entries({ ...DEFAULTS, json: false }).map(([name, value]) => {
    const type = typeof value === "boolean" ? "boolean" : "string";
    return [name, { type }] as const;
  }),
);

/** The options as a usage text shows them. */
export const COST_USAGE = Object.entries(COST_OPTIONS)
  .map(([name, { type }]) => `--${name}${type === "string" ? " N" : ""}`)
  .join(" ");

/** @throws TypeError for an unknown option, or a value that is no number */
export function costReport(args: readonly string[]): string[] {
  const { json, ...values } = parseArgs({ args: [...args], options: COST_OPTIONS }).values;
  const given = Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (typeof value === "boolean") return [name, value];
      const number = Number(value);
      if (!(number >= 0) || value === "") throw new TypeError(`--${name}: must be a number, 0 or more`);
      return [name, number];
    }),
  );
  const deployment: Deployment = { ...DEFAULTS, ...given };
  const { lines, total } = bill(deployment);
  if (json) return [JSON.stringify({ deployment, lines, total }, null, 2)];
  return [
    Object.entries(deployment)
      .map(([name, value]) => `${name} ${value}`)
      .join(", "),
    `\n${"Item".padEnd(24)}${"amount a month".padStart(20)}${"dollars".padStart(10)}  largest parts`,
    ...lines.map(({ item, amount, unit, dollars, parts }) =>
      row(
        ...([item, unit === "" ? "" : `${amountOf(amount)} ${unit}`, dollars] as const),
        parts.map(([what, part]) => `${what} ${amountOf(part)}`).join(", "),
      ),
    ),
    row("total", "", total),
    "\nPrices, beyond what the plan of 5 dollars includes, as of 2026-11-25:",
    ...Object.entries(PRICES).flatMap(([name, meter]) =>
      typeof meter === "number"
        ? []
        : [`  ${name}: ${meter.price} dollars for ${amountOf(meter.per)}, ${amountOf(meter.included)} included`],
    ),
    ...SOURCES.map((source) => `  ${source}`),
    "\nRows, alarms, calls and lines of operations are measured by test/workers/rows.test.ts. Assumed:",
    ...Object.entries(ASSUMED).map(([name, value]) => `  ${name}: ${value}`),
  ];
}

const amountOf = (amount: number): string =>
  amount >= 1e6
    ? `${(amount / 1e6).toFixed(1)} M`
    : amount >= 1_000
      ? `${(amount / 1_000).toFixed(1)} k`
      : amount.toFixed(1);

const row = (item: string, amount: string, dollars: number, parts = ""): string =>
  `${item.padEnd(24)}${amount.padStart(20)}${dollars.toFixed(2).padStart(10)}  ${parts}`.trimEnd();
