/** The table of every figure with a goal. */
import { type RunInfo, roundsHeading, table } from "./report.ts";
import type { GoalRow, RowsFigures } from "./rows.ts";

export interface RowsReport extends RunInfo, RowsFigures {
  readonly scale: { readonly rounds: number; readonly sliceMs: number };
  readonly loaderBusy: number;
}

export function rowsMarkdown(report: RowsReport): string {
  return [
    roundsHeading(report),
    "",
    ...report.failures.map((failure) => `Not measured: ${failure}.`),
    "",
    ...table(
      ["", "goal", "old", "new", "new / old", ""],
      report.rows.map((row) => [
        row.name,
        goalOf(row),
        row.old === null ? "not measured" : figure(row.old),
        row.new === null ? "not measured" : figure(row.new),
        row.old === null || row.new === null ? "" : (row.new / row.old).toFixed(2),
        verdict(row),
      ]),
    ),
  ].join("\n");
}

const goalOf = ({ goal }: GoalRow): string => {
  if (!goal) return "";
  return "least" in goal ? `≥ ${figure(goal.least)}` : `≤ ${figure(goal.most)}`;
};

function verdict({ goal, new: value }: GoalRow): string {
  if (!goal || value === null) return "";
  return ("least" in goal ? value >= goal.least : value <= goal.most) ? "met" : "missed";
}

const figure = (value: number): string => {
  if (value >= 1_000) return Math.round(value).toLocaleString("en").replaceAll(",", " ");
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
};
