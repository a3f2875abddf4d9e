#!/usr/bin/env node
import type { Io } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { runProgram } from "./program.ts";

/** The program `sallyport`. */

const io: Io = {
  env: process.env,
  isTerminal: process.stdout.isTTY === true,
  out: (line) => process.stdout.write(`${line}\n`),
  write: (text) => process.stdout.write(text),
  note: (line) => process.stderr.write(`${line}\n`),
};

void runProgram(COMMANDS, process.argv.slice(2), io).then((code) => {
  process.exitCode = code;
});
