#!/usr/bin/env node
import { agentJoin } from "./agent-join.ts";
import type { Command, Io } from "./command.ts";
import { cost } from "./cost.ts";
import { doctor } from "./doctor/command.ts";
import { importDump } from "./import/dump-command.ts";
import { importVault } from "./import/vault-command.ts";
import { kvCp, kvMv } from "./kv/copy.ts";
import { kvEdit } from "./kv/edit.ts";
import { kvDiff, kvFind, kvGet, kvHistory, kvList } from "./kv/read.ts";
import { kvPatch, kvPut, kvRm, kvRollback, kvUndelete } from "./kv/write.ts";
import { runProgram } from "./program.ts";
import { relay } from "./relay.ts";
import { snapshotList, snapshotRestore, snapshotSave } from "./snapshot.ts";

/** The program `sallyport`. */

const COMMANDS: readonly Command[] = [
  kvGet,
  kvPut,
  kvPatch,
  kvList,
  kvFind,
  kvHistory,
  kvDiff,
  kvRollback,
  kvRm,
  kvUndelete,
  kvCp,
  kvMv,
  kvEdit,
  doctor,
  snapshotSave,
  snapshotRestore,
  snapshotList,
  agentJoin,
  relay,
  importVault,
  importDump,
  cost,
];

const io: Io = {
  env: process.env,
  isTerminal: process.stdout.isTTY === true,
  out: (line) => process.stdout.write(`${line}\n`),
  write: (text) => process.stdout.write(text),
  note: (line) => process.stderr.write(`${line}\n`),
};

process.exitCode = await runProgram(COMMANDS, process.argv.slice(2), io);
