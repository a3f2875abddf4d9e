import { type ChildProcess, execFile, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type FromBuild, QUIET_WRANGLER, type ToBuild, type ToRuntime } from "../../scripts/runtime.ts";
import { pick, type Random } from "./workload.ts";

/** The part of the former version in a run of the runtime. */
interface Former {
  readonly builtDir: string;
  /** Classes whose objects run its code. */
  readonly classes: readonly string[];
  /** Whether its Worker receives the requests and the messages. */
  readonly answers: boolean;
}

export interface ToRollout extends ToRuntime {
  readonly former: Former;
}

/** One of this many starts moves a class, on average. */
const MOVES = 2;

const run = promisify(execFile);

/**
 * A gradual deployment: a former version of the code serves beside the present one. Objects move to the present version,
 * class after class in a random order, and never back; Workers are of either version at any time.
 */
export class Rollout {
  readonly script = import.meta.resolve("./rollout-child.ts");
  readonly #commit: string;
  readonly #random: Random;
  readonly #checkout = mkdtempSync(join(tmpdir(), "sallyport-former-"));
  #builtDir = "";
  #classes: readonly string[] = [];
  #moved = 0;
  #answered = 0;
  #isFirst = true;
  /** Parts of the load that the former version does not offer. */
  readonly leftOut: string[] = [];

  /** @param commit of the former version */
  constructor(commit: string, random: Random) {
    this.#commit = commit;
    this.#random = random;
  }

  /** Builds the former version into `dir` of the state. */
  async build(dataDir: string): Promise<void> {
    this.#builtDir = join(dataDir, "former");
    await run("git", ["worktree", "add", "--detach", "--force", this.#checkout, this.#commit]);
    await run(process.execPath, ["scripts/prepare.mjs", "--dev"], { cwd: this.#checkout, maxBuffer: 2 ** 26 });
    const child = fork(join(this.#checkout, "scripts/build-child.ts"), [], {
      cwd: this.#checkout,
      execArgv: [],
      env: { ...process.env, ...QUIET_WRANGLER },
    });
    child.send({ dir: resolve(this.#builtDir), dataDir } satisfies ToBuild);
    const [built] = (await once(child, "message")) as [FromBuild];
    await ended(child);
    if ("failure" in built) throw new Error(`${this.#commit}: ${built.failure}`);
    const { durableObjects } = JSON.parse(readFileSync(join(this.#builtDir, "worker.json"), "utf8"));
    this.#classes = Object.values(durableObjects as Record<string, { className: string }>).map(
      (each) => each.className,
    );
  }

  /** The part of the former version in the next run: all of it in the first one, which shows what it offers. */
  next(): Former {
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    if (!isFirst && this.#classes.length > 0 && this.#random() * MOVES < 1) {
      const moved = pick(this.#random, this.#classes);
      this.#classes = this.#classes.filter((each) => each !== moved);
      this.#moved++;
    }
    const answers = isFirst || this.#random() < 0.5;
    if (answers) this.#answered++;
    return { builtDir: this.#builtDir, classes: this.#classes, answers };
  }

  told(): string {
    const left = this.#classes.length === 0 ? "none is left" : `left: ${this.#classes.join(", ")}`;
    const without = this.leftOut.length === 0 ? "" : `; it does not offer ${this.leftOut.join(", ")}`;
    return `from ${this.#commit}: ${this.#moved} classes moved, ${left}; its Worker answered in ${this.#answered} runs${without}`;
  }

  async end(): Promise<void> {
    await run("git", ["worktree", "remove", "--force", this.#checkout]).catch(() => undefined);
    rmSync(this.#checkout, { recursive: true, force: true });
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}
