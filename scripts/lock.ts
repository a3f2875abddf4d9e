/**
 * The lock of a state directory. The kernel holds it until this process ends, in whatever container it runs: an exclusive
 * transaction on an empty database beside the data. A text file names its holder, for the message.
 */
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { DatabaseSync } from "node:sqlite";
import { isAlive, startTime } from "./processes.ts";
import { Refusal } from "./settings.ts";

/** https://sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5;

interface Holder {
  readonly pid: number;
  readonly started: number;
  /** Absent in files of version 0.2.0. */
  readonly host: string | undefined;
}

export class Lock {
  readonly #path: string;
  readonly #database: DatabaseSync;

  /** Takes the lock. @throws Refusal when another process has it */
  constructor(path: string, what: string) {
    this.#path = path;
    this.#database = held(`${path}.db`, () => inUse(what, holderIn(path)));
    try {
      refuseFileOnly(holderIn(path), what);
      writeFileSync(path, `${process.pid} ${startTime(process.pid)} ${hostname()}\n`, { mode: 0o600 });
    } catch (failure) {
      this.#database.close();
      throw failure;
    }
  }

  release(): void {
    if (!this.#database.isOpen) return;
    rmSync(this.#path, { force: true });
    this.#database.close();
  }
}

/** Opens the database for this process alone. */
function held(path: string, refusal: () => Refusal): DatabaseSync {
  create(path);
  const database = new DatabaseSync(path);
  try {
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (failure) {
    database.close();
    const isTaken = failure instanceof Error && "errcode" in failure && failure.errcode === SQLITE_BUSY;
    throw isTaken ? refusal() : failure;
  }
}

/** Makes the file for its owner only. A file that is there stays closed: to close it would release this process's lock. */
function create(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (failure) {
    if (!(failure instanceof Error && "code" in failure && failure.code === "EEXIST")) throw failure;
  }
}

/** Version 0.2.0 has the text file only. */
function refuseFileOnly(holder: Holder | undefined, what: string): void {
  if (holder === undefined || holder.host !== undefined || holder.pid === process.pid) return;
  const { pid, started } = holder;
  if (isAlive(pid) && startTime(pid) === started) throw inUse(what, holder);
}

function inUse(what: string, holder: Holder | undefined): Refusal {
  const place = holder?.host === undefined || holder.host === hostname() ? "" : ` on ${holder.host}`;
  const by = holder ? ` (process ${holder.pid}${place})` : "";
  // Without locks a file system answers as if another process held one.
  const or = holder ? "" : ", or its file system has no locks";
  return new Refusal(
    `${what} is in use by another service${by}${or}: stop that one, or set STATE_DIR to another directory.`,
  );
}

function holderIn(path: string): Holder | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
  const [, pid, started, host] = /^(\d+) (\d+)(?: (\S+))?\n$/.exec(text) ?? [];
  return pid === undefined ? undefined : { pid: Number(pid), started: Number(started), host };
}
