#!/usr/bin/env node
import { constants } from "node:os";
import type { Io } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { endWithNpx } from "./npx.ts";
import { runProgram } from "./program.ts";
import { useProxies } from "./proxies.ts";

/** The program `sallyport`. */

const io: Io = {
  env: process.env,
  isTerminal: process.stdout.isTTY === true,
  out: (line) => process.stdout.write(`${line}\n`),
  write: (text) => process.stdout.write(text),
  note: (line) => process.stderr.write(`${line}\n`),
};

// A reader such as `head` may end first: like other programs, this one then ends without a word.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (failure: NodeJS.ErrnoException) => {
    if (failure.code !== "EPIPE") throw failure;
    process.exit(128 + constants.signals.SIGPIPE);
  });

endWithNpx(process.env);
// The relay has the network of its container image, which uses none.
if (process.argv[2] !== "relay") useProxies(process.env);
void runProgram(COMMANDS, process.argv.slice(2), io).then((code) => {
  process.exitCode = code;
});
