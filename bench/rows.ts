/**
 * Every figure with a goal: this version and that of another checkout, in turns, and against other programs, where the
 * caller names them. A part that fails or takes too long loses its own rows alone.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BackupBench, type BackupScale } from "./backup.ts";
import { Deployments, startBareDump } from "./backup-sides.ts";
import { EngineBench, type EngineScale } from "./engine.ts";
import { CloudDouble, startBareCloud, startEngines } from "./engine-sides.ts";
import { Loader } from "./loader.ts";
import { type Compared, counted, ofPeer, ofSide, PeersBench, type PeersScale, type Scenario } from "./peers.ts";
import { startClusterPeer, startSecretsPeer } from "./peers-sides.ts";
import { compared, type Measure, measure, type Slice } from "./rounds.ts";
import { SECRET, type Side, startBare, startOurs } from "./sides.ts";
import { SyncBench, type SyncScale } from "./sync.ts";
import { Double, startLoop, startService } from "./sync-sides.ts";

export interface RowsScale {
  readonly peers: PeersScale;
  /** A slice of one connection, whose slowest answers count. */
  readonly tailMs: number;
  readonly engine: EngineScale;
  readonly engineAtOnce: readonly number[];
  readonly sync: SyncScale;
  readonly backup: BackupScale;
}

type Goal = { readonly least: number } | { readonly most: number };

export interface GoalRow {
  readonly name: string;
  /** Absent for a row that only explains another. */
  readonly goal?: Goal | undefined;
  /** Null where the version could not run the row. */
  readonly old: number | null;
  readonly new: number | null;
}

export interface RowsFigures {
  /** Parts that failed, with the reason. */
  readonly failures: readonly string[];
  readonly rows: readonly GoalRow[];
}

/** The stage of a part, as far as the rows need it. */
export interface RowsStage {
  readonly dir: string;
  note(text: string): void;
  stops<T extends { stop(): void }>(one: T): T;
}

/** Checkout of the old version, and programs; an empty name leaves its columns or rows out. */
export interface RowsPrograms {
  readonly old: string;
  readonly secrets: string;
  readonly cluster: string;
}

type Version = "new" | "old";
type Values = Readonly<Partial<Record<Version, number | null | undefined>>>;

const WITHOUT = "without replicas";
const PART_LIMIT_MS = 600_000;
const IDLE_MS = 3_000;
const BURST = 32;
/** By the number of readers: p50 in ms, and lines a second of bursts. */
const EVENT_GOALS: Readonly<Record<number, { readonly p50: number; readonly lines: number }>> = {
  1: { p50: 2.2, lines: 1_500 },
  100: { p50: 6, lines: 29_000 },
  1000: { p50: 45, lines: 60_000 },
};
const TAIL = { most: 5 };

export class RowsBench {
  readonly #stage: RowsStage;
  readonly #scale: RowsScale;
  readonly #programs: RowsPrograms;
  readonly #versions: readonly Version[];
  readonly #rows: GoalRow[] = [];
  readonly #failures: string[] = [];
  readonly #running: { stop(): void }[] = [];

  constructor(stage: RowsStage, scale: RowsScale, programs: RowsPrograms) {
    this.#stage = stage;
    this.#scale = scale;
    this.#programs = programs;
    this.#versions = programs.old ? ["new", "old"] : ["new"];
  }

  /** @param only names of parts; all without one */
  async run(only: readonly string[]): Promise<RowsFigures> {
    const parts = {
      requests: () => this.#requests(),
      engine: () => this.#each("credentials", (version) => this.#engine(version)),
      sync: () => this.#each("sync", (version) => this.#sync(version)),
      backup: () => this.#each("backup", (version) => this.#backup(version)),
    };
    for (const [name, part] of Object.entries(parts)) {
      if (only.length > 0 && !only.includes(name)) continue;
      await part().catch((failure) => this.#failed(name, failure));
      this.#stopAll();
    }
    return { failures: this.#failures, rows: this.#rows };
  }

  // ---- requests and events ----

  async #requests(): Promise<void> {
    const { old, secrets, cluster } = this.#programs;
    const sides = new Map<string, Side>();
    for (const version of this.#versions) {
      for (const replicas of [1, 0]) {
        const name = replicas === 0 ? `${version} ${WITHOUT}` : version;
        const root = version === "old" ? old : undefined;
        sides.set(name, await this.#serves(startOurs(join(this.#stage.dir, name), replicas, root)));
      }
    }
    const ours = (of: (side: Side) => string) =>
      this.#versions.flatMap((version) => {
        const side = sides.get(version);
        return side ? [ofSide(version, side, of(side))] : [];
      });
    const bare = await this.#serves(startBare(this.#stage.dir));
    await sleep(IDLE_MS);
    const memory = (name: string, most: number) => {
      const of = (version: Version) => (sides.get(version)?.server.memory() ?? Number.NaN) / 2 ** 20;
      this.#add(`memory ${name}, MiB`, { new: of("new"), ...(old && { old: of("old") }) }, { most });
    };
    memory("of an idle service", 120);

    const bench = () => new PeersBench(this.#stops(new Loader()), this.#scale.peers, (text) => this.#stage.note(text));
    await this.#limited("KV", async () => {
      const peers = bench();
      const compared = [...sides].map(([name, side]) => ofSide(name, side, side.token));
      compared.push(ofSide("bare", bare, bare.token));
      if (secrets) {
        const peer = this.#stops(await startSecretsPeer(secrets, this.#stage.dir));
        compared.push(ofPeer("OpenBao", peer));
      }
      for (const scenario of await peers.secrets(compared)) this.#keyValue(scenario);
      memory("after the KV run", 200);
      await this.#alone(peers, [...ours(({ token }) => token), ofSide("bare", bare, bare.token)], sides);
    });
    await this.#limited("events", async () => {
      const peers = bench();
      const compared: Compared[] = ours(({ access }) => access.token);
      if (cluster) {
        const peer = this.#stops(await startClusterPeer(cluster, this.#stage.dir));
        compared.push(ofPeer("Nomad", peer));
      }
      for (const readers of this.#scale.peers.readers) {
        this.#events(readers, await peers.events(compared, readers, 1), await peers.events(compared, readers, BURST));
      }
      memory("after the event run", 250);
    });
  }

  #keyValue(scenario: Scenario): void {
    const { name } = scenario;
    const isWrite = name.includes("write");
    const theirs = scenario.slices["OpenBao"] && measure(scenario.slices["OpenBao"]);
    const limit = (of: (measured: Measure) => number | undefined): Goal | undefined => {
      const most = theirs && of(theirs);
      return most === undefined ? undefined : { most };
    };
    this.#measures(`${name}, /s`, scenario, ({ perSecond }) => perSecond.median);
    this.#measures(`${name}, p50 ms`, scenario, p50, isWrite ? undefined : limit(p50));
    this.#measures(`${name}, p99 ms`, scenario, p99, limit(p99));
    this.#measures(`${name}, CPU µs`, scenario, cpu);
    if (theirs) this.#against(`${name}, × OpenBao`, scenario, () => "OpenBao", { least: isWrite ? 1.5 : 1 });
    const without = (version: Version) => `${version} ${WITHOUT}`;
    this.#against(`${name}, × ${WITHOUT}`, scenario, without, isWrite ? { least: 0.95 } : undefined);
    this.#against(`${name}, × bare`, scenario, () => "bare", isWrite ? { least: 0.6 } : undefined);
  }

  /** One caller, whose slowest answers count, and the look-up of a token against the bare Worker that writes an audit line. */
  async #alone(peers: PeersBench, sides: readonly Compared[], named: ReadonlyMap<string, Side>): Promise<void> {
    const ours = sides.filter(({ name }) => name !== "bare");
    const { keys } = this.#scale.peers;
    const lookUp = named.get("new")?.layer.oneObject ?? { method: "GET" as const, path: "" };
    for (const [name, ask] of [
      ["KV read", ({ keys: path }: Compared) => ({ method: "GET" as const, path, keys, body: "" })],
      ["KV write", ({ keys: path }: Compared) => ({ method: "PUT" as const, path, keys, body: SECRET })],
      ["token look-up", () => ({ ...lookUp, keys: 0, body: "" })],
    ] as const) {
      const job = { connections: 1, ms: this.#scale.tailMs };
      const scenario = await peers.inTurns(name, ours, (side) => peers.ask(side, { ...ask(side), ...job }));
      this.#measures(`${name}, one caller, p99 / p50`, scenario, tail, TAIL);
    }
    const scenario = await peers.inTurns("lookup-self", sides, (side) =>
      peers.ask(side, { ...(side.name === "bare" ? AUDITED_ROW : lookUp), keys: 0, body: "" }),
    );
    const cost = (version: Version) => {
      const times = comparison(scenario, version, "bare")?.cpuRatio;
      return times && 1 / times.median;
    };
    this.#add("lookup-self, CPU, × bare with an audit line", this.#values(cost), { most: 1.3 });
    this.#measures("lookup-self, CPU µs", scenario, cpu);
  }

  #events(readers: number, single: Scenario, burst: Scenario): void {
    const goals = EVENT_GOALS[readers];
    const at = `at ${counted(readers, "reader")}`;
    const isOne = readers === 1;
    this.#measures(`event ${at}, p50 ms`, single, p50, goals && { most: goals.p50 });
    this.#measures(`event ${at}, p99 ms`, single, p99);
    if (isOne) this.#measures(`event ${at}, p99 / p50`, single, tail, TAIL);
    this.#measures(`event ${at}, CPU µs a write`, single, cpu, isOne ? { most: 2_000 } : undefined);
    const lines = ({ perSecond }: Measure) => perSecond.median * readers;
    this.#measures(`bursts of ${BURST} ${at}, lines/s`, burst, lines, goals && { least: goals.lines });
    for (const [name, scenario] of [
      ["event", single],
      [`bursts of ${BURST}`, burst],
    ] as const) {
      if (scenario.slices["Nomad"]) this.#against(`${name} ${at}, × Nomad`, scenario, () => "Nomad");
    }
  }

  // ---- parts that one version runs after the other ----

  async #engine(version: Version): Promise<PartRow[]> {
    const dir = join(this.#stage.dir, version);
    const loader = this.#stops(new Loader());
    const double = this.#stops(await CloudDouble.start());
    const service = await this.#serves(startEngines(dir, double, this.#rootOf(version)));
    const bare = await this.#serves(startBareCloud(dir, double));
    const sides = { loader, service, bare, double };
    const bench = new EngineBench(sides, this.#scale.engine, (text) => this.#stage.note(`${version}: ${text}`));
    const rows = await bench.credentials(this.#scale.engineAtOnce);
    return rows.flatMap(({ name, measured, ratio, aims }): PartRow[] => {
      const isSlow = name.endsWith("50 ms");
      const rate = { name: `${name}, × the script`, value: ratio.median };
      const goal = isSlow && name.includes("16 ") ? { least: 1 } : undefined;
      const time = { name: `${name}, CPU µs`, value: measured.cpu?.median, goal: { most: aims.cpu } };
      return isSlow ? [{ ...rate, goal }] : [time];
    });
  }

  async #sync(version: Version): Promise<PartRow[]> {
    const dir = join(this.#stage.dir, version);
    const loader = this.#stops(new Loader());
    const double = this.#stops(await Double.start());
    const service = await this.#serves(startService(dir, double.settings, false, this.#rootOf(version)));
    const loop = await this.#serves(startLoop(dir, double));
    const sides = { loader, service, loop, double };
    const bench = new SyncBench(sides, this.#scale.sync, (text) => this.#stage.note(`${version}: ${text}`));
    const { written, backlog } = await bench.slow();
    return (
      [
        ["while written", written, 0.7],
        ["backlog", backlog, 0.8],
      ] as const
    ).flatMap(([name, { ratio, ours }, least]) => [
      { name: `pushes with answers after 20 ms, ${name}, × the script`, value: ratio.median, goal: { least } },
      { name: `pushes with answers after 20 ms, ${name}, CPU µs`, value: ours.cpu?.median, goal: { most: 800 } },
    ]);
  }

  async #backup(version: Version): Promise<PartRow[]> {
    const loader = this.#stops(new Loader());
    const dir = join(this.#stage.dir, version);
    const deployments = new Deployments(dir, this.#rootOf(version));
    const deploy = () => this.#serves(deployments.start());
    const bare = (name: string) => this.#serves(startBareDump(dir, name));
    const note = (text: string) => this.#stage.note(`${version}: ${text}`);
    const bench = new BackupBench({ dir: this.#stage.dir, loader, deploy, bare }, this.#scale.backup, note);
    const { sizes, meanwhile } = await bench.run();
    const large = sizes[1];
    const [read] = meanwhile;
    const heldUp = large && Math.max(large.heldUp.policy.median, large.heldUp.secret.median);
    const secrets = `${large?.secrets} secrets`;
    return [
      {
        name: `reads while a snapshot of ${secrets} is taken, × without`,
        value: read?.ratio.median,
        goal: { least: 0.7 },
      },
      { name: `writes held up by a snapshot of ${secrets}, ms`, value: heldUp, goal: { most: 300 } },
      { name: `restore of ${secrets}, s`, value: large?.restore.seconds, goal: { most: 15 } },
      { name: `restore of ${secrets}, CPU s`, value: large?.restore.cpu },
    ];
  }

  // ---- rows ----

  #rootOf(version: Version): string | undefined {
    return version === "old" ? this.#programs.old : undefined;
  }

  /** Runs a part for each version, and joins their rows. */
  async #each(name: string, part: (version: Version) => Promise<PartRow[]>): Promise<void> {
    const found = new Map<Version, readonly PartRow[]>();
    for (const version of this.#versions) {
      await this.#limited(`${name}, ${version}`, async () => {
        found.set(version, await part(version));
      });
      this.#stopAll();
    }
    const rows = found.get("new") ?? found.get("old") ?? [];
    for (const [at, row] of rows.entries()) {
      const value = (version: Version) => found.get(version)?.[at]?.value;
      this.#add(row.name, this.#values(value), row.goal);
    }
  }

  async #limited(name: string, part: () => Promise<void>): Promise<void> {
    const limit = Promise.withResolvers<never>();
    const timer = setTimeout(() => limit.reject(new Error("took too long")), PART_LIMIT_MS);
    try {
      await Promise.race([part(), limit.promise]);
    } catch (failure) {
      this.#failed(name, failure);
    } finally {
      clearTimeout(timer);
    }
  }

  #failed(name: string, failure: unknown): void {
    this.#failures.push(`${name}: ${failure}`);
    this.#stage.note(`${name} failed: ${failure instanceof Error ? failure.stack : failure}`);
  }

  #stops<T extends { stop(): void }>(one: T): T {
    this.#running.push(one);
    return this.#stage.stops(one);
  }

  async #serves<T extends { readonly server: { stop(): void } }>(side: Promise<T>): Promise<T> {
    const served = await side;
    this.#stops(served.server);
    return served;
  }

  #stopAll(): void {
    for (const one of this.#running.splice(0)) one.stop();
  }

  #measures(name: string, { slices }: Scenario, of: (measured: Measure) => number | undefined, goal?: Goal): void {
    const value = (version: Version) => (slices[version] ? of(measure(slices[version])) : null);
    this.#add(name, this.#values(value), goal);
  }

  /** Rates against another side, round by round. */
  #against(name: string, scenario: Scenario, other: (version: Version) => string, goal?: Goal): void {
    const value = (version: Version) => comparison(scenario, version, other(version))?.ratio.median;
    this.#add(name, this.#values(value), goal);
  }

  #values(of: (version: Version) => number | null | undefined): Values {
    return Object.fromEntries(this.#versions.map((version) => [version, of(version)]));
  }

  #add(name: string, values: Values, goal?: Goal): void {
    const row = { name, goal, old: values.old ?? null, new: values.new ?? null };
    this.#rows.push(row);
    this.#stage.note(`${name}: old ${row.old?.toFixed(2)}, new ${row.new?.toFixed(2)}`);
  }
}

interface PartRow {
  readonly name: string;
  readonly value: number | null | undefined;
  readonly goal?: Goal | undefined;
}

/** The row that the bare Worker reads beside writing an audit line. */
const AUDITED_ROW = { method: "GET", path: "/audited/rows/small/app/k000000" } as const;

function comparison({ name, slices }: Scenario, first: string, second: string) {
  const [a, b] = [slices[first] as readonly Slice[] | undefined, slices[second] as readonly Slice[] | undefined];
  return a && b ? compared(name, a, b) : undefined;
}

const p50 = ({ p50 }: Measure) => p50?.median;
const p99 = ({ p99 }: Measure) => p99?.median;
const cpu = ({ cpu }: Measure) => cpu?.median;
const tail = ({ p50, p99 }: Measure) => p50 && p99 && p99.median / p50.median;
