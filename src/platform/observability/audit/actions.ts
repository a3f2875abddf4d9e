import { actionLine, type Fields } from "./line.ts";

type Write = (line: string) => void;

/** Set by the Worker at start; a no-op in tests of pure functions. */
let write: Write = () => undefined;

export function writeActionsTo(to: Write): void {
  write = to;
}

/** Records an action without a request, or behind one. Ids and counts only: never a value, a token or a body. */
export function recordAction(event: string, fields: Fields = {}): void {
  write(actionLine(event, fields));
}
