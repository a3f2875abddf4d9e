import * as commander from "commander";
import { ApiError } from "./api.ts";
import { type Command, Failure, type Input, InvalidUsage, type Io, type Options, textOf } from "./command.ts";
import { commandFault, optionFaultOf } from "./suggest.ts";
import { VERSION } from "./version.ts";

/**
 * The tree of commands for commander, which reads the arguments and writes the help. Its faults become the sentences
 * of this program.
 */

const EPILOGUE = `\`sallyport COMMAND --help\` shows the options of a command, \`sallyport --version\` the release.
Own certificate authorities: NODE_EXTRA_CA_CERTS=FILE.
Exit codes: 0 done, 1 failed or a problem found, 2 invalid usage.`;

const GROUPS: Readonly<Record<string, string>> = {
  kv: "Reads, writes, compares and moves secrets.",
  env: "Moves secrets between the service and files.",
  sync: "Shows and makes copies of secrets at destinations.",
  lease: "Renews and ends issued credentials.",
  events: "Follows the event stream.",
  import: "Copies secrets into the service.",
  snapshot: "Saves and restores the whole deployment.",
  agent: "Adds nodes.",
  relay: "Mirrors another cluster.",
};

const HELP_WIDTH = 110;

/** Runs the command that `given` names. @returns the exit code */
export async function runProgram(commands: readonly Command[], given: readonly string[], io: Io): Promise<number> {
  const args = given[0] === "help" ? [...given.slice(1), "--help"] : given.length === 0 ? ["--help"] : given;
  if (HELP.some((option) => args.includes(option)) && !isKnown(args, commands)) {
    io.note(`sallyport: ${commandFault(wordsIn(args), commands)}`);
    return 2;
  }
  const result = { code: 0 };
  const program = programOf(commands, io, async (command, read) => {
    result.code = await command.run({ ...read, raw: args.slice(command.words.length) }, io);
  });
  try {
    await program.parseAsync([...args], { from: "user" });
    return result.code;
  } catch (failure) {
    return codeOf(failure, program, commands, args, io);
  }
}

type Words = readonly string[];

const HELP = ["--help", "-h"];

/** The words before the first option. */
const wordsIn = (args: Words): Words =>
  args.slice(
    0,
    [...args, "-"].findIndex((arg) => arg.startsWith("-")),
  );

/** Whether there is such a group or command; commander shows the help of all commands for another one. */
function isKnown(args: Words, commands: readonly Command[]): boolean {
  const given = wordsIn(args);
  return commands.some(({ words }) =>
    given.length < words.length
      ? given.every((word, at) => words[at] === word)
      : words.every((word, at) => given[at] === word),
  );
}
type Run = (command: Command, read: Omit<Input, "raw">) => Promise<void>;

function programOf(commands: readonly Command[], io: Io, run: Run): commander.Command {
  const root = configured(new commander.Command("sallyport"), io)
    .version(VERSION, "--version", "print the release")
    .enablePositionalOptions()
    .addHelpText("after", `\n${EPILOGUE}`);
  for (const command of commands) {
    const [first = "", second] = command.words;
    const isGrouped = second !== undefined;
    const parent = isGrouped ? (childOf(root, first) ?? addGroup(root, first, io)) : root;
    add(parent, isGrouped ? second : first, command, io, run);
  }
  return root;
}

const childOf = (parent: commander.Command, name: string): commander.Command | undefined =>
  parent.commands.find((child) => child.name() === name);

function addGroup(root: commander.Command, name: string, io: Io): commander.Command {
  const group = configured(new commander.Command(name), io).description(GROUPS[name] ?? "");
  group.addHelpText("after", `\n\`sallyport ${name} COMMAND --help\` shows the options of a command.`);
  root.addCommand(group);
  return group;
}

function add(parent: commander.Command, name: string, command: Command, io: Io, run: Run): void {
  const { about, summary, args = [], options, notes, isWrapper } = command;
  const added = configured(new commander.Command(name), io)
    .summary(summary)
    // The lines of a paragraph are filled; indented lines are kept.
    .description(about.replace(/(?<!\n)\n(?=\S)/g, " "))
    .allowExcessArguments(false)
    .usage(usageOf(command));
  for (const { name: shown, help, isOptional } of args)
    added.addArgument(new commander.Argument(isOptional ? `[${shown}]` : `<${shown}>`, help));
  for (const [long, option] of Object.entries(options)) added.addOption(optionOf(long, option));
  if (notes !== undefined) added.addHelpText("after", `\n${notes}`);
  if (isWrapper) added.passThroughOptions();
  added.action(async () => {
    const values = added.opts();
    const read = Object.fromEntries(
      Object.entries(options).map(([long, { kind }]) => {
        const value: unknown = values[camel(long)];
        return [long, value ?? (kind === "flag" ? false : kind === "texts" ? [] : undefined)];
      }),
    );
    await run(command, { values: read as Input["values"], args: added.args });
  });
  parent.addCommand(added);
}

/** A command whose help has one form, and which never ends the process. */
function configured(command: commander.Command, io: Io): commander.Command {
  return command
    .exitOverride()
    .addHelpCommand(false)
    .helpOption("-h, --help", "print this help")
    .showSuggestionAfterError(false)
    .configureOutput({ writeOut: (text) => io.write(text), writeErr: () => undefined })
    .configureHelp({
      helpWidth: HELP_WIDTH,
      visibleCommands: leavesOf,
      subcommandTerm: (child) => wordsOf(child).join(" "),
      argumentTerm: (argument) => argument.name(),
      commandUsage: (shown) => `${pathOf(shown)} ${shown.commands.length > 0 ? "COMMAND [options]" : shown.usage()}`,
    });
}

/** The commands below a group that do something. */
const leavesOf = (group: commander.Command): commander.Command[] =>
  group.commands.flatMap((child) =>
    child.commands.length > 0 ? leavesOf(child) : child.summary() === "" ? [] : [child],
  );

/** The words after the program's name. */
const wordsOf = (command: commander.Command): string[] =>
  command.parent === null ? [] : [...wordsOf(command.parent), command.name()];

const pathOf = (command: commander.Command): string => ["sallyport", ...wordsOf(command)].join(" ");

function usageOf({ args = [], isWrapper = false }: Command): string {
  const names = args.map(({ name, isOptional }) => (isOptional ? `[${name}]` : name));
  return (isWrapper ? ["[options] --", ...names] : [...names, "[options]"]).join(" ");
}

function optionOf(long: string, option: Options[string]): commander.Option {
  if (option.kind === "flag") return new commander.Option(`--${long}`, option.help);
  const made = new commander.Option(`--${long} <${option.value}>`, option.help);
  if (option.kind === "texts") made.argParser((value: string, before: string[] = []) => [...before, value]);
  return made;
}

/** Commander names the value of `--max-gap` `maxGap`. */
const camel = (long: string): string => long.replace(/-(\w)/g, (_dash, letter: string) => letter.toUpperCase());

/** Reports a failure. @returns the exit code */
function codeOf(
  failure: unknown,
  program: commander.Command,
  commands: readonly Command[],
  args: Words,
  io: Io,
): number {
  const command = commands.find(({ words }) => words.every((word, at) => args[at] === word));
  const path = ["sallyport", ...(command?.words ?? [])].join(" ");
  if (failure instanceof commander.CommanderError) {
    if (failure.exitCode === 0) return 0;
    io.note(
      command === undefined
        ? groupFaultOf(failure, program, commands, args)
        : `${path}: ${faultOf(failure, command, args)}\n\n${hintOf(path, command)}`,
    );
    return 2;
  }
  if (failure instanceof InvalidUsage) {
    io.note(`${path}: ${failure.message}${command === undefined ? "" : `\n\n${hintOf(path, command)}`}`);
    return 2;
  }
  io.note(`${path}: ${sentenceOf(failure)}`);
  return 1;
}

/** A failure with the next step, where it is the same for every command. */
function sentenceOf(failure: unknown): string {
  if (failure instanceof ApiError && failure.status === 403) {
    const step = /invalid token/.test(failure.reason)
      ? "log in again with `sallyport login`"
      : `the token lacks this right${failure.capability === "" ? "" : ` (${failure.capability})`}`;
    return `${failure.message}: ${step}`;
  }
  return failure instanceof ApiError || failure instanceof Failure ? failure.message : textOf(failure);
}

const hintOf = (path: string, command: Command): string =>
  `Usage: ${path} ${usageOf(command)}\n\`${path} --help\` shows the options.`;

/** A fault of the arguments, never with a value that was given to an option. */
function faultOf(failure: commander.CommanderError, command: Command, given: Words): string {
  const { words, args = [], options } = command;
  const quoted = quotedIn(failure);
  const long = /--([\w-]+)/.exec(quoted)?.[1] ?? "";
  const shown = long === "" ? quoted : `--${long}`;
  switch (failure.code) {
    case "commander.unknownOption":
      // Commander takes a flag with a value for an unknown option.
      return options[long]?.kind === "flag" ? `${shown}: takes no value` : optionFaultOf(quoted, command);
    case "commander.optionMissingArgument":
      return `${shown}: needs a value`;
    case "commander.missingArgument":
      return `${quoted} is missing`;
    case "commander.excessArguments":
      return `unexpected argument ${JSON.stringify(positionalsOf(given.slice(words.length), options)[args.length])}`;
    default:
      return failure.message.replace(/^error: /, "");
  }
}

/** A fault of the words before the options: one line, not the list of commands with their help. */
function groupFaultOf(
  failure: commander.CommanderError,
  program: commander.Command,
  commands: readonly Command[],
  args: Words,
): string {
  const [first = ""] = args;
  const path = ["sallyport", ...(childOf(program, first) === undefined ? [] : [first])].join(" ");
  if (failure.code === "commander.unknownOption")
    return `${path}: ${quotedIn(failure).split("=")[0]}: no such option: options follow the command; \`${path} --help\` shows the commands`;
  const words = args.filter((arg) => !arg.startsWith("-")).slice(0, 2);
  return `sallyport: ${commandFault(words, commands)}`;
}

const quotedIn = (failure: Error): string => /'([^']*)'/.exec(failure.message)?.[1] ?? "";

/** The words that are neither options nor their values. */
function positionalsOf(given: Words, options: Options): string[] {
  const takesValue = (word = "") => options[word.replace(/^--/, "")]?.kind.startsWith("text") && word.startsWith("--");
  return given.filter((word, at) => !word.startsWith("-") && !takesValue(given[at - 1]));
}
