/** Latencies in four simulated regions, and how reads are shared among replicas. */

import { Agent, request } from "node:http";
import { asker } from "./deployment.ts";
import { HOME, REGION_NAMES, type Region, roundTrip } from "./ours/regions.mts";
import type { Server } from "./server.ts";
import { SECRET } from "./sides.ts";
import { type Figure, figure, quantiles } from "./statistics.ts";

export interface EdgeScale {
  readonly rounds: number;
  /** Requests of each kind in a round. */
  readonly requests: number;
  /** Secrets that are read. */
  readonly secrets: number;
  /** Time of reading for the count of questions to owners. */
  readonly countedMs: number;
}

/** A service in the regions. */
export interface EdgeSide {
  readonly server: Server;
  readonly token: string;
}

/** Milliseconds. */
export interface Latency {
  readonly p50: Figure;
  readonly p99: Figure;
}

export interface RegionResults {
  readonly region: Region;
  /** Round trip to the owners. */
  readonly home: number;
  readonly warm: Latency;
  readonly withoutReplicas: Latency;
  /** The first read of a secret. */
  readonly cold: Latency;
  /** While readers of all regions hold leases. */
  readonly write: Latency;
  /** The ways of a write: to the owner, and from there to the farthest replica. */
  readonly writeWays: number;
}

export interface EdgeResults {
  readonly regions: readonly RegionResults[];
  /** A write at the owners' region when only its own readers hold leases. */
  readonly localWrite: Latency;
  readonly questions: { readonly reads: number; readonly calls: number; readonly mostExpected: number };
  readonly shards: readonly { readonly replicas: number; readonly share: number; readonly times: number }[];
}

/** Longest part of a lease without a question: the second half of 2 s renews it. */
const RENEWED_MS = 1_000;

export class EdgeBench {
  readonly #sides: Readonly<Record<"with" | "without", EdgeSide>>;
  readonly #scale: EdgeScale;
  readonly #note: (text: string) => void;
  readonly #agent = new Agent({ keepAlive: true });
  #fresh = 0;

  constructor(sides: Readonly<Record<"with" | "without", EdgeSide>>, scale: EdgeScale, note: (text: string) => void) {
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<EdgeResults> {
    for (const side of Object.values(this.#sides)) await this.#fill(side);
    this.#note("a write with readers of one region");
    const localWrite = await this.#latency(async () => {
      await this.#read(HOME, 0);
      return this.#write(HOME, 0);
    });
    const regions: RegionResults[] = [];
    for (const region of REGION_NAMES) {
      this.#note(`requests from ${region}`);
      regions.push(await this.#region(region));
    }
    this.#note("questions to owners");
    const questions = await this.#questions();
    const shards = (await this.#bench("shards")) as EdgeResults["shards"];
    this.#agent.destroy();
    return { regions, localWrite, questions, shards };
  }

  async #fill(side: EdgeSide): Promise<void> {
    const ask = asker(side.server, side.token);
    await ask("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    // Written without readers, so that each write takes no more than its own way.
    const write = (n: number) => ask("PUT", `/v1/kv/data/${nameOf(n)}`, JSON.parse(SECRET));
    await Promise.all(Array.from({ length: this.#scale.secrets }, (_, n) => write(n)));
  }

  async #region(region: Region): Promise<RegionResults> {
    const { secrets } = this.#scale;
    for (let n = 0; n < secrets; n++) await this.#read(region, n);
    const pick = (n: number) => n % secrets;
    const warm = await this.#latency((n) => this.#read(region, pick(n)));
    const withoutReplicas = await this.#latency((n) => this.#read(region, pick(n), "without"));
    const cold = await this.#latency(async () => {
      const name = `cold-${this.#fresh++}`;
      await this.#ask("PUT", HOME, name, "with", SECRET);
      return this.#ask("GET", region, name, "with");
    });
    const readers = this.#keepReading();
    const write = await this.#latency((n) => this.#write(region, pick(n)));
    await readers.stop();
    const farthest = Math.max(...REGION_NAMES.map((other) => roundTrip(HOME, other)));
    const home = roundTrip(region, HOME);
    return { region, home, warm, withoutReplicas, cold, write, writeWays: home + farthest };
  }

  /** Readers of all regions, so that their replicas hold leases. */
  #keepReading(): { stop(): Promise<void> } {
    let stopped = false;
    const reader = async (region: Region) => {
      for (let n = 0; !stopped; n++) {
        await this.#read(region, n % this.#scale.secrets);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };
    const readers = Promise.all(REGION_NAMES.map(reader));
    return {
      async stop() {
        stopped = true;
        await readers;
      },
    };
  }

  /** Counts the calls of owners while all regions read the same secrets. */
  async #questions(): Promise<EdgeResults["questions"]> {
    const { secrets, countedMs } = this.#scale;
    const each = (region: Region) => Promise.all(Array.from({ length: secrets }, (_, n) => this.#read(region, n)));
    await Promise.all(REGION_NAMES.map(each));
    const before = await this.#ownerCalls();
    const until = performance.now() + countedMs;
    let reads = 0;
    const reader = async (region: Region) => {
      for (let n = 0; performance.now() < until; n++) {
        await this.#read(region, n % secrets);
        reads += 1;
      }
    };
    await Promise.all(REGION_NAMES.map(reader));
    const calls = (await this.#ownerCalls()) - before;
    // Two owners: of grants and of the mount. One more for the lease under way at the beginning.
    const mostExpected = REGION_NAMES.length * 2 * (Math.ceil(countedMs / RENEWED_MS) + 1);
    return { reads, calls, mostExpected };
  }

  async #ownerCalls(): Promise<number> {
    return ((await this.#bench("owner-calls")) as { count: number }).count;
  }

  async #bench(path: string): Promise<unknown> {
    return (await fetch(`http://127.0.0.1:${this.#sides.with.server.port}/bench/${path}`)).json();
  }

  /** @param one performs a request and returns its milliseconds */
  async #latency(one: (n: number) => Promise<number>): Promise<Latency> {
    const { rounds, requests } = this.#scale;
    const measured: { p50: number; p99: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const times: number[] = [];
      for (let n = 0; n < requests; n++) times.push(await one(n));
      const at = quantiles(times);
      measured.push({ p50: at(0.5), p99: at(0.99) });
    }
    return { p50: figure(measured.map(({ p50 }) => p50)), p99: figure(measured.map(({ p99 }) => p99)) };
  }

  #read(region: Region, n: number, side: "with" | "without" = "with"): Promise<number> {
    return this.#ask("GET", region, nameOf(n), side);
  }

  #write(region: Region, n: number): Promise<number> {
    return this.#ask("PUT", region, nameOf(n), "with", SECRET);
  }

  /** @returns milliseconds until the whole answer is here */
  #ask(method: string, region: Region, name: string, side: "with" | "without", body?: string): Promise<number> {
    const { server, token } = this.#sides[side];
    const headers = { "X-Orch-Token": token, "X-Bench-Region": region };
    const began = performance.now();
    return new Promise((resolve, reject) => {
      const asked = request(
        { port: server.port, method, path: `/v1/kv/data/${name}`, headers, agent: this.#agent },
        (response) => {
          response.resume();
          response.on("end", () => {
            if (response.statusCode === 200) resolve(performance.now() - began);
            else reject(new Error(`${method} ${name}: ${response.statusCode}`));
          });
        },
      );
      asked.on("error", reject);
      asked.end(body);
    });
  }
}

const nameOf = (n: number): string => `app/k${String(n).padStart(6, "0")}`;
