/**
 * Prints the monthly bill of a deployment, line by line (docs/operate/cost.md):
 *
 *   npm run cost -- --reads 100 --nodes 1000 --streams 500 --synced 10000
 */
import { parseArgs } from "node:util";
import { ASSUMED, bill, DEFAULTS, type Deployment, PRICES, SOURCES } from "./cost-model.ts";

const options = Object.fromEntries(
  Object.entries(DEFAULTS).map(([name, value]) => {
    const type = typeof value === "boolean" ? "boolean" : "string";
    return [name, { type }] as const;
  }),
);

/** @throws TypeError for an unknown option or an invalid value */
function deploymentOf(args: readonly string[]): Deployment {
  const { values } = parseArgs({ args: [...args], options });
  const given = Object.entries(values).map(([name, value]) => {
    if (typeof value === "boolean") return [name, value];
    const number = Number(value);
    if (!(number >= 0) || value === "") throw new TypeError(`--${name}: must be a number, 0 or more`);
    return [name, number];
  });
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}

let deployment: Deployment;
try {
  deployment = deploymentOf(process.argv.slice(2));
} catch (failure) {
  if (!(failure instanceof TypeError)) throw failure;
  const shown = Object.entries(options).map(([name, { type }]) => `--${name}${type === "string" ? " N" : ""}`);
  console.error(`${failure.message}\n\nOptions: ${shown.join(" ")} (docs/operate/cost.md)`);
  process.exit(2);
}

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
