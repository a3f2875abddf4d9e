/** What is measured. Every figure is taken on both sides in turns, so that whatever else the machine does meets both. */
import type { Requests } from "./load.ts";
import type { Loader } from "./loader.ts";
import { KEY_SETS, type KeySet, SECRET, type Side } from "./sides.ts";
import { type Figure, figure } from "./statistics.ts";

export interface Scale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly keys: Readonly<Record<KeySet, number>>;
  /** Filling the large set ends here at the latest, with as many keys as it got to. */
  readonly fillMs: number;
}

/** One side's rounds of one thing. */
export interface Measure {
  readonly perSecond: Figure;
  /** Milliseconds; only of requests. */
  readonly p50?: Figure;
  readonly p99?: Figure;
  /** Microseconds of the server's CPU for each request or line: hardly moved by what else the machine does. */
  readonly cpu: Figure | null;
}

export interface Row {
  readonly name: string;
  readonly aim?: number;
  /** Ours, or the large set of keys. */
  readonly measured: Measure;
  /** What it is held against: the bare Worker, or the small set. */
  readonly against: Measure;
  /** Measured / against, each of a pair measured one after the other. */
  readonly ratio: Figure;
  readonly cpuRatio: Figure | null;
}

interface Slice {
  readonly count: number;
  readonly seconds: number;
  readonly own: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly cpu: number | null;
}

/** What the load generator used of its own core at most: near 1 means that it was the limit, not the server. */
export const loaderBusy = { most: 0 };

const CONNECTIONS = [1, 8, 32] as const;
const STREAMS = [1, 100, 1_000] as const;
const BURST = 100;
const AIM = { read: 0.5, write: 0.4, streams: 0.7 } as const;
const GROWTH_CONNECTIONS = 8;

export class Bench {
  readonly #loader: Loader;
  readonly #sides: readonly [ours: Side, bare: Side];
  readonly #scale: Scale;
  readonly #note: (text: string) => void;

  constructor(loader: Loader, sides: readonly [ours: Side, bare: Side], scale: Scale, note: (text: string) => void) {
    this.#loader = loader;
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  /** Writes the keys, ours through the API, and warms both sides up. @returns how many keys the large set has */
  async fill(): Promise<number> {
    const keys = { ...this.#scale.keys };
    for (const side of this.#sides) {
      for (const set of KEY_SETS) {
        this.#note(`writing ${keys[set]} keys to ${side.name}`);
        if (side.fill) await side.fill(set, keys[set]);
        else {
          const job = { ...this.#requests(side, "PUT", set, keys[set]), connections: 32, once: true };
          keys[set] = (await this.#loader.requests({ ...job, ms: this.#scale.fillMs })).requests;
        }
      }
      for (const method of ["PUT", "GET"] as const) {
        await this.#loader.requests({ ...this.#requests(side, method, "small", keys.small), connections: 8, ms: 700 });
      }
    }
    return keys.large;
  }

  async keyValue(method: "GET" | "PUT"): Promise<Row[]> {
    const rows: Row[] = [];
    for (const connections of CONNECTIONS) {
      const name = `KV ${method === "GET" ? "read" : "write"}, ${connections} ${connections === 1 ? "connection" : "connections"}`;
      const slice = (side: Side) =>
        this.#ask(side, { ...this.#requests(side, method, "small", this.#scale.keys.small), connections });
      rows.push(await this.#compare(name, slice, method === "GET" ? AIM.read : AIM.write));
    }
    return rows;
  }

  async streams(): Promise<Row[]> {
    const rows: Row[] = [];
    for (const streams of STREAMS) {
      this.#note(`opening ${streams} streams on each side`);
      for (const side of this.#sides) {
        const { name, token, stream, server } = side;
        await this.#loader.open({ group: name, port: server.port, token, path: stream, streams });
      }
      for (const lines of [1, BURST]) {
        const how = lines === 1 ? "one line at a time" : `bursts of ${lines}`;
        const slice = (side: Side) => this.#publish(side, lines);
        rows.push(
          await this.#compare(`${streams} ${streams === 1 ? "stream" : "streams"}, ${how}`, slice, AIM.streams),
        );
      }
      for (const side of this.#sides) await this.#loader.close({ group: side.name });
    }
    return rows;
  }

  /** The same requests to a small and to a large set of keys, in turns: here a row compares large with small on one side. */
  async growth(large: number): Promise<Row[]> {
    const rows: Row[] = [];
    const keys = { small: this.#scale.keys.small, large };
    for (const method of ["GET", "PUT"] as const) {
      for (const side of this.#sides) {
        const slice = (set: KeySet) =>
          this.#ask(side, { ...this.#requests(side, method, set, keys[set]), connections: GROWTH_CONNECTIONS });
        const name = `${side.name}: KV ${method === "GET" ? "read" : "write"}`;
        rows.push(
          await this.#rounds(
            name,
            () => slice("large"),
            () => slice("small"),
          ),
        );
      }
    }
    return rows;
  }

  #compare(name: string, slice: (side: Side) => Promise<Slice>, aim: number): Promise<Row> {
    const [ours, bare] = this.#sides;
    return this.#rounds(
      name,
      () => slice(ours),
      () => slice(bare),
      aim,
    );
  }

  async #rounds(name: string, ours: () => Promise<Slice>, bare: () => Promise<Slice>, aim?: number): Promise<Row> {
    this.#note(name);
    const pairs: [ours: Slice, bare: Slice][] = [];
    for (let round = 0; round < this.#scale.rounds; round++) {
      // Who goes first changes, so that neither always runs on the warmer machine.
      if (round % 2 === 0) pairs.push([await ours(), await bare()]);
      else {
        const second = await bare();
        pairs.push([await ours(), second]);
      }
    }
    const ratios = pairs.map(([a, b]) => perSecond(a) / perSecond(b));
    const cpuRatios = pairs.map(([a, b]) => cpuEach(b) / cpuEach(a)).filter(Number.isFinite);
    return {
      name,
      ...(aim !== undefined && { aim }),
      measured: measure(pairs.map(([slice]) => slice)),
      against: measure(pairs.map(([, slice]) => slice)),
      ratio: figure(ratios),
      cpuRatio: cpuRatios.length > 0 ? figure(cpuRatios) : null,
    };
  }

  #requests(
    side: Side,
    method: "GET" | "PUT",
    set: KeySet,
    keys: number,
  ): Omit<Requests, "kind" | "ms" | "connections"> {
    const { server, token } = side;
    return { port: server.port, token, method, path: side.keys(set), keys, body: method === "PUT" ? SECRET : "" };
  }

  async #ask(side: Side, job: Omit<Requests, "kind" | "ms">): Promise<Slice> {
    const before = side.server.cpu();
    const { requests, ...rest } = await this.#loader.requests({ ...job, ms: this.#scale.sliceMs });
    return sliceOf({ ...rest, count: requests }, before, side.server.cpu());
  }

  async #publish(side: Side, lines: number): Promise<Slice> {
    const before = side.server.cpu();
    const job = { group: side.name, port: side.server.port, ...side.publish, lines, ms: this.#scale.sliceMs };
    const { lines: count, ...rest } = await this.#loader.publish(job);
    return sliceOf({ ...rest, count }, before, side.server.cpu());
  }
}

function sliceOf(slice: Omit<Slice, "cpu">, before: number | null, after: number | null): Slice {
  loaderBusy.most = Math.max(loaderBusy.most, slice.own / slice.seconds);
  return { ...slice, cpu: before === null || after === null ? null : after - before };
}

const perSecond = ({ count, seconds }: Slice): number => count / seconds;
const cpuEach = ({ count, cpu }: Slice): number => (cpu === null ? Number.NaN : (cpu / count) * 1e6);

function measure(slices: readonly Slice[]): Measure {
  const cpu = slices.map(cpuEach).filter(Number.isFinite);
  const p50 = slices.flatMap((slice) => slice.p50 ?? []);
  const p99 = slices.flatMap((slice) => slice.p99 ?? []);
  return {
    perSecond: figure(slices.map(perSecond)),
    ...(p50.length > 0 && { p50: figure(p50), p99: figure(p99) }),
    cpu: cpu.length > 0 ? figure(cpu) : null,
  };
}
