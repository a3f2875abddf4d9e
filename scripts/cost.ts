/**
 * Prints the monthly bill of a deployment, line by line (docs/operate/cost.md):
 *
 *   npm run cost -- --reads 100 --nodes 1000 --streams 500 --synced 10000
 */
import { COST_USAGE, costReport } from "./cost-report.ts";

try {
  for (const line of costReport(process.argv.slice(2))) console.log(line);
} catch (failure) {
  if (!(failure instanceof TypeError)) throw failure;
  console.error(`${failure.message}\n\nOptions: ${COST_USAGE} (docs/operate/cost.md)`);
  process.exitCode = 2;
}
