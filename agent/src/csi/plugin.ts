import { isDeepStrictEqual } from "node:util";
import type { ReportedCsiController, ReportedCsiNode } from "@sallyport/agent-protocol";
import { error, textOf, warn } from "../log.ts";
import { PluginClient } from "./client.ts";
import type { CsiPluginConfig } from "./config.ts";
import { controllerInfo, nodeInfo, type PluginFingerprint, probePlugin } from "./fingerprint.ts";
import { NO_VOLUMES, type VolumeHealth } from "./volume-health.ts";

/** Consecutive probe failures until a plugin is reported unhealthy, unless its socket is not served. */
const FAILURES_UNTIL_UNHEALTHY = 2;
const PROBE_HEALTHY_MS = 30_000;
const PROBE_UNHEALTHY_MS = 3_000;

/** Inspects the published volumes of a plugin. */
type Inspect = (info: ReportedCsiNode["NodeInfo"], client: PluginClient, last: VolumeHealth) => Promise<VolumeHealth>;

/** The reported state of a plugin; its last fingerprint outlives its health. */
interface State {
  readonly fingerprint: PluginFingerprint | undefined;
  readonly healthy: boolean;
  readonly description: string;
}

/**
 * A configured plugin: its client and its health. It is probed periodically until `stop`.
 *
 *   unhealthy --probe succeeds--> healthy --socket gone, or 2 failures--> unhealthy
 */
export class CsiPlugin {
  readonly config: CsiPluginConfig;
  readonly client: PluginClient;
  readonly #onChange: () => void;
  readonly #inspect: Inspect;
  #state: State = { fingerprint: undefined, healthy: false, description: "it has not been reached yet" };
  #since = new Date().toISOString();
  #failures = 0;
  #probing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #volumes = NO_VOLUMES;
  #operations = 0;
  #retired = false;

  constructor(config: CsiPluginConfig, onChange: () => void, inspect: Inspect) {
    this.#inspect = inspect;
    this.config = config;
    this.client = new PluginClient(config.id, config.socket);
    this.#onChange = onChange;
  }

  /** Probes the plugin now; concurrent callers share one probe. */
  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  /** Runs an operation; a retired plugin keeps its connection until the last one has completed. */
  async during<T>(operation: () => Promise<T>): Promise<T> {
    this.#operations++;
    try {
      return await operation();
    } finally {
      this.#operations--;
      if (this.#retired && this.#operations === 0) this.stop();
    }
  }

  /** Stops once no operation runs. */
  retire(): void {
    this.#retired = true;
    if (this.#operations === 0) this.stop();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.client.close();
  }

  /** Undefined without the role. */
  get controller(): ReportedCsiController | undefined {
    const { fingerprint } = this.#state;
    if (!this.config.roles.includes("controller") || fingerprint?.controller === null) return undefined;
    const bytes = fingerprint?.availableBytes;
    return {
      ...this.#common(),
      ControllerInfo: fingerprint?.controller ?? controllerInfo(null),
      ...(bytes !== undefined && { AvailableCapacity: bytes }),
    };
  }

  get node(): ReportedCsiNode | undefined {
    const { fingerprint } = this.#state;
    if (!this.config.roles.includes("node") || fingerprint?.node === null) return undefined;
    const { problems } = this.#volumes;
    return {
      ...this.#common(),
      NodeInfo: fingerprint?.node ?? nodeInfo(null, null, this.config.topology),
      ...(problems.length > 0 && { VolumeProblems: [...problems] }),
    };
  }

  #common(): Omit<ReportedCsiController, "ControllerInfo"> {
    const { fingerprint, healthy, description } = this.#state;
    return {
      PluginID: this.config.id,
      Provider: fingerprint?.provider ?? "",
      ProviderVersion: fingerprint?.version ?? "",
      Healthy: healthy,
      HealthDescription: description,
      RequiresControllerPlugin: fingerprint?.requiresController ?? false,
      RequiresTopologies: fingerprint?.requiresTopologies ?? false,
      UpdateTime: this.#since,
    };
  }

  /** The last inspection of its published volumes. */
  get volumes(): VolumeHealth {
    return this.#volumes;
  }

  get isHealthy(): boolean {
    return this.#state.healthy;
  }

  async #probe(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const probe = await probePlugin(this.client, this.config);
      this.#recordProbe(probe);
      if (probe.ok && probe.fingerprint.node) await this.#inspectVolumes(probe.fingerprint.node);
    } catch (failure) {
      error("csi_plugin_look_failed", { plugin: this.config.id, message: textOf(failure) });
    }
    if (this.#stopped || this.#retired) return;
    const everyMs = this.#state.healthy && this.#failures === 0 ? PROBE_HEALTHY_MS : PROBE_UNHEALTHY_MS;
    this.#timer = setTimeout(() => void this.probe(), everyMs * (0.8 + 0.4 * Math.random()));
    this.#timer.unref();
  }

  async #inspectVolumes(info: ReportedCsiNode["NodeInfo"]): Promise<void> {
    const before = this.#volumes.problems;
    this.#volumes = await this.#inspect(info, this.client, this.#volumes);
    const { problems } = this.#volumes;
    if (this.#stopped || isDeepStrictEqual(problems, before)) return;
    for (const { ExternalID, AllocID, Reason } of problems)
      if (
        !before.some((known) => known.ExternalID === ExternalID && known.AllocID === AllocID && known.Reason === Reason)
      )
        warn("csi_volume_problem", {
          plugin: this.config.id,
          volume: ExternalID,
          allocation: AllocID,
          message: Reason,
        });
    this.#onChange();
  }

  #recordProbe(probe: Awaited<ReturnType<typeof probePlugin>>): void {
    if (probe.ok) {
      this.#failures = 0;
      this.#setState({ fingerprint: probe.fingerprint, healthy: true, description: "healthy" });
      return;
    }
    this.#failures++;
    if (this.#failures === 1) warn("csi_plugin_failed", { plugin: this.config.id, message: probe.reason });
    const { fingerprint, healthy } = this.#state;
    if (healthy && !probe.gone && this.#failures < FAILURES_UNTIL_UNHEALTHY) return;
    this.#setState({ fingerprint, healthy: false, description: probe.reason });
  }

  #setState(state: State): void {
    if (this.#stopped || isDeepStrictEqual(state, this.#state)) return;
    this.#state = state;
    this.#since = new Date().toISOString();
    this.#onChange();
  }
}
