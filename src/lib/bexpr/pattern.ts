import { compile } from "./regex/compile.ts";
import { PatternError, parse } from "./regex/parse.ts";
import { run } from "./regex/run.ts";

/** A regular expression that takes no more time than its size times the length of the text. */
export interface Pattern {
  /** Steps for each character, at most. */
  readonly size: number;
  /** Whether it is found anywhere in the text. */
  found(text: string): boolean;
}

const LONGEST = 512;
const MOST_STEPS = 1_000;

/** Reads a regular expression in RE2's syntax. @returns why not, when it cannot be read */
export function readPattern(text: string): Pattern | string {
  if (text.length > LONGEST) return `longer than ${LONGEST} characters`;
  try {
    const program = compile(parse(text), MOST_STEPS);
    return { size: program.steps.length, found: (input) => run(program, input).found };
  } catch (failure) {
    if (!(failure instanceof PatternError)) throw failure;
    return unsupported(text) ?? failure.message;
  }
}

/** What other engines know and a linear one cannot do, by its name. */
function unsupported(text: string): string | null {
  const plain = text.replace(/\\[^1-9k]/gs, "");
  if (/\(\?<?[=!]/.test(plain)) return "look-around is not supported";
  if (/\\[1-9]|\\k|\(\?P=/.test(plain)) return "back-references are not supported";
  return null;
}
