import { setTimeout as sleep } from "node:timers/promises";
import { randomFrom } from "../crash/random.ts";
import { Chaos } from "./chaos.ts";
import { Client, Refused } from "./client.ts";
import { Credentials } from "./credentials.ts";
import { CsiVolumes } from "./csi-volumes.ts";
import { Engine } from "./engines.ts";
import { unwell } from "./gauges.ts";
import { HostVolumes } from "./host-volumes.ts";
import { Nodes } from "./nodes.ts";
import { leftOver, withoutAlarm } from "./pending-rows.ts";
import { type Providers, startProviders } from "./providers.ts";
import { Line } from "./proxy-line.ts";
import { Rollout } from "./rollout.ts";
import { Secrets } from "./secrets.ts";
import { Service } from "./service.ts";
import { Streams } from "./streams.ts";
import { Syncing } from "./syncing.ts";
import type { Random, Workload } from "./workload.ts";

const SECRETS = 18;
const NODES = 2;
/** The longest time between two kills of the service; what engines do takes less time alone. */
const PEACE_MS = 8_000;
const PEACE_OF_ENGINES_MS = 2_500;
const PEACE_AT_SERVICE_MS = 1_500;
/** How long what has been begun may take to end. */
const LAST_WORDS_MS = 120_000;
/** How long events of the last changes may take. */
const LAST_EVENTS_MS = 60_000;

/** Loads: everything, credentials of engines without nodes and destinations, credentials of pools. */
export const AREAS = ["all", "engines", "pools", "sync"] as const;
type Area = (typeof AREAS)[number];
export const isArea = (word: string): word is Area => (AREAS as readonly string[]).includes(word);

/** Parts of the load, and which faults prevail. */
export interface Scope {
  readonly area: Area;
  /** The service is killed as often as possible, all else rarely. */
  readonly isAtService: boolean;
}

/** The service with its providers and nodes, its clients, and the faults. */
export class World {
  readonly #seed: number;
  readonly #rollout: Rollout | null;
  readonly #scope: Scope;
  #providers: Providers | undefined;
  #service: Service | undefined;
  #client: Client | undefined;
  #chaos: Chaos | undefined;
  #nodes: Nodes | undefined;
  #lines: Record<string, Line> = {};
  #workloads: readonly Workload[] = [];

  /** @param from a commit whose code serves beside the present; null: none */
  constructor(seed: number, from: string | null, scope: Scope) {
    this.#seed = seed;
    this.#scope = scope;
    this.#rollout = from === null ? null : new Rollout(from, this.#randomFor("rollout"));
  }

  async begin(): Promise<void> {
    const providers = await startProviders();
    this.#providers = providers;
    const bindings = {
      MASTER_KEY: Buffer.from("faults-tests-use-this-master-ky!").toString("base64"),
      DEV_ROOT_TOKEN: "root",
      EVENT_HEARTBEAT_MS: "500",
      RATE_LIMITS: "off",
      // Of every third seed relays serve the streams.
      EVENT_RELAYS: this.#seed % 3 === 2 ? "2" : "0",
      ...providers.settings,
    };
    const service = new Service(bindings, this.#rollout);
    this.#service = service;
    const clients = await new Line(() => service.port).open();
    const agents = await new Line(() => service.port, true).open();
    this.#lines = { clients, agents };
    const client = new Client(service, clients);
    this.#client = client;
    await service.create();
    const { area, isAtService } = this.#scope;
    const engines = area === "pools" || area === "sync" ? [] : providers.engines;
    const secrets = new Secrets(client, this.#randomFor, SECRETS);
    const syncing = [secrets, new Syncing(client, this.#randomFor, providers, secrets, this.#rollout?.leftOut)];
    const others = area === "all" ? await this.#others(client, agents.url) : [];
    const credentials: Workload[] = [
      ...(area === "sync"
        ? []
        : [new Credentials(client, this.#randomFor, providers.directory, area === "pools", this.#rollout?.leftOut)]),
      ...engines.map((provider) => new Engine(client, this.#randomFor, provider)),
    ];
    this.#workloads = [...(area === "all" || area === "sync" ? syncing : []), ...others, ...credentials];
    await this.#beginAll(credentials);
    this.#chaos = new Chaos({
      service,
      providers: {
        all: providers.all,
        engines: [providers.directory, ...engines],
        pools: [providers.directory],
        sync: Object.values(providers.stores),
      }[area],
      mortals: this.#nodes?.processes ?? [],
      lines: this.#lines,
      answered: () => client.answered,
      peaceMs: isAtService ? PEACE_AT_SERVICE_MS : area === "engines" ? PEACE_OF_ENGINES_MS : PEACE_MS,
      isAtService,
    });
  }

  /** In a rollout the first version decides which types the load uses. */
  async #beginAll(engines: readonly Workload[]): Promise<void> {
    const leftOut = this.#rollout?.leftOut;
    for (const workload of this.#workloads) {
      try {
        await workload.begin();
      } catch (failure) {
        if (!leftOut || !(failure instanceof Refused) || !engines.includes(workload)) throw failure;
        leftOut.push(workload.name);
        this.#workloads = this.#workloads.filter((each) => each !== workload);
      }
    }
  }

  async #others(client: Client, agents: string): Promise<Workload[]> {
    const nodes = new Nodes(client, NODES, agents);
    this.#nodes = nodes;
    await nodes.begin();
    return [
      new Streams(client, this.#randomFor),
      new HostVolumes(client, this.#randomFor, nodes),
      new CsiVolumes(client, this.#randomFor, nodes),
    ];
  }

  /** Works and kills until it is over, and a little longer: the kills end first. */
  async run(going: () => boolean): Promise<void> {
    let working = true;
    const work = this.#workloads.map((workload) => workload.run(() => working));
    await this.#chaos?.run(this.#randomFor, going);
    working = false;
    if (this.#client) this.#client.until = Date.now() + LAST_WORDS_MS;
    await Promise.all(work);
  }

  wrong(): string[] {
    const areas = this.#workloads.flatMap(({ name, wrong }) => wrong.map((what) => `${name}: ${what}`));
    return [
      ...areas,
      ...(this.#chaos?.wrong ?? []),
      ...(this.#service?.wrong ?? []),
      ...(this.#nodes?.wrong ?? []),
      ...(this.#client?.wrong ?? []),
    ];
  }

  async unsettled(): Promise<string[]> {
    const found = await Promise.all(
      this.#workloads.map(async (workload) => (await workload.unsettled()).map((what) => `${workload.name}: ${what}`)),
    );
    if (found.some((faults) => faults.length > 0)) return found.flat();
    const left = leftOver(this.#service?.dataDir ?? "");
    return left.length > 0 || !this.#client ? left : unwell(this.#client);
  }

  /** Checks first the service's responses, then its rows after its end. */
  async verify(): Promise<string[]> {
    const faults: string[] = [];
    for (const workload of this.#workloads)
      faults.push(...(await workload.verify()).map((what) => `${workload.name}: ${what}`));
    faults.push(...this.wrong());
    const { dataDir = "" } = this.#service ?? {};
    // The checks have changed the last things, and events of these changes are on their way.
    for (const until = Date.now() + LAST_EVENTS_MS; leftOver(dataDir).length > 0 && Date.now() < until; )
      await sleep(500);
    await this.#service?.stop();
    return [...faults, ...leftOver(dataDir), ...withoutAlarm(dataDir)];
  }

  /** How often the service died, whole or one of its processes. */
  get serviceKills(): number {
    return this.#chaos?.serviceKills ?? 0;
  }

  progress(): string {
    return `${this.#chaos?.kills.total} kills, ${this.#chaos?.cuts.total} cuts, ${this.#client?.outcomes.total} requests`;
  }

  told(): string {
    const lines = [
      `seed      ${this.#seed}`,
      ...(this.#rollout ? [`versions  ${this.#rollout.told()}`] : []),
      `kills     ${this.#chaos?.kills}`,
      `network   ${this.#chaos?.cuts}`,
      `faults    ${this.#chaos?.faults}`,
      `starts    ${this.#service?.starts} of the runtime`,
      `requests  ${this.#client?.outcomes}`,
      ...this.#workloads.map((workload) => `${workload.name.padEnd(9)} ${workload.told()}`),
    ];
    return `${lines.join("\n")}\n`;
  }

  async end(keep: boolean): Promise<void> {
    for (const line of Object.values(this.#lines)) line.close();
    if (keep) {
      await this.#service?.kill();
      console.log(`the state is in ${this.#service?.dataDir}\n${this.#service?.said.slice(-20_000)}`);
    }
    await this.#service?.destroy(keep);
    await this.#nodes?.end(keep);
    await this.#providers?.close();
  }

  #randomFor = (name: string): Random => {
    let mixed = this.#seed;
    for (const char of name) mixed = Math.imul(mixed ^ char.charCodeAt(0), 0x01000193);
    return randomFrom(mixed);
  };
}
