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
  ...[importVault, importDump, doctor, snapshotSave, snapshotRestore, snapshotList, agentJoin, relay, cost],
];

const USAGE = `Usage: sallyport COMMAND [options]

${COMMANDS.map(({ words, summary }) => `  ${words.join(" ").padEnd(18)}${summary}`).join("\n")}

\`sallyport COMMAND --help\` shows the options of a command, \`sallyport --version\` the release.
Own certificate authorities: NODE_EXTRA_CA_CERTS=FILE.
`;

const io: Io = {
  env: process.env,
  out: (line) => process.stdout.write(`${line}\n`),
  note: (line) => process.stderr.write(`${line}\n`),
};

async function run(args: readonly string[]): Promise<number> {
  if (args[0] === "--version") return print(VERSION);
  const command = COMMANDS.find(({ words }) => words.every((word, at) => args[at] === word));
  if (command === undefined) {
    if (args.length === 0 || args[0] === "--help" || args[0] === "help") return print(USAGE.trimEnd());
    io.note(`sallyport: no command ${JSON.stringify(args.slice(0, 2).join(" "))}\n\n${USAGE.trimEnd()}`);
    return 2;
  }
  const rest = args.slice(command.words.length);
  if (rest.includes("--help") || rest.includes("-h")) return print(command.usage.trimEnd());
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

function print(text: string): number {
  io.out(text);
  return 0;
}

process.exitCode = await run(process.argv.slice(2));
