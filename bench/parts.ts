/** The parts of the bench: their servers and their reports. */
import { join, resolve } from "node:path";
import { AccessBench, type AccessScale } from "./access.ts";
import { accessMarkdown } from "./access-report.ts";
import { BackupBench, type BackupScale } from "./backup.ts";
import { backupMarkdown, backupPlots } from "./backup-report.ts";
import { Deployments, startBareDump } from "./backup-sides.ts";
import { CsiBench, type CsiScale } from "./csi.ts";
import { CsiPlugin } from "./csi-plugin.ts";
import { csiMarkdown, csiPlots } from "./csi-report.ts";
import { EdgeBench, type EdgeScale } from "./edge.ts";
import { edgeMarkdown } from "./edge-report.ts";
import { startEdge } from "./edge-sides.ts";
import { EngineBench, type EngineScale } from "./engine.ts";
import { engineMarkdown, enginePlots } from "./engine-report.ts";
import { CloudDouble, startBareCloud, startEngines } from "./engine-sides.ts";
import { EventsBench, type EventsScale } from "./events.ts";
import { eventsMarkdown, eventsPlots } from "./events-report.ts";
import { fullNode } from "./full-node.ts";
import { Loader } from "./loader.ts";
import { NotifyBench, type NotifyScale } from "./notify.ts";
import { type IdleSockets, idleSockets, runtimesFor } from "./notify-idle.ts";
import { notifyMarkdown } from "./notify-report.ts";
import { PeersBench, type PeersScale } from "./peers.ts";
import { peersMarkdown } from "./peers-report.ts";
import { startClusterPeer, startSecretsPeer } from "./peers-sides.ts";
import type { Plot } from "./plot.ts";
import { keyValuePlots, markdown, type RunInfo } from "./report.ts";
import { loaderBusy } from "./rounds.ts";
import { RowsBench, type RowsScale } from "./rows.ts";
import { rowsMarkdown } from "./rows-report.ts";
import { Bench, type Scale } from "./scenarios.ts";
import { type Side, startBare, startOurs } from "./sides.ts";
import { SoakBench, type SoakScale } from "./soak.ts";
import { soakMarkdown, soakPlots } from "./soak-report.ts";
import { SyncBench, type SyncScale } from "./sync.ts";
import { syncMarkdown, syncPlots } from "./sync-report.ts";
import { Double, startLoop, startService } from "./sync-sides.ts";
import { VolumesBench, type VolumesScale } from "./volumes.ts";
import { volumesMarkdown, volumesPlots } from "./volumes-report.ts";
import { type ClusterService, Load, startBareSockets, startCluster } from "./volumes-sides.ts";

const KV: Scaled<Scale> = {
  full: { rounds: 5, sliceMs: 600, keys: { small: 1_000, middle: 10_000, large: 100_000 }, fillMs: 90_000 },
  quick: { rounds: 3, sliceMs: 300, keys: { small: 1_000, middle: 3_000, large: 10_000 }, fillMs: 10_000 },
};
const ACCESS: Scaled<AccessScale> = {
  full: { rounds: 7, sliceMs: 1_000 },
  quick: { rounds: 3, sliceMs: 400 },
};
const SYNC: Scaled<SyncScale> = {
  full: { rounds: 7, secrets: 100, singles: 50, pauses: 5, pending: [1_000, 10_000, 30_000], slowSecrets: 1_000 },
  quick: { rounds: 3, secrets: 50, singles: 20, pauses: 3, pending: [1_000, 4_000], slowSecrets: 100 },
};
const ENGINE: Scaled<EngineScale> = {
  full: {
    rounds: 5,
    sliceMs: 600,
    slowSliceMs: 2_000,
    sizes: [100, 1_000, 10_000],
    ending: 10_000,
    spreadsMs: [60_000, 0],
    throttled: { leases: 2_000, perSecond: 200 },
  },
  quick: {
    rounds: 3,
    sliceMs: 300,
    slowSliceMs: 600,
    sizes: [100, 1_000, 10_000],
    ending: 1_000,
    spreadsMs: [6_000, 0],
    throttled: { leases: 500, perSecond: 200 },
  },
};
const EVENTS: Scaled<EventsScale> = {
  full: { rounds: 5, sliceMs: 600, streams: [1, 100, 1_000, 5_000], backlog: 100_000, oneIn: 1_000 },
  quick: { rounds: 3, sliceMs: 400, streams: [1, 100, 1_000], backlog: 20_000, oneIn: 1_000 },
};
const NOTIFY: Scaled<NotifyScale> = {
  full: { rounds: 5, sliceMs: 1_000, subscribers: [1, 100, 1_000], idle: [1_000] },
  quick: { rounds: 3, sliceMs: 400, subscribers: [1, 100, 1_000], idle: [1_000] },
};
const VOLUMES: Scaled<VolumesScale> = {
  full: {
    rounds: 5,
    sliceMs: 300,
    agents: 1_000,
    heldMs: 60_000,
    sizes: [1_000, 10_000, 100_000],
    queries: 5_000,
    waitedMs: 30_000,
    full: { volumes: 2_000, clients: 32, seconds: 20 },
  },
  quick: {
    rounds: 3,
    sliceMs: 300,
    agents: 200,
    heldMs: 12_000,
    sizes: [1_000, 10_000],
    queries: 1_000,
    waitedMs: 2_000,
    full: { volumes: 500, clients: 32, seconds: 5 },
  },
};
const CSI: Scaled<CsiScale> = {
  full: { rounds: 5, sliceMs: 600, atOnce: 500, external: 10_000, page: 500, sizes: [1_000, 100_000] },
  quick: { rounds: 3, sliceMs: 300, atOnce: 100, external: 2_000, page: 500, sizes: [1_000, 10_000] },
};
const BACKUP: Scaled<BackupScale> = {
  full: { rounds: 3, sliceMs: 1_500, sizes: [10_000, 100_000] },
  quick: { rounds: 3, sliceMs: 300, sizes: [1_000, 10_000] },
};
const EDGE: Scaled<EdgeScale> = {
  full: { rounds: 3, requests: 20, secrets: 10, countedMs: 10_000 },
  quick: { rounds: 2, requests: 10, secrets: 10, countedMs: 4_000 },
};
const PEERS: Scaled<PeersScale> = {
  full: { rounds: 5, sliceMs: 1_000, keys: 1_000, readers: [1, 100, 1_000] },
  quick: { rounds: 3, sliceMs: 400, keys: 300, readers: [1, 100] },
};
const ROWS: Scaled<RowsScale> = {
  full: {
    peers: { rounds: 5, sliceMs: 800, keys: 1_000, readers: [1, 100, 1_000] },
    tailMs: 2_500,
    engine: { ...ENGINE.full, rounds: 3 },
    engineAtOnce: [1, 8, 16],
    sync: { ...SYNC.full, slowSecrets: 500 },
    backup: { rounds: 2, sliceMs: 1_500, sizes: [1_000, 100_000] },
  },
  quick: {
    peers: { rounds: 2, sliceMs: 200, keys: 100, readers: [1, 100] },
    tailMs: 400,
    engine: { ...ENGINE.quick, rounds: 1 },
    engineAtOnce: [1, 16],
    sync: { ...SYNC.quick, rounds: 1, slowSecrets: 20 },
    backup: { rounds: 1, sliceMs: 300, sizes: [1_000, 2_000] },
  },
};
const SOAK: Scaled<SoakScale> = {
  full: { minutes: 3, each: 500, stateBytes: 1e9 },
  quick: { minutes: 0.5, each: 100, stateBytes: 1e8 },
};
const DEEP = 100_000;
/** As many subscriptions as a relay serves of one token. */
const DEEP_SOCKETS = 10_000;

interface Scaled<S> {
  readonly full: S;
  readonly quick: S;
}

/** Environment of a bench part. */
export interface Stage {
  readonly dir: string;
  readonly quick: boolean;
  readonly deep: boolean;
  /** Duration of the soak; null for that of the scale. */
  readonly minutes: number | null;
  note(text: string): void;
  /** Stopped when the part ends, for any end. */
  stops<T extends { stop(): void }>(one: T): T;
  /** The same for a side and its server. */
  serves<T extends { readonly server: { stop(): void } }>(side: Promise<T>): Promise<T>;
  info(): RunInfo;
}

/** Results of a bench part. */
export interface Outcome {
  /** For a program. */
  readonly report: unknown;
  readonly markdown: string;
  readonly plots: readonly Plot[];
  /** Nothing was measured, and the page stays as it is. */
  readonly isSkipped?: boolean;
}

/** @param figures results, besides time and machine */
function outcome<R extends RunInfo>(
  stage: Stage,
  figures: Omit<R, keyof RunInfo>,
  text: (report: R) => string,
  plots: (report: R) => Plot[],
): Outcome {
  const report = { ...stage.info(), ...figures } as R;
  return { report, markdown: text(report), plots: plots(report) };
}

const scaled = <S>({ quick }: Stage, scales: Scaled<S>): S => (quick ? scales.quick : scales.full);

/** Services with separate rows, beside the measured one. */
const filled =
  (stage: Stage, prefix: string) =>
  (rows: number): Promise<ClusterService> =>
    stage.serves(startCluster(stage.dir, `${prefix}${rows}`));

export const PARTS = {
  async kv(stage) {
    const scale = scaled(stage, KV);
    const loader = stage.stops(new Loader());
    const sides = [await stage.serves(startOurs(stage.dir)), await stage.serves(startBare(stage.dir))] as const;
    const bench = new Bench(loader, sides, scale, stage.note);
    const keys = await bench.fill();
    const comparison = [...(await bench.keyValue("GET", keys)), ...(await bench.keyValue("PUT", keys))];
    const layer = await bench.layer();
    const tails = await bench.tails(keys);
    const replicas = await bench.replicas(await stage.serves(startOurs(stage.dir, 0)), keys);
    const growth = await bench.growth(keys);
    const { rounds, sliceMs } = scale;
    const figures = {
      scale: { rounds, sliceMs, smallKeys: keys.small },
      loaderBusy: loaderBusy.most,
      comparison,
      layer,
      replicas,
      growth,
      tails,
    };
    return outcome(stage, figures, markdown, keyValuePlots);
  },

  async access(stage) {
    const scale = scaled(stage, ACCESS);
    const loader = stage.stops(new Loader());
    const sides = [await stage.serves(startOurs(stage.dir)), await stage.serves(startBare(stage.dir))] as const;
    const access = await new AccessBench(loader, sides, scale, stage.note).run();
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, access }, accessMarkdown, () => []);
  },

  async edge(stage) {
    const scale = scaled(stage, EDGE);
    const sides = {
      with: await stage.serves(startEdge(stage.dir, 1)),
      without: await stage.serves(startEdge(stage.dir, 0)),
    };
    const edge = await new EdgeBench(sides, scale, stage.note).run();
    return outcome(stage, { scale, edge }, edgeMarkdown, () => []);
  },

  async sync(stage) {
    const standard = scaled(stage, SYNC);
    const scale = stage.deep ? { ...standard, pending: [...standard.pending, DEEP] } : standard;
    const loader = stage.stops(new Loader());
    const double = stage.stops(await Double.start());
    const service = await stage.serves(startService(stage.dir, double.settings));
    const loop = await stage.serves(startLoop(stage.dir, double));
    const sync = await new SyncBench({ loader, service, loop, double }, scale, stage.note).run();
    return outcome(stage, { scale, sync }, syncMarkdown, syncPlots);
  },

  async engine(stage) {
    const standard = scaled(stage, ENGINE);
    const scale: EngineScale = stage.deep ? { ...standard, sizes: [...standard.sizes, DEEP] } : standard;
    const loader = stage.stops(new Loader());
    const double = stage.stops(await CloudDouble.start());
    const service = await stage.serves(startEngines(stage.dir, double));
    const bare = await stage.serves(startBareCloud(stage.dir, double));
    const engine = await new EngineBench({ loader, service, bare, double }, scale, stage.note).run();
    return outcome(stage, { scale, engine }, engineMarkdown, enginePlots);
  },

  async events(stage) {
    const scale = scaled(stage, EVENTS);
    const loader = stage.stops(new Loader());
    const sides = [await stage.serves(startOurs(stage.dir)), await stage.serves(startBare(stage.dir))] as const;
    const events = await new EventsBench(loader, sides, scale, stage.note).run();
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, events }, eventsMarkdown, eventsPlots);
  },

  async notify(stage) {
    const standard = scaled(stage, NOTIFY);
    const scale = stage.deep ? { ...standard, idle: [...standard.idle, DEEP_SOCKETS] } : standard;
    const loader = stage.stops(new Loader());
    const sides = [await stage.serves(startOurs(stage.dir)), await stage.serves(startBare(stage.dir))] as const;
    const notify = await new NotifyBench(loader, sides, scale, stage.note).run();
    const idle: IdleSockets[] = [];
    for (const sockets of scale.idle) {
      stage.note(`${sockets} idle sockets`);
      // Processes of their own: memory that sockets have freed would be used again.
      const services: Side[] = [];
      for (let at = 0; at < runtimesFor(sockets); at += 1)
        services.push(await stage.serves(startOurs(join(stage.dir, `idle-${sockets}-${at}`))));
      idle.push(await idleSockets(services, sockets));
      for (const { server } of services) server.stop();
    }
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, notify, idle }, notifyMarkdown, () => []);
  },

  async volumes(stage) {
    const scale = scaled(stage, VOLUMES);
    const load = stage.stops(new Load());
    const ours = await stage.serves(startCluster(stage.dir, "main", process.env["BENCH_INSPECTOR"]));
    const bare = await stage.serves(startBareSockets(stage.dir));
    const sides = { load, ours, bare, filled: filled(stage, "") };
    const volumes = await new VolumesBench(sides, scale, stage.note).run();
    stage.note(`a node with ${scale.full.volumes} volumes`);
    const service = await stage.serves(startCluster(stage.dir, "full"));
    const full = await fullNode(service, join(stage.dir, "full-node"), scale.full, stage.stops);
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, volumes, full }, volumesMarkdown, volumesPlots);
  },

  async csi(stage) {
    const scale = scaled(stage, CSI);
    const service = await stage.serves(startCluster(stage.dir, "csi", process.env["BENCH_INSPECTOR"]));
    const plugin = stage.stops(await CsiPlugin.start());
    await plugin.serve(service);
    const csi = await new CsiBench({ plugin, service, filled: filled(stage, "csi-") }, scale, stage.note).run();
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, csi }, csiMarkdown, csiPlots);
  },

  async backup(stage) {
    const scale = scaled(stage, BACKUP);
    const loader = stage.stops(new Loader());
    const deployments = new Deployments(stage.dir);
    const deploy = () => stage.serves(deployments.start());
    const bare = (name: string) => stage.serves(startBareDump(stage.dir, name));
    const backup = await new BackupBench({ dir: stage.dir, loader, deploy, bare }, scale, stage.note).run();
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, backup }, backupMarkdown, backupPlots);
  },

  async peers(stage) {
    const { BAO: secrets, NOMAD: cluster } = process.env;
    if (!secrets && !cluster) {
      const markdown = "peers: skipped; BAO and NOMAD name no programs to compare with";
      return { report: null, markdown, plots: [], isSkipped: true };
    }
    const scale = scaled(stage, PEERS);
    const loader = stage.stops(new Loader());
    const ours = await stage.serves(startOurs(stage.dir));
    const theirs = [
      secrets ? stage.stops(await startSecretsPeer(secrets, stage.dir)) : null,
      cluster ? stage.stops(await startClusterPeer(cluster, stage.dir)) : null,
    ] as const;
    const peers = await new PeersBench(loader, scale, stage.note).run(ours, ...theirs);
    return outcome(stage, { scale, loaderBusy: loaderBusy.most, peers }, peersMarkdown, () => []);
  },

  async rows(stage) {
    const { BENCH_OLD: old = "", BAO: secrets = "", NOMAD: cluster = "", BENCH_ROWS: only = "" } = process.env;
    if (!old && !secrets && !cluster) {
      const markdown = "rows: skipped; BENCH_OLD names no checkout, BAO and NOMAD no programs to compare with";
      return { report: null, markdown, plots: [], isSkipped: true };
    }
    const scale = scaled(stage, ROWS);
    const bench = new RowsBench(stage, scale, { old: old && resolve(old), secrets, cluster });
    const figures = await bench.run(only.split(",").filter((part) => part !== ""));
    return outcome(stage, { scale: scale.peers, loaderBusy: loaderBusy.most, ...figures }, rowsMarkdown, () => []);
  },

  async soak(stage) {
    const standard = scaled(stage, SOAK);
    const scale = { ...standard, minutes: stage.minutes ?? standard.minutes };
    const loader = stage.stops(new Loader());
    const load = stage.stops(new Load());
    const service = await stage.serves(startCluster(stage.dir, "soak", process.env["BENCH_INSPECTOR"]));
    const dir = join(stage.dir, "volumes-soak");
    const soak = await new SoakBench({ loader, load, service, dir }, scale, stage.note).run();
    return outcome(stage, { scale, soak }, soakMarkdown, soakPlots);
  },
} satisfies Record<string, (stage: Stage) => Promise<Outcome>>;

export type PartName = keyof typeof PARTS;
export const PART_NAMES = Object.keys(PARTS) as PartName[];
