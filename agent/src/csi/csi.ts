import { isDeepStrictEqual } from "node:util";
import { type ErrorKind, METHODS, type NodeReport, type ParamsOf, type ResultOf } from "@sallyport/agent-protocol";
import { KeyedQueue } from "../keyed-queue.ts";
import type { Handlers, Outcome, Run } from "../ops/handler.ts";
import type { CsiConfig, Role } from "./config.ts";
import { controllerWorks, type Works } from "./controller.ts";
import { nodeWorks } from "./node.ts";
import { type CsiOperation, failed, outcomeOf } from "./operation.ts";
import { CsiPlugin } from "./plugin.ts";
import { Uses } from "./uses.ts";
import { inspectVolumes, type VolumeHealth } from "./volume-health.ts";

/** At most one of these runs per plugin: CSI leaves serialization to the caller. */
const DESTRUCTIVE: readonly CsiOperation[] = [
  ...(["csi.controller.publish", "csi.controller.unpublish", "csi.controller.delete"] as const),
  ...(["csi.controller.expand", "csi.controller.modify"] as const),
  ...(["csi.controller.snapshotCreate", "csi.controller.snapshotDelete"] as const),
];

type Reported = {
  readonly [Role in "CSIControllerPlugins" | "CSINodePlugins"]: NonNullable<NodeReport[Role]>;
};

/**
 * The CSI plugins of this node: their health and their operations. Plugins outside the configuration are never
 * called.
 */
export class Csi {
  readonly #plugins = new Map<string, CsiPlugin>();
  readonly #works: Works<CsiOperation>;
  readonly #queue = new KeyedQueue();
  readonly #uses: Uses;
  /** Called when a plugin's report changes. */
  onChange: () => void = () => {};

  constructor({ plugins, mountsDir }: CsiConfig) {
    this.#uses = new Uses(mountsDir);
    this.configure(plugins);
    this.#works = { ...controllerWorks, ...nodeWorks(this.#uses) };
  }

  /** Replaces the plugins; unchanged ones keep their connection and health. Operations of a removed one complete. */
  configure(plugins: CsiConfig["plugins"]): void {
    const kept = new Set(plugins.map(({ id }) => id));
    for (const [id, plugin] of this.#plugins) if (!kept.has(id)) this.#remove(id, plugin);
    for (const config of plugins) {
      const old = this.#plugins.get(config.id);
      if (old && isDeepStrictEqual(old.config, config)) continue;
      if (old) this.#remove(config.id, old);
      this.#plugins.set(config.id, this.#pluginOf(config));
    }
  }

  #pluginOf(config: CsiConfig["plugins"][number]): CsiPlugin {
    return new CsiPlugin(
      config,
      () => this.onChange(),
      (info, client, last) =>
        inspectVolumes({
          client,
          pluginId: config.id,
          info,
          uses: this.#uses,
          last,
          whenIdle: (externalId, task) => {
            const turn = volumeTurn(config.id, externalId);
            return this.#queue.isBusy(turn) ? undefined : this.#queue.run(turn, task);
          },
        }),
    );
  }

  #remove(id: string, plugin: CsiPlugin): void {
    this.#plugins.delete(id);
    plugin.retire();
  }

  /** Probes every plugin now. The first call also starts periodic probes. */
  async probe(): Promise<void> {
    await Promise.all([...this.#plugins.values()].map((plugin) => plugin.probe()));
  }

  stop(): void {
    for (const plugin of this.#plugins.values()) plugin.stop();
  }

  /** The plugins' part of the node report, with both maps: an absent one would leave removed plugins at the service. */
  get reported(): Reported {
    const plugins = [...this.#plugins.values()];
    const named = <T>(of: (plugin: CsiPlugin) => T | undefined) =>
      plugins.flatMap((plugin) => {
        const info = of(plugin);
        return info === undefined ? [] : [[plugin.config.id, info] as const];
      });
    return {
      CSIControllerPlugins: Object.fromEntries(named(({ controller }) => controller)),
      CSINodePlugins: Object.fromEntries(named(({ node }) => node)),
    };
  }

  /** The last inspections of published volumes, by plugin. */
  get volumes(): ReadonlyMap<string, VolumeHealth> {
    return new Map([...this.#plugins].map(([id, plugin]) => [id, plugin.volumes]));
  }

  /** Whether each plugin is healthy. */
  get health(): ReadonlyMap<string, boolean> {
    return new Map([...this.#plugins].map(([id, plugin]) => [id, plugin.isHealthy]));
  }

  get handlers(): Pick<Handlers, CsiOperation> {
    const methods = Object.keys(this.#works) as CsiOperation[];
    const handlerOf = <M extends CsiOperation>(method: M) => [
      method,
      (params: ParamsOf<M>, run: Run) => this.#run(method, params, run),
    ];
    return Object.fromEntries(methods.map(handlerOf)) as Pick<Handlers, CsiOperation>;
  }

  async #run<M extends CsiOperation>(method: M, params: ParamsOf<M>, run: Run): Promise<Outcome<ResultOf<M>>> {
    const { pluginId } = params;
    const plugin = this.#plugins.get(pluginId);
    // An earlier run may have reached the plugin.
    const outcome = run.again && !METHODS[method].reads ? "unknown" : "failed";
    const refuse = (kind: ErrorKind, message: string) => ({ ...failed(kind, message), outcome }) as const;
    if (!plugin) return refuse("forbidden", `CSI plugin "${pluginId}" is not in this node's configuration`);
    const role: Role = method.startsWith("csi.node.") ? "node" : "controller";
    if (!plugin.config.roles.includes(role))
      return refuse("forbidden", `CSI plugin "${pluginId}" is no ${role} in this node's configuration`);
    const until = Date.now() + run.limitMs;
    return this.#queue.run(turnOf(method, params), async () => {
      if (Date.now() >= until) return refuse("timeout", `${method} has waited for others of its plugin for too long`);
      const { client } = plugin;
      const { secrets, again } = run;
      const work = this.#works[method];
      const ended = await plugin.during(() =>
        outcomeOf(method, pluginId, again, () => work(params, { client, secrets, until })),
      );
      // The service may try another controller next, so the plugin's state is refreshed.
      if (!ended.ok && (ended.kind === "unavailable" || ended.kind === "unsupported")) void plugin.probe();
      return ended;
    });
  }
}

const volumeTurn = (pluginId: string, externalId: string): string => JSON.stringify([pluginId, "volume", externalId]);

/** The serialization key: operations with the same key run in sequence. CSI permits one call at a time per volume. */
function turnOf(method: CsiOperation, params: ParamsOf<CsiOperation>): string {
  const { pluginId } = params;
  if (DESTRUCTIVE.includes(method)) return JSON.stringify([pluginId]);
  if ("externalId" in params) return volumeTurn(pluginId, params.externalId);
  if ("name" in params) return JSON.stringify([pluginId, "name", params.name]);
  return JSON.stringify([pluginId, "list", Math.random()]);
}
