#!/usr/bin/env node
import { USAGE } from "./options.ts";
import { runRelay } from "./relay.ts";

const args = process.argv.slice(2);
if (args.includes("--help") || args.includes("-h")) process.stdout.write(USAGE);
else
  void runRelay(args, process.env).then((code) => {
    process.exitCode = code;
  });
