#!/usr/bin/env node
import { agentJoin } from "./agent-join.ts";
import { ApiError } from "./api.ts";
import { type Command, Failure, InvalidUsage, type Io, textOf } from "./command.ts";
import { cost } from "./cost.ts";
import { doctor } from "./doctor/command.ts";
import { importDump } from "./import/dump-command.ts";
import { importVault } from "./import/vault-command.ts";
import { relay } from "./relay.ts";
import { snapshotList, snapshotRestore, snapshotSave } from "./snapshot.ts";
import { VERSION } from "./version.ts";

/** The program `sallyport`: finds the command, and turns failures into exit codes. */

const COMMANDS: readonly Command[] = [
  importVault,
  importDump,
  doctor,
  snapshotSave,
  snapshotRestore,
  snapshotList,
  agentJoin,
  relay,
  cost,
];

const HELP: ReadonlySet<string> = new Set(["--help", "-h"]);

/** The commands that begin with these words, none for all. */
const usageOf = (words: readonly string[], commands: readonly Command[]): string =>
  `Usage: ${["sallyport", ...words, "COMMAND"].join(" ")} [options]

${commands.map((command) => `  ${command.words.join(" ").padEnd(18)}${command.summary}`).join("\n")}

\`sallyport COMMAND --help\` shows the options of a command, \`sallyport --version\` the release.
Own certificate authorities: NODE_EXTRA_CA_CERTS=FILE.
Exit codes: 0 done, 1 failed or a problem found, 2 invalid usage.`;

const io: Io = {
  env: process.env,
  out: (line) => process.stdout.write(`${line}\n`),
  note: (line) => process.stderr.write(`${line}\n`),
};

async function run(given: readonly string[]): Promise<number> {
  const args = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  if (args[0] === "--version") return print(VERSION);
  const command = COMMANDS.find(({ words }) => words.every((word, at) => args[at] === word));
  if (command === undefined) return withoutCommand(args);
  const rest = args.slice(command.words.length);
  if (rest.some((each) => HELP.has(each))) return print(command.usage.trimEnd());
  try {
    return await command.run(rest, io);
  } catch (failure) {
    if (failure instanceof InvalidUsage) {
      io.note(`sallyport ${command.words.join(" ")}: ${failure.message}\n\n${command.usage.trimEnd()}`);
      return 2;
    }
    const isExpected = failure instanceof ApiError || failure instanceof Failure;
    io.note(`sallyport ${command.words.join(" ")}: ${isExpected ? failure.message : textOf(failure)}`);
    return 1;
  }
}

/** Help for all commands or a group such as `snapshot`; anything else is no command. */
function withoutCommand(args: readonly string[]): number {
  const words = args.slice(0, 1).filter((word) => !HELP.has(word));
  const group = COMMANDS.filter((command) => words.every((word, at) => command.words[at] === word));
  const rest = args.slice(words.length);
  if (args.length === 0 || (group.length > 0 && rest.some((each) => HELP.has(each))))
    return print(usageOf(words, group));
  const usage = group.length > 0 ? usageOf(words, group) : usageOf([], COMMANDS);
  io.note(`sallyport: no command ${JSON.stringify(args.slice(0, 2).join(" "))}\n\n${usage}`);
  return 2;
}

function print(text: string): number {
  io.out(text);
  return 0;
}

process.exitCode = await run(process.argv.slice(2));
