/**
 * Prints the monthly bill of a deployment, line by line (docs/operate/cost.md):
 *
 *   npm run cost -- --reads 100 --nodes 1000 --streams 500 --synced 10000
 */
import { parseArgs } from "node:util";
import { ASSUMED, bill, DEFAULTS, type Deployment, PRICES, SOURCES } from "./cost-model.ts";

const named = Object.entries(DEFAULTS).map(([name, value]) => {
  const type = typeof value === "boolean" ? "boolean" : "string";
  return [name, { type }] as const;
});
const { values } = parseArgs({ options: Object.fromEntries(named) });

const given = Object.fromEntries(
  Object.entries(values).map(([name, value]) => {
    if (typeof value === "boolean") return [name, value];
    const number = Number(value);
    if (!(number >= 0) || value === "") throw new Error(`--${name}: must be a number, 0 or more`);
    return [name, number];
  }),
);
const deployment: Deployment = { ...DEFAULTS, ...given };

const amountOf = (amount: number): string =>
  amount >= 1e6
    ? `${(amount / 1e6).toFixed(1)} M`
    : amount >= 1_000
      ? `${(amount / 1_000).toFixed(1)} k`
      : amount.toFixed(1);
const row = (item: string, amount: string, dollars: number, parts = "") =>
  console.log(`${item.padEnd(24)}${amount.padStart(20)}${dollars.toFixed(2).padStart(10)}  ${parts}`.trimEnd());

console.log(
  Object.entries(deployment)
    .map(([name, value]) => `${name} ${value}`)
    .join(", "),
);
console.log(`\n${"Item".padEnd(24)}${"amount a month".padStart(20)}${"dollars".padStart(10)}  largest parts`);
const { lines, total } = bill(deployment);
for (const { item, amount, unit, dollars, parts } of lines) {
  const shown = parts.map(([what, part]) => `${what} ${amountOf(part)}`).join(", ");
  row(item, unit === "" ? "" : `${amountOf(amount)} ${unit}`, dollars, shown);
}
row("total", "", total);

console.log("\nPrices, beyond what the plan of 5 dollars includes, as of 2026-11-25:");
for (const [name, meter] of Object.entries(PRICES)) {
  if (typeof meter === "number") continue;
  console.log(`  ${name}: ${meter.price} dollars for ${amountOf(meter.per)}, ${amountOf(meter.included)} included`);
}
for (const source of SOURCES) console.log(`  ${source}`);
console.log("\nRows, alarms, calls and lines of operations are measured by test/workers/rows.test.ts. Assumed:");
for (const [name, value] of Object.entries(ASSUMED)) console.log(`  ${name}: ${value}`);
