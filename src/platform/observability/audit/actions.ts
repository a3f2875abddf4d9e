import { actionLine, type Fields } from "./line.ts";

type Write = (line: string) => void;

/** Set by the Worker as it starts; without one, as in tests of pure functions, there is nobody to be told. */
let write: Write = () => undefined;

export function writeActionsTo(to: Write): void {
  write = to;
}

/** Writes down what was done without a request or behind it. Ids and counts only: never a value, a token or a body. */
export function recordAction(event: string, fields: Fields = {}): void {
  write(actionLine(event, fields));
}
