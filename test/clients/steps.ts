export interface Step {
  readonly step: string;
  /** `ok`, or the error. */
  readonly outcome: string;
}

/** The steps that a flow printed, one line of JSON each. */
export const stepsIn = (output: string): Step[] =>
  output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Step);
