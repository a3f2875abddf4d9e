import { compile } from "./regex/compile.ts";
import { PatternError, parse } from "./regex/parse.ts";
import { run } from "./regex/run.ts";

/** A regular expression with a time bound of its size times the length of the text. */
export interface Pattern {
  /** Maximum of steps per character. */
  readonly size: number;
  /** Whether it matches anywhere in the text. */
  found(text: string): boolean;
}

const MAX_LENGTH = 512;
const MAX_STEPS = 1_000;

/** Parses a regular expression in RE2's syntax. @returns the error text when invalid */
export function readPattern(text: string): Pattern | string {
  if (text.length > MAX_LENGTH) return `longer than ${MAX_LENGTH} characters`;
  try {
    const program = compile(parse(text), MAX_STEPS);
    return { size: program.steps.length, found: (input) => run(program, input).found };
  } catch (failure) {
    if (!(failure instanceof PatternError)) throw failure;
    return unsupported(text) ?? failure.message;
  }
}

/** The name of a feature that no linear-time engine supports. */
function unsupported(text: string): string | null {
  const plain = text.replace(/\\[^1-9k]/gs, "");
  if (/\(\?<?[=!]/.test(plain)) return "look-around is not supported";
  if (/\\[1-9]|\\k|\(\?P=/.test(plain)) return "back-references are not supported";
  return null;
}
