import { COST_USAGE, costReport } from "../../../scripts/cost-report.ts";
import { type Command, InvalidUsage, optionFault } from "./command.ts";

export const cost: Command = {
  words: ["cost"],
  summary: "print the monthly bill of a deployment on Cloudflare, line by line",
  usage: `Usage: sallyport cost [options]

Prints what a deployment costs a month, by item, with the prices and assumptions. No request is sent.
docs/operate/cost.md explains the options:

  ${COST_USAGE}
`,
  run: async (args, io) => {
    for (const line of report(args)) io.out(line);
    return 0;
  },
};

/** @throws InvalidUsage */
function report(args: readonly string[]): string[] {
  try {
    return costReport(args);
  } catch (failure) {
    throw new InvalidUsage(optionFault(failure));
  }
}
