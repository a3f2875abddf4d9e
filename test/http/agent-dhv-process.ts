import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FromAgent, Operation, ToAgent } from "./agent-dhv-agent.ts";
import { DIRECTORY_PLUGIN, type TestNode } from "./agent-dhv-node.ts";
import { programOf } from "./prepared-program.ts";

/** The directory plugin with a delay, during which tests crash the agent; `AgentProcess` ends it afterwards. */
export const SLOW_PLUGIN = DIRECTORY_PLUGIN.replace(
  'case "$1" in',
  `echo > "running/$$"
trap 'rm -f "running/$$"' EXIT
[ "$PPID" = "$(cat agent)" ] && kill -0 "$PPID" || exit 1
sleep 0.02
case "$1" in`,
).replace('echo "{', 'sleep 0.02; echo "{');

/** The agent of a node as a separate process, which may be killed at any time and restarted. */
export class AgentProcess {
  #node: TestNode;
  #child: ChildProcess | undefined;

  constructor(node: TestNode) {
    this.#node = node;
    this.moveTo(node);
  }

  /** Reuses the process for another node: starting one takes longer than a whole test. */
  moveTo(node: TestNode): void {
    this.#node = node;
    mkdirSync(join(node.pluginDir, "running"));
    if (this.#child !== undefined) this.#begin(this.#child);
  }

  /** The answer; undefined when the agent crashed before it. */
  async run(operation: Operation, crashAfter?: number, killAfterMs?: number): Promise<FromAgent | undefined> {
    const child = this.#started();
    const over = new AbortController();
    const first = (event: string) => once(child, event, { signal: over.signal });
    const answer = Promise.race([
      first("message").then(([message]) => message as FromAgent),
      first("exit").then(() => undefined),
    ]);
    child.send({ operation, crashAfter } satisfies ToAgent);
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    const said = await answer;
    clearTimeout(timer);
    over.abort();
    if (said === undefined) this.#crashed();
    // The answer and the kill coincided.
    else if (child.killed) await this.stop();
    return said;
  }

  async stop(): Promise<void> {
    if (this.#child === undefined) return;
    const ended = once(this.#child, "exit");
    if (this.#child.kill("SIGKILL")) await ended;
    this.#crashed();
  }

  #started(): ChildProcess {
    if (this.#child !== undefined) return this.#child;
    this.#child = fork(programOf("test/http/agent-dhv-agent.ts"), [], {
      execArgv: [],
      serialization: "advanced",
    });
    this.#begin(this.#child);
    return this.#child;
  }

  #begin(child: ChildProcess): void {
    writeFileSync(join(this.#node.pluginDir, "agent"), String(child.pid));
    child.send({ start: this.#node.options } satisfies ToAgent);
  }

  /** Ends plugins before a restart, as a service manager ends a unit's remaining processes. */
  #crashed(): void {
    this.#child = undefined;
    const dir = join(this.#node.pluginDir, "running");
    for (const pid of readdirSync(dir)) {
      try {
        process.kill(-Number(pid), "SIGKILL");
      } catch {
        // The process has exited meanwhile.
      }
      rmSync(join(dir, pid), { force: true });
    }
  }
}
