/**
 * Cost of sync: pushes against a bare loop of the same requests, their latency, the latency of a pause, and draining a
 * long queue.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Connection, wire } from "./connection.ts";
import type { Loader } from "./loader.ts";
import { type Figure, figure } from "./statistics.ts";
import { clock } from "./sync-clock.ts";
import { DESTINATIONS, type Double, type Loop, SECRETS, type Service, secretOf } from "./sync-sides.ts";

export interface SyncScale {
  readonly rounds: number;
  /** Secrets written in a round; each goes to all destinations. */
  readonly secrets: number;
  /** Single writes with measured latency. */
  readonly singles: number;
  readonly pauses: number;
  /** Pending operations of all destinations when syncing resumes. */
  readonly pending: readonly number[];
  /** Secrets of a round with a provider that takes its time. */
  readonly slowSecrets: number;
}

/** Pushes a second, and microseconds of the server's CPU for each. */
export interface Rate {
  readonly perSecond: Figure;
  readonly cpu: Figure | null;
}

export interface Drain {
  readonly pending: number;
  /** Until the first push arrives: the latency of a wake-up through the queue. */
  readonly firstMs: number;
  readonly perSecond: number;
  readonly cpu: number | null;
  /** Bytes, before syncing resumed and at most while the queue was drained. */
  readonly memory: { readonly before: number; readonly most: number } | null;
}

/** The service and the bare loop in alternating rounds. */
export interface Rates {
  readonly ours: Rate;
  readonly bare: Rate;
  readonly ratio: Figure;
  readonly cpuRatio: Figure | null;
}

/** Pushes of some secrets to some destinations, one secret or destination against many. */
export interface Spread {
  readonly secrets: number;
  readonly destinations: number;
  readonly rate: Rate;
}

export interface SyncResults extends Rates {
  /** With answers after `SLOW_MS`. */
  readonly slow: { readonly written: Rates; readonly backlog: Rates };
  readonly spreads: readonly Spread[];
  /** From the answer to a write until its value arrives, ms. */
  readonly latency: { readonly p50: Figure; readonly p99: Figure };
  /** Of the request that pauses, ms from when it was sent. */
  readonly pause: { readonly answered: Figure; readonly lastCall: Figure; readonly callsAfter: number };
  readonly drains: readonly Drain[];
  /** Maximum CPU share of the stand-in's own core. */
  readonly doubleBusy: number;
}

interface Slice {
  readonly perSecond: number;
  /** Microseconds a push. */
  readonly cpu: number;
}

/** The answer of a provider that is near. */
export const SLOW_MS = 20;
const SLOW_ROUNDS = 3;
/** Secrets and destinations: each pair of rows is a tenth and the whole. */
const SPREADS = [
  [1, 10],
  [1, 100],
  [10, 1],
  [100, 1],
] as const;
/** Pushes of a slice. */
const SPREAD_PUSHES = 400;
const WRITERS = 8;
const LATENCY_ROUNDS = 3;
const PAUSE_AFTER_MS = 150;
/** Time after a pause from which no value may arrive. */
const QUIET_MS = 700;
const ASSOCIATED_AT_ONCE = 250;
const MEMORY_EVERY_MS = 100;
/** No run of writes takes that long. */
const WRITES_MS = 600_000;

export class SyncBench {
  readonly #loader: Loader;
  readonly #service: Service;
  readonly #loop: Loop;
  readonly #double: Double;
  readonly #scale: SyncScale;
  readonly #note: (text: string) => void;
  #marks = 0;
  #busy = 0;

  constructor(
    { loader, service, loop, double }: { loader: Loader; service: Service; loop: Loop; double: Double },
    scale: SyncScale,
    note: (text: string) => void,
  ) {
    this.#loader = loader;
    this.#service = service;
    this.#loop = loop;
    this.#double = double;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<SyncResults> {
    const { secrets } = this.#scale;
    this.#note(`associating ${secrets} secrets with ${DESTINATIONS} destinations`);
    const mark = this.#mark();
    await this.#write(mark, secrets);
    await this.#associate(await this.#service.destinations("rate"), 0, secrets);
    await this.#double.complete(mark, secrets * DESTINATIONS);
    this.#note("pushes a second");
    const rates = await this.#rates(() => this.#ours(), secrets);
    return {
      ...rates,
      latency: await this.#latency(),
      pause: await this.#pauses(),
      drains: await this.#drains(),
      slow: await this.slow(),
      spreads: await this.#spreads(),
      doubleBusy: this.#busy,
    };
  }

  // ---- pushes a second ----

  async #rates(measure: () => Promise<Slice>, secrets: number, rounds = this.#scale.rounds): Promise<Rates> {
    await measure();
    await this.#bare(secrets);
    const pairs: [ours: Slice, bare: Slice][] = [];
    for (let round = 0; round < rounds; round++) {
      if (round % 2 === 0) pairs.push([await measure(), await this.#bare(secrets)]);
      else {
        const second = await this.#bare(secrets);
        pairs.push([await measure(), second]);
      }
    }
    const cpuRatios = pairs.map(([ours, bare]) => bare.cpu / ours.cpu).filter(Number.isFinite);
    return {
      ours: rate(pairs.map(([slice]) => slice)),
      bare: rate(pairs.map(([, slice]) => slice)),
      ratio: figure(pairs.map(([ours, bare]) => ours.perSecond / bare.perSecond)),
      cpuRatio: cpuRatios.length > 0 ? figure(cpuRatios) : null,
    };
  }

  /** From the first write until the stand-in has everything. */
  #ours(secrets = this.#scale.secrets, prefix = "", destinations = DESTINATIONS): Promise<Slice> {
    const pushes = secrets * destinations;
    return this.#slice(this.#service, pushes, async (mark) => {
      await Promise.all([this.#write(mark, secrets, prefix), this.#double.complete(mark, pushes)]);
    });
  }

  #bare(secrets: number): Promise<Slice> {
    return this.#slice(this.#loop, secrets * DESTINATIONS, (mark) => this.#loop.push(mark, secrets));
  }

  async #slice(
    { server }: Pick<Service, "server">,
    pushes: number,
    run: (mark: string) => Promise<void>,
    mark = this.#mark(),
  ): Promise<Slice> {
    const double = await this.#double.seen(mark);
    const before = server.cpu();
    const began = clock();
    await run(mark);
    const seconds = (clock() - began) / 1000;
    const after = server.cpu();
    const { own } = await this.#double.seen(mark);
    this.#busy = Math.max(this.#busy, (own - double.own) / seconds);
    const cpu = before === null || after === null ? Number.NaN : ((after - before) / pushes) * 1e6;
    return { perSecond: pushes / seconds, cpu };
  }

  // ---- from the answer to the arrival ----

  /** One write after the other, each when the one before has arrived everywhere. */
  async #latency(): Promise<SyncResults["latency"]> {
    this.#note("from a write to its arrival");
    const { server, token } = this.#service;
    const connection = await Connection.open(server.port);
    const rounds: { p50: number; p99: number }[] = [];
    for (let round = 0; round < LATENCY_ROUNDS; round++) {
      const took: number[] = [];
      for (let single = 0; single < this.#scale.singles; single++) {
        const mark = this.#mark();
        await connection.ask(wire("PUT", `${SECRETS}app/k000000`, token, JSON.stringify({ data: secretOf(mark) })));
        const answered = clock();
        const { arrivals } = await this.#double.complete(mark, DESTINATIONS);
        took.push(...arrivals.map((at) => at - answered));
      }
      took.sort((a, b) => a - b);
      const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0;
      rounds.push({ p50: at(0.5), p99: at(0.99) });
    }
    connection.close();
    return { p50: figure(rounds.map(({ p50 }) => p50)), p99: figure(rounds.map(({ p99 }) => p99)) };
  }

  // ---- the pause ----

  async #pauses(): Promise<SyncResults["pause"]> {
    this.#note("pausing under load");
    const { secrets, pauses } = this.#scale;
    const answered: number[] = [];
    const lastCall: number[] = [];
    let callsAfter = 0;
    for (let pause = 0; pause < pauses; pause++) {
      const mark = this.#mark();
      const written = this.#write(mark, secrets);
      await sleep(PAUSE_AFTER_MS);
      const sent = clock();
      await this.#service.pause(true);
      const promised = clock();
      const before = await this.#double.seen(mark);
      await sleep(QUIET_MS);
      const after = await this.#double.seen(mark);
      answered.push(promised - sent);
      lastCall.push(after.last - sent);
      if (after.last > promised) callsAfter += after.calls - before.calls;
      await written;
      await this.#service.pause(false);
      await this.#double.complete(mark, secrets * DESTINATIONS);
    }
    return { answered: figure(answered), lastCall: figure(lastCall), callsAfter };
  }

  // ---- a long queue ----

  /** Associations created during a pause are all pending when syncing resumes. */
  async #drains(): Promise<Drain[]> {
    const drains: Drain[] = [];
    for (const pending of this.#scale.pending) {
      const secrets = Math.ceil(pending / DESTINATIONS);
      this.#note(`making ${pending} operations pending`);
      const mark = this.#mark();
      const destinations = await this.#service.destinations(`drain-${pending}`);
      await this.#service.pause(true);
      await this.#write(mark, secrets);
      await this.#associate(destinations, 0, secrets);
      this.#note(`draining ${pending} operations`);
      drains.push(await this.#drain(mark, secrets * DESTINATIONS));
    }
    return drains;
  }

  async #drain(mark: string, pending: number): Promise<Drain> {
    const { server } = this.#service;
    const cpu = server.cpu();
    const before = server.memory();
    let most = before ?? 0;
    const watch = setInterval(() => {
      most = Math.max(most, server.memory() ?? 0);
    }, MEMORY_EVERY_MS);
    const began = clock();
    await this.#service.pause(false);
    const { arrivals, last } = await this.#double.complete(mark, pending);
    clearInterval(watch);
    const after = server.cpu();
    const first = Math.min(...arrivals.slice(0, WRITERS));
    return {
      pending,
      firstMs: first - began,
      perSecond: (pending / (last - first)) * 1000,
      cpu: cpu === null || after === null ? null : ((after - cpu) / pending) * 1e6,
      memory: before === null ? null : { before, most },
    };
  }

  // ---- slow answers ----

  /** The bare loop makes as many calls at a time for a destination as the service may. */
  async slow(): Promise<SyncResults["slow"]> {
    const { slowSecrets: secrets } = this.#scale;
    this.#note(`pushes of ${secrets} secrets with answers after ${SLOW_MS} ms`);
    const destinations = await this.#service.destinations("slow");
    await this.#settle("slow/", destinations, secrets);
    await this.#double.pace(SLOW_MS);
    const rounds = Math.min(SLOW_ROUNDS, this.#scale.rounds);
    const written = await this.#rates(() => this.#ours(secrets, "slow/"), secrets, rounds);
    const backlog = await this.#rates(() => this.#backlog(secrets, "slow/"), secrets, rounds);
    await this.#double.pace(0);
    return { written, backlog };
  }

  /** From the end of a pause, during which everything was written, until the stand-in has it. */
  async #backlog(secrets: number, prefix: string): Promise<Slice> {
    const mark = this.#mark();
    const pushes = secrets * DESTINATIONS;
    await this.#service.pause(true);
    await this.#write(mark, secrets, prefix);
    await sleep(QUIET_MS);
    const run = async () => {
      await this.#service.pause(false);
      await this.#double.complete(mark, pushes);
    };
    return this.#slice(this.#service, pushes, run, mark);
  }

  // ---- one to many, and many to one ----

  async #spreads(): Promise<Spread[]> {
    const spreads: Spread[] = [];
    for (const [secrets, destinations] of SPREADS) {
      this.#note(`pushes of ${secrets} secrets to ${destinations} destinations`);
      const prefix = `spread-${secrets}-${destinations}/`;
      const names = await this.#service.destinations(`spread-${secrets}-${destinations}`, destinations);
      await this.#settle(prefix, names, secrets);
      const slices: Slice[] = [];
      // CPU is counted in hundredths of a second: a slice is several rounds.
      const rounds = Math.ceil(SPREAD_PUSHES / (secrets * destinations));
      for (let slice = 0; slice < this.#scale.rounds; slice++) {
        const parts: Slice[] = [];
        for (let round = 0; round < rounds; round++) parts.push(await this.#ours(secrets, prefix, destinations));
        slices.push({
          perSecond: mean(parts.map(({ perSecond }) => perSecond)),
          cpu: mean(parts.map(({ cpu }) => cpu)),
        });
      }
      spreads.push({ secrets, destinations, rate: rate(slices) });
    }
    return spreads;
  }

  // ---- parts ----

  /** Writes and associates secrets, and waits for their first pushes. */
  async #settle(prefix: string, destinations: readonly string[], secrets: number): Promise<void> {
    const mark = this.#mark();
    await this.#write(mark, secrets, prefix);
    await this.#associate(destinations, 0, secrets, prefix);
    await this.#double.complete(mark, secrets * destinations.length);
  }

  #mark(): string {
    return `round-${this.#marks++}`;
  }

  /** A new version of the first secrets. */
  async #write(mark: string, secrets: number, prefix = ""): Promise<void> {
    const { server, token } = this.#service;
    const body = JSON.stringify({ data: secretOf(mark) });
    const job = { port: server.port, token, method: "PUT", path: SECRETS + prefix, body } as const;
    await this.#loader.requests({
      ...job,
      keys: secrets,
      connections: Math.min(WRITERS, secrets),
      once: true,
      ms: WRITES_MS,
    });
  }

  async #associate(destinations: readonly string[], from: number, to: number, prefix = ""): Promise<void> {
    for (let at = from; at < to; at += ASSOCIATED_AT_ONCE) {
      await this.#service.associate(destinations, at, Math.min(to, at + ASSOCIATED_AT_ONCE), prefix);
    }
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function rate(slices: readonly Slice[]): Rate {
  const cpu = slices.map((slice) => slice.cpu).filter(Number.isFinite);
  return {
    perSecond: figure(slices.map((slice) => slice.perSecond)),
    cpu: cpu.length > 0 ? figure(cpu) : null,
  };
}
