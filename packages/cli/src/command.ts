/** The arguments or the environment cannot be used: the command ends with 2. */
export class InvalidUsage extends Error {}

/** The command cannot continue: it ends with 1 and this message, which never contains a value of a secret. */
export class Failure extends Error {}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Io {
  readonly env: Environment;
  /** Whether a person reads the results. */
  readonly isTerminal: boolean;
  /** A line of results. */
  out(line: string): void;
  /** Results as they are, without a line feed. */
  write(text: string): void;
  /** Progress and errors. */
  note(line: string): void;
}

interface Flag {
  readonly kind: "flag";
  readonly help: string;
}

interface Text {
  /** `texts` may be repeated. */
  readonly kind: "text" | "texts";
  /** The value's name in the help. */
  readonly value: string;
  readonly help: string;
}

export type Option = Flag | Text;
export type Options = Readonly<Record<string, Option>>;

export const flag = (help: string) => ({ kind: "flag", help }) as const;
export const text = (value: string, help: string) => ({ kind: "text", value, help }) as const;
export const texts = (value: string, help: string) => ({ kind: "texts", value, help }) as const;

/** Every command with results for programs has it. */
export const JSON_OPTION = { json: flag("print the result as JSON") };

export interface Argument {
  /** Ends with `...` when it may be repeated. */
  readonly name: string;
  readonly help: string;
  readonly isOptional?: boolean;
}

/** The values of options by name. */
export type Values<Given extends Options> = {
  readonly [Name in keyof Given]: Given[Name] extends { readonly kind: "flag" }
    ? boolean
    : Given[Name] extends { readonly kind: "texts" }
      ? readonly string[]
      : string | undefined;
};

export interface Input<Given extends Options = Options> {
  readonly values: Values<Given>;
  /** In the order of the arguments; those of a repeated one follow each other. */
  readonly args: readonly string[];
  /** The words after the command as they were given. */
  readonly raw: readonly string[];
}

interface Definition<Given extends Options> {
  readonly words: readonly string[];
  /** At most one line, for the list of commands; empty for a command that is left out there. */
  readonly summary: string;
  /** Paragraphs before the options. */
  readonly about: string;
  readonly args?: readonly Argument[];
  readonly options: Given;
  /** Lines after the options: environment, exit codes. */
  readonly notes?: string;
  /** Everything after the first argument belongs to another program. */
  readonly isWrapper?: boolean;
  /** @returns the exit code @throws InvalidUsage, Failure */
  run(input: Input<Given>, io: Io): Promise<number>;
}

/** One command of the program. */
export type Command = Definition<Options>;

/** Infers the types of the values from the options. */
export const command = <const Given extends Options>(definition: Definition<Given>): Command =>
  definition as unknown as Command;

/** The fault of options of a program that reads its own, in the words of this one; `parseArgs` explains itself at length. */
export function optionFault(failure: unknown): string {
  const message = textOf(failure);
  const { code = "" } = failure as { code?: string };
  const [, option = ""] = /'(?:-\w, )?(--?[^'\s=]+)/.exec(message) ?? [];
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") return `${option}: no such option`;
  if (code !== "ERR_PARSE_ARGS_INVALID_OPTION_VALUE") return message;
  return `${option}: ${message.includes("does not take") ? "takes no value" : "needs a value"}`;
}

/** @throws InvalidUsage */
export function countOf(name: string, value: string, least: number, most: number): number {
  const count = Number(value);
  if (!/^\d{1,9}$/.test(value) || count < least || count > most)
    throw new InvalidUsage(`--${name}: must be from ${least} to ${most}`);
  return count;
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 };

/** @throws InvalidUsage */
export function durationMsOf(name: string, value: string): number {
  const [, amount, unit = ""] = /^(\d{1,6})([smh])$/.exec(value) ?? [];
  const ms = Number(amount) * (SECONDS[unit] ?? 0) * 1000;
  if (!(ms > 0)) throw new InvalidUsage(`--${name}: must be a time such as 90s, 10m or 1h`);
  return ms;
}

/** A longer timer of Node.js fires at once. */
const LONGEST_TIMER_HOURS = 24 * 24;

/** A duration that a timer waits for. @throws InvalidUsage */
export function timerMsOf(name: string, value: string): number {
  const ms = durationMsOf(name, value);
  if (ms > LONGEST_TIMER_HOURS * 3_600_000)
    throw new InvalidUsage(`--${name}: must be at most ${LONGEST_TIMER_HOURS}h`);
  return ms;
}

/** @throws InvalidUsage */
export function oneOf<const Words extends readonly string[]>(name: string, value: string, words: Words): Words[number] {
  const found = words.find((word) => word === value);
  if (found === undefined) throw new InvalidUsage(`${name}: must be one of ${words.join(", ")}`);
  return found;
}

/** Rows as columns of equal width. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_cell, at) => Math.max(...rows.map((row) => (row[at] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** The message of an unknown failure, with its cause: `fetch` reports every failure as "fetch failed". */
export function textOf(failure: unknown): string {
  if (!(failure instanceof Error)) return String(failure);
  if (failure.name === "TimeoutError") return "no answer in time";
  // One failure for each address of a name.
  if (failure instanceof AggregateError) return [...new Set(failure.errors.map(textOf))].join(", ");
  const { cause, code } = failure as { cause?: unknown; code?: unknown };
  // The library's text names its source files.
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") return "the port does not speak TLS: use http:// or the right port";
  return cause instanceof Error ? textOf(cause) : failure.message || failure.name;
}
