import { DEFAULTS } from "../../../scripts/cost-model.ts";
import { costReport } from "../../../scripts/cost-report.ts";
import { command, flag, InvalidUsage, JSON_OPTION, type Options, optionFault, text } from "./command.ts";

const fields: Options = Object.fromEntries(
  Object.entries(DEFAULTS).map(([name, value]) => [
    name,
    typeof value === "boolean" ? flag("") : text("N", `default ${value}`),
  ]),
);

export const cost = command({
  words: ["cost"],
  summary: "print the monthly bill of a deployment on Cloudflare, line by line",
  about: `Prints what a deployment costs a month, by item, with the prices and assumptions. No request is sent.
docs/operate/cost.md explains the options.`,
  options: { ...fields, ...JSON_OPTION },
  run: async ({ raw }, io) => {
    for (const line of report(raw)) io.out(line);
    return 0;
  },
});

/** @throws InvalidUsage */
function report(args: readonly string[]): string[] {
  try {
    return costReport(args);
  } catch (failure) {
    throw new InvalidUsage(optionFault(failure));
  }
}
