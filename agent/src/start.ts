import type { KeyObject } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type AgentOptions } from "./agent.ts";
import type { Config } from "./config.ts";
import { Csi } from "./csi/index.ts";
import { HostVolumes } from "./dhv/index.ts";
import { Ending, EXIT, type ExitCode } from "./exit.ts";
import { joinService, loadKey, loadNode, type Node, nextEpoch } from "./identity.ts";
import { LiveConfig } from "./live-config.ts";
import { info, textOf, warn } from "./log.ts";
import { Journal } from "./ops/journal.ts";
import { PAUSES, type Pauses, Reconnect } from "./session/reconnect.ts";
import { lockState } from "./state-lock.ts";
import { VERSION } from "./version.ts";

interface StartOptions {
  readonly config: Config;
  /** Reads the configuration again. */
  readonly reread?: (() => Config) | undefined;
  /** Registers the function that reloads the configuration. */
  readonly onReloadSignal?: ((reload: () => void) => void) | undefined;
  /** Required until the node has joined. */
  readonly joinToken?: string | undefined;
  /** Aborted to stop the agent. */
  readonly stop: AbortSignal;
  readonly pauses?: Pauses;
}

export function hostVolumesOf({ hostVolumes, stateDir, pool }: Config, nodeId: string): HostVolumes {
  const { volumesDir, pluginDir, plugins, registerRoots } = hostVolumes;
  return new HostVolumes({
    volumesDir,
    pluginDir,
    stateDir,
    nodeId,
    nodePool: pool,
    allowed: plugins,
    registerRoots,
    log: (message) => info("host_volumes", { message }),
  });
}

/**
 * Runs an agent until the signal or the service stops it.
 * @throws Ending when the local state prevents running, or the join token is refused
 */
export async function start(options: StartOptions): Promise<ExitCode> {
  const { stateDir, hostVolumes } = options.config;
  const live = new LiveConfig(options.config, options.reread);
  options.onReloadSignal?.(() => live.reload());
  // Others may traverse the directory to the volumes; its files are readable by their owner only.
  await mkdir(stateDir, { recursive: true, mode: 0o711 });
  await mkdir(hostVolumes.volumesDir, { recursive: true, mode: 0o711 });
  const unlock = await lockState(stateDir);
  try {
    return await run(live, options);
  } finally {
    unlock();
  }
}

async function run(live: LiveConfig, { joinToken, stop, pauses = PAUSES }: StartOptions): Promise<ExitCode> {
  const { stateDir } = live.current.config;
  const key = await loadKey(stateDir);
  const node = (await loadNode(stateDir)) ?? (await joinAsNode(live, key, joinToken, stop, pauses));
  if (node === undefined) return EXIT.stopped;

  const agent = await agentOf({
    live,
    key,
    node,
    stop,
    pauses,
    hostVolumes: hostVolumesOf(live.current.config, node.nodeId),
  });
  return agent.run();
}

/** Creates the agent of a joined node; the caller holds the state lock. @throws Ending when the state is unusable */
export async function agentOf(parts: Omit<AgentOptions, "epoch" | "journal" | "csi">): Promise<Agent> {
  const { stateDir, csi } = parts.live.current.config;
  const epoch = await nextEpoch(stateDir);
  const journal = await Journal.open(join(stateDir, "journal")).catch((failure) => {
    throw new Ending(EXIT.unusable, `The journal cannot be used: ${textOf(failure)}.`);
  });
  info("agent_started", { node: parts.node.nodeId, version: VERSION, epoch });
  return new Agent({ ...parts, epoch, journal, csi: new Csi(csi) });
}

/** Undefined when the agent was stopped before the service was reachable. */
async function joinAsNode(
  live: LiveConfig,
  key: KeyObject,
  token: string | undefined,
  stop: AbortSignal,
  pauses: Pauses,
): Promise<Node | undefined> {
  if (token === undefined) throw new Ending(EXIT.unusable, "This node has not joined yet, and there is no join token.");
  const reconnect = new Reconnect(pauses);
  while (!stop.aborted) {
    const joined = await joinService(live.current.config, key, token, live.current.transport);
    if (joined.type === "joined") return joined.node;
    const next = reconnect.after({ type: "failed", message: joined.message });
    if (next.type === "exit") throw new Ending(next.code, next.because);
    warn("join_failed", { message: joined.message, retryMs: next.ms });
    await sleep(next.ms, undefined, { signal: stop }).catch(() => {});
  }
  return undefined;
}
