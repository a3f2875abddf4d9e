import { parseArgs } from "node:util";

/** The arguments or the environment cannot be used: the command ends with 2. */
export class InvalidUsage extends Error {}

/** The command cannot continue: it ends with 1 and this message, which never contains a value of a secret. */
export class Failure extends Error {}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Io {
  readonly env: Environment;
  /** Results. */
  out(line: string): void;
  /** Progress and errors. */
  note(line: string): void;
}

/** One command of the program. */
export interface Command {
  readonly words: readonly string[];
  readonly summary: string;
  readonly usage: string;
  /** @returns the exit code @throws InvalidUsage, Failure */
  run(args: readonly string[], io: Io): Promise<number>;
}

type Option = { readonly type: "string" | "boolean"; readonly multiple?: boolean; readonly short?: string };

/** @throws InvalidUsage */
export function readArguments<const Options extends Readonly<Record<string, Option>>>(
  args: readonly string[],
  options: Options,
  positionals: readonly string[] = [],
) {
  const parsed = parse(args, options);
  for (const [at, name] of positionals.entries())
    if (parsed.positionals[at] === undefined) throw new InvalidUsage(`${name} is missing`);
  if (parsed.positionals.length > positionals.length)
    throw new InvalidUsage(`unexpected argument ${JSON.stringify(parsed.positionals[positionals.length])}`);
  return parsed;
}

function parse<const Options extends Readonly<Record<string, Option>>>(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (failure) {
    throw new InvalidUsage(optionFault(failure));
  }
}

/** The fault of options in the words of this program; `parseArgs` explains itself at length. */
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
  const { cause } = failure as { cause?: unknown };
  return cause instanceof Error ? textOf(cause) : failure.message || failure.name;
}
