/**
 * Cost of nodes and volumes: connected agents, their volumes, reads of many rows, and many queries waiting for one
 * change.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { FullNodeScale } from "./full-node.ts";
import { type GrowthRow, inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import type { Server } from "./server.ts";
import type { Timed } from "./volumes-load.ts";
import {
  type ClusterService,
  fillCluster,
  idOf,
  type Load,
  ONE_IN,
  PER_NODE,
  type VolumesSide,
} from "./volumes-sides.ts";

export interface VolumesScale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly agents: number;
  /** Duration in which the agents only ping. */
  readonly heldMs: number;
  /** Rows of each kind in the services that are held against one with the first number. */
  readonly sizes: readonly [number, ...number[]];
  /** Number of blocking queries for one change, and the time before it. */
  readonly queries: number;
  readonly waitedMs: number;
  readonly full: FullNodeScale;
}

/** Agents of one side, from their first connection to the end of a quiet time. */
export interface Sessions {
  readonly side: VolumesSide["name"];
  readonly agents: number;
  /** Until all were connected, of ours welcomed; until all nodes were ready, of ours. Seconds. */
  readonly connected: number;
  readonly ready: number | null;
  /** Milliseconds of the server's CPU for each. */
  readonly cpuEach: number | null;
  /** Share of a core with pings only, and answered pings per second. */
  readonly share: number | null;
  readonly pings: number;
  /** Bytes for each, once all were there, and at the end. */
  readonly memory: { readonly first: number; readonly last: number } | null;
}

/** Blocking queries for one change. */
export interface Waits {
  readonly side: VolumesSide["name"];
  readonly queries: number;
  /** Milliseconds from when the change was sent until the first, half and all of the queries were answered. */
  readonly first: number;
  readonly half: number;
  readonly last: number;
  /** Microseconds of the server's CPU for each answer; share of a core before the change. */
  readonly cpu: number | null;
  readonly share: number | null;
  /** Bytes: before any, for each while they wait, and at most. */
  readonly memory: { readonly before: number; readonly each: number; readonly most: number } | null;
}

export interface VolumesResults {
  readonly sessions: readonly Sessions[];
  /** Ours against bare. */
  readonly creating: readonly Row[];
  /** A service with many rows against one with few. */
  readonly growth: readonly GrowthRow[];
  readonly waits: readonly Waits[];
}

export const AIM = { growth: 1.3, perSecond: 200, cpuMs: 4 } as const;

const PAGE = 100;
/** Volumes in the list that the waiting queries read. */
const LISTED = 10;
const LISTED_MS = 60_000;
/** Different rows that are read by id. */
const READ_BY_ID = 500;
const WARM_UP_MS = 500;
const READY_EVERY_MS = 200;
const READY_MS = 60_000;
const MEMORY_EVERY_MS = 50;
const QUIET_EVERY_MS = 300;
/** Of a core: less is quiet. */
const QUIET_SHARE = 0.1;
const QUIET_MS = 20_000;

export class VolumesBench {
  readonly #load: Load;
  readonly #ours: ClusterService;
  readonly #bare: VolumesSide;
  readonly #filled: (rows: number) => Promise<ClusterService>;
  readonly #scale: VolumesScale;
  readonly #note: (text: string) => void;

  /** @param parts `filled` starts another service */
  constructor(
    parts: { load: Load; ours: ClusterService; bare: VolumesSide; filled: (rows: number) => Promise<ClusterService> },
    scale: VolumesScale,
    note: (text: string) => void,
  ) {
    this.#load = parts.load;
    this.#ours = parts.ours;
    this.#bare = parts.bare;
    this.#filled = parts.filled;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<VolumesResults> {
    const sessions = await this.#sessions();
    const waits = await this.#waits();
    return { sessions, waits, creating: await this.#creating(), growth: await this.#growth() };
  }

  // ---- connected agents ----

  async #sessions(): Promise<Sessions[]> {
    const { agents, heldMs } = this.#scale;
    this.#note(`${agents} agents join`);
    await this.#load.enrol(this.#ours, agents);
    const arrived = [await this.#arrive(this.#ours), await this.#arrive(this.#bare)];
    this.#note(`${agents} agents on each side stay for ${heldMs / 1000} s`);
    const before = [await this.#usage(this.#ours), await this.#usage(this.#bare)];
    await sleep(heldMs);
    const after = [await this.#usage(this.#ours), await this.#usage(this.#bare)];
    return arrived.map(({ side, memoryBefore, ...rest }, at) => {
      const [from, to] = [before[at], after[at]];
      const seconds = heldMs / 1000;
      const each = (bytes: number | null | undefined) =>
        ((bytes ?? Number.NaN) - (memoryBefore ?? Number.NaN)) / agents;
      const memory = { first: each(from?.memory), last: each(to?.memory) };
      return {
        side: side.name,
        agents,
        ...rest,
        share: from?.cpu == null || to?.cpu == null ? null : (to.cpu - from.cpu) / seconds,
        pings: ((to?.pongs ?? 0) - (from?.pongs ?? 0)) / seconds,
        memory: Number.isNaN(memory.first) ? null : memory,
      };
    });
  }

  async #arrive(side: VolumesSide) {
    const { agents } = this.#scale;
    this.#note(`${agents} agents connect: ${side.name}`);
    await quiet(side.server);
    const memoryBefore = side.server.memory();
    const cpu = side.server.cpu();
    const began = performance.now();
    const { seconds } = await this.#load.connect(side, agents);
    const ready = side === this.#ours ? await this.#ready(agents, began) : null;
    await quiet(side.server);
    const after = side.server.cpu();
    const cpuEach = cpu === null || after === null ? null : ((after - cpu) / agents) * 1000;
    return { side, memoryBefore, connected: seconds, ready, cpuEach };
  }

  /** @returns seconds since `began` when all nodes are ready */
  async #ready(nodes: number, began: number): Promise<number> {
    const list = async (operator: string) => {
      const filter = encodeURIComponent(`Status ${operator} "ready"`);
      return JSON.parse(await this.#ours.ask("GET", `/v1/nodes?filter=${filter}`, undefined)) as unknown[];
    };
    for (const until = performance.now() + READY_MS; performance.now() < until; await sleep(READY_EVERY_MS)) {
      const at = performance.now();
      if ((await list("!=")).length === 0 && (await list("==")).length === nodes) return (at - began) / 1000;
    }
    throw new Error("not all nodes became ready");
  }

  async #usage(side: VolumesSide) {
    return { cpu: side.server.cpu(), memory: side.server.memory(), pongs: await this.#load.pongs(side) };
  }

  // ---- volumes of agents ----

  async #creating(): Promise<Row[]> {
    const rows: Row[] = [];
    for (const [connections, chosen] of [
      [1, false],
      [32, false],
      [1, true],
    ] as const) {
      const name = `a volume, ${connections} at a time${chosen ? ", the service chooses the node" : ""}`;
      this.#note(name);
      const slice = (side: VolumesSide, ms: number) => () =>
        this.#slice(side, () => this.#load.work(side, { connections, ms, most: null, chosen }));
      for (const side of [this.#ours, this.#bare]) await slice(side, WARM_UP_MS)();
      const { rounds, sliceMs } = this.#scale;
      rows.push(await inTurns(name, rounds, slice(this.#ours, sliceMs), slice(this.#bare, sliceMs)));
    }
    return rows;
  }

  async #slice({ server }: VolumesSide, run: () => Promise<Timed>): Promise<Slice> {
    const before = server.cpu();
    const slice = await run();
    return sliceOf(slice, before, server.cpu());
  }

  // ---- many rows ----

  async #growth(): Promise<GrowthRow[]> {
    const [few, ...sizes] = this.#scale.sizes;
    const small = await this.#withRows(few);
    const rows: GrowthRow[] = [];
    for (const size of sizes) {
      const large = await this.#withRows(size);
      for (const [name, paths] of Object.entries(READS)) {
        this.#note(`${name}: ${size} rows against ${few}`);
        const slice = (side: ClusterService, count: number, ms: number) => () =>
          this.#slice(side, () => this.#load.read(side, { paths: paths(count), connections: 1, ms }));
        const { rounds, sliceMs } = this.#scale;
        await slice(small, few, WARM_UP_MS / 2)();
        await slice(large, size, WARM_UP_MS / 2)();
        const both = [slice(large, size, sliceMs), slice(small, few, sliceMs)] as const;
        const row = await inTurns(`${name}, ${size} rows`, rounds, ...both, AIM.growth);
        rows.push({ ...row, thing: name, size, least: few });
      }
      large.server.stop();
    }
    return rows;
  }

  async #withRows(rows: number): Promise<ClusterService> {
    this.#note(`making ${rows} rows of each kind`);
    const service = await this.#filled(rows);
    await fillCluster(service, rows);
    await quiet(service.server);
    return service;
  }

  // ---- blocking queries ----

  async #waits(): Promise<Waits[]> {
    const { ask } = this.#ours;
    await this.#load.work(this.#ours, { connections: 1, ms: LISTED_MS, most: LISTED, chosen: false });
    const path = "/v1/volumes?type=host";
    const volumes = JSON.parse(await ask("GET", path, undefined)) as { ModifyIndex: number }[];
    const index = Math.max(...volumes.map(({ ModifyIndex }) => ModifyIndex));
    const body = JSON.stringify(volumes);
    return [
      await this.#waitsOf(this.#ours, `${path}&index=${index}`, body),
      await this.#waitsOf(this.#bare, "/wait", body),
    ];
  }

  async #waitsOf(side: VolumesSide, path: string, body: string): Promise<Waits> {
    const { queries, waitedMs } = this.#scale;
    const { server } = side;
    this.#note(`${queries} queries wait: ${side.name}`);
    const before = server.memory();
    await this.#load.hold(side, { queries, path });
    await quiet(server);
    const during = server.memory();
    const waiting = server.cpu();
    await sleep(waitedMs);
    const changing = server.cpu();
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, server.memory() ?? 0);
    }, MEMORY_EVERY_MS);
    const { first, p50, last } = await this.#load.release(side, { body });
    clearInterval(watch);
    const after = server.cpu();
    const isKnown = waiting !== null && changing !== null && after !== null;
    return {
      side: side.name,
      queries,
      first,
      half: p50,
      last,
      cpu: isKnown ? ((after - changing) / queries) * 1e6 : null,
      share: isKnown && waitedMs > 0 ? (changing - waiting) / (waitedMs / 1000) : null,
      memory: before === null || during === null ? null : { before, each: (during - before) / queries, most },
    };
  }
}

/** Reads by number of rows. */
const READS: Readonly<Record<string, (rows: number) => string[]>> = {
  "volumes, a page": () => [`/v1/volumes?type=host&per_page=${PAGE}`],
  "volumes, a page from the middle": (rows) => [
    `/v1/volumes?type=host&per_page=${PAGE}&next_token=default.${idOf(rows / 2)}`,
  ],
  [`volumes, a page of 1 in ${ONE_IN}`]: () => [
    `/v1/volumes?type=host&per_page=${PAGE}&${filter('State == "unavailable"')}`,
  ],
  "volumes of a node": (rows) => [`/v1/volumes?type=host&node_id=${idOf(rows / PER_NODE / 2)}`],
  "a volume": (rows) => some(rows, (number) => `/v1/volume/host/${idOf(number)}`),
  "nodes, a page": () => [`/v1/nodes?per_page=${PAGE}`],
  [`nodes, a page of 1 in ${ONE_IN}`]: () => [`/v1/nodes?per_page=${PAGE}&${filter('Datacenter == "dc0"')}`],
  "a node": (rows) => some(rows, (number) => `/v1/node/${idOf(number)}`),
  "allocations, a page": () => [`/v1/allocations?per_page=${PAGE}`],
  [`allocations, a page of 1 in ${ONE_IN}`]: () => [
    `/v1/allocations?per_page=${PAGE}&${filter('ClientStatus == "failed"')}`,
  ],
  "an allocation": (rows) => some(rows, (number) => `/v1/allocation/${idOf(number)}`),
};

const filter = (expression: string): string => `filter=${encodeURIComponent(expression)}`;

/** Rows from all over the table. */
const some = (rows: number, path: (number: number) => string): string[] =>
  Array.from({ length: READ_BY_ID }, (_, at) => path(Math.floor((at * rows) / READ_BY_ID)));

/** Waits until a server is idle, with a time-out on a busy machine. */
async function quiet(server: Server): Promise<void> {
  for (const until = performance.now() + QUIET_MS; performance.now() < until; ) {
    const before = server.cpu();
    const began = performance.now();
    await sleep(QUIET_EVERY_MS);
    const after = server.cpu();
    if (before === null || after === null) return;
    if ((after - before) / ((performance.now() - began) / 1000) < QUIET_SHARE) return;
  }
}
