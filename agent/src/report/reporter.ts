import { MAX_VOLUMES, type NodeReport, type Report } from "@sallyport/agent-protocol";
import type { Config } from "../config.ts";
import type { Csi } from "../csi/index.ts";
import type { HostVolume, HostVolumes } from "../dhv/index.ts";
import { warn } from "../log.ts";
import { VERSION } from "../version.ts";
import { machineFacts } from "./machine.ts";

/** Consecutive failures until a plugin is reported unhealthy, since probes also fail on a busy machine. */
const FAILURES_UNTIL_UNHEALTHY = 2;

/** The protocol's bound; a longer reason would make the whole report invalid. */
const MAX_REASON_LENGTH = 1024;

/**
 * Builds the reports of this node from the machine, host volumes and CSI plugins. A full inspection runs every
 * plugin; a volume inspection costs one read of the volume list.
 */
export class Reporter {
  #config: Config;
  readonly #hostVolumes: Pick<HostVolumes, "fingerprint" | "volumes">;
  readonly #csi: Pick<Csi, "probe" | "reported">;
  readonly #plugins = new Map<string, { version?: string; failures: number }>();
  #probing: Promise<unknown> | undefined;
  /** Serializes inspections, so that an older report never replaces a newer one. */
  #inspecting: Promise<unknown> = Promise.resolve();
  #report: Report | undefined;
  /** Reported volumes, so that one that has not changed is the same object in the next report. */
  readonly #reported = new WeakMap<HostVolume, NodeReport["HostVolumes"][string]>();

  constructor(
    config: Config,
    hostVolumes: Pick<HostVolumes, "fingerprint" | "volumes">,
    csi: Pick<Csi, "probe" | "reported">,
  ) {
    this.#config = config;
    this.#hostVolumes = hostVolumes;
    this.#csi = csi;
  }

  /** Reports by this configuration from the next whole inspection on. */
  configure(config: Config): void {
    this.#config = config;
    // A running probe is of the old configuration.
    this.#probing = undefined;
    const allowed = new Set(["mkdir", ...config.hostVolumes.plugins.map(({ name }) => name)]);
    for (const name of this.#plugins.keys()) if (!allowed.has(name)) this.#plugins.delete(name);
  }

  /** The last report; undefined before the first. */
  get last(): Report | undefined {
    return this.#report;
  }

  /** Inspects the machine, plugins and volumes. */
  async inspect(): Promise<Report> {
    // Outside the queue of inspections: a hanging plugin must not delay other changes.
    if (!this.#probing) {
      const probing: Promise<unknown> = Promise.all([this.#probe(), this.#csi.probe()]).finally(() => {
        if (this.#probing === probing) this.#probing = undefined;
      });
      this.#probing = probing;
    }
    await this.#probing;
    return this.#next(() => this.#whole());
  }

  /** Inspects the volumes; machine and plugins are as last inspected. */
  inspectVolumes(): Promise<Report> {
    return this.#next(async () =>
      this.#report ? { ...this.#report, ...(await this.#volumes(this.#report)) } : this.#whole(),
    );
  }

  #next(inspect: () => Promise<Report>): Promise<Report> {
    const next = this.#inspecting.then(inspect).then((report) => {
      this.#report = report;
      return report;
    });
    this.#inspecting = next.catch(() => {});
    return next;
  }

  async #probe(): Promise<void> {
    for (const status of await this.#hostVolumes.fingerprint()) {
      const known = this.#plugins.get(status.name) ?? { failures: 0 };
      if (status.ok) {
        this.#plugins.set(status.name, { version: status.version, failures: 0 });
        continue;
      }
      const failures = known.failures + 1;
      if (failures === 1) warn("plugin_failed", { plugin: status.name, message: status.message });
      const well = known.version !== undefined && failures < FAILURES_UNTIL_UNHEALTHY;
      this.#plugins.set(status.name, well ? { version: known.version as string, failures } : { failures });
    }
  }

  async #whole(): Promise<Report> {
    const { name, datacenter, pool, meta, reserved, hostVolumes } = this.#config;
    const { attributes, resources } = await machineFacts(hostVolumes.volumesDir);
    const plugins = [...this.#plugins].flatMap(([plugin, { version }]) =>
      version === undefined ? [] : [[`plugins.host_volume.${plugin}.version`, version.slice(0, 1024)]],
    );
    const node = {
      Name: name,
      Datacenter: datacenter,
      NodeClass: this.#config.class,
      NodePool: pool,
      Attributes: { ...attributes, "agent.version": VERSION, ...Object.fromEntries(plugins) },
      Meta: meta,
      NodeResources: resources,
      ReservedResources: {
        Cpu: { CpuShares: reserved.cpuShares },
        Memory: { MemoryMB: reserved.memoryMB },
        Disk: { DiskMB: reserved.diskMB },
        Networks: { ReservedHostPorts: reserved.ports },
      },
      Drivers: {},
      HostVolumes: {},
    };
    return this.#volumes({ node, unavailableVolumes: [] });
  }

  #reportOf(volume: HostVolume): NodeReport["HostVolumes"][string] {
    const { id, name, path } = volume;
    const reported = this.#reported.get(volume) ?? { ID: id, Name: name, Path: path, ReadOnly: false };
    this.#reported.set(volume, reported);
    return reported;
  }

  async #volumes({ node }: Report): Promise<Report> {
    const volumes = (await this.#hostVolumes.volumes()).slice(0, MAX_VOLUMES);
    return {
      node: {
        ...node,
        ...this.#csi.reported,
        HostVolumes: Object.fromEntries(
          volumes.filter(({ problem }) => problem === undefined).map((volume) => [volume.name, this.#reportOf(volume)]),
        ),
      },
      unavailableVolumes: volumes.flatMap(({ id, name, problem }) =>
        problem === undefined ? [] : [{ id, name, reason: problem.slice(0, MAX_REASON_LENGTH) }],
      ),
    };
  }
}
