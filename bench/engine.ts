/** Cost of credentials: against the same calls without a service, leases that end together, and many leases. */

import {
  bareOther,
  CALLS_A_REMOVAL,
  type CloudDouble,
  type EngineMount,
  type EngineService,
  type EngineSide,
} from "./engine-sides.ts";
import type { Requests } from "./load.ts";
import type { Loader } from "./loader.ts";
import { type GrowthRow, inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import { clock } from "./sync-clock.ts";

export interface EngineScale {
  readonly rounds: number;
  readonly sliceMs: number;
  /** Of the rounds with a delayed cloud. */
  readonly slowSliceMs: number;
  /** Leases that end together. */
  readonly ending: number;
  /** Time over which their ends are spread, ms. */
  readonly spreadsMs: readonly number[];
  /** Leases that end at one moment, at a stand-in that accepts so many removals a second. */
  readonly throttled: { readonly leases: number; readonly perSecond: number };
  /** Leases of the mounts that are held against one with the first number. */
  readonly sizes: readonly [number, ...number[]];
}

/** Results of leases that expire. */
export interface Ended {
  readonly leases: number;
  readonly spreadMs: number;
  /** From the first lease's end to its first call, and to the last call of all; from the last lease's end to that. */
  readonly firstMs: number;
  readonly wholeMs: number;
  readonly behindMs: number;
  /** Leases that remain, and repeated calls. */
  readonly left: number;
  readonly repeated: number;
  /** Microseconds of the server's CPU for each lease. */
  readonly cpu: number | null;
  /** Bytes, before and at most. */
  readonly memory: { readonly before: number; readonly most: number } | null;
  /** `wholeMs` in times of what the rate of the stand-in allows; null without a limit. */
  readonly times: number | null;
}

/** Ours against bare. */
export interface CostRow extends Row {
  /** Of the time that a request takes, of CPU microseconds. */
  readonly aims: { readonly time: number | null; readonly cpu: number };
}

export interface EngineResults {
  readonly costs: readonly CostRow[];
  readonly ended: readonly Ended[];
  /** A mount with many leases against one with few. */
  readonly growth: readonly GrowthRow[];
  /** Maximum CPU share of the stand-in's own core. */
  readonly doubleBusy: number;
}

type Job = Pick<Requests, "method" | "path" | "body" | "keys"> & Partial<Pick<Requests, "once">>;

/** Delay of the stand-in's answers; the real cloud is rarely faster than the second value. */
const DELAYS_MS = [0, 50] as const;
const AT_ONCE = [1, 8, 16] as const;
/** Of the time with answers at once, for one request at a time, and with delayed answers. */
const AIM = 1.3;
const DELAYED_AIM = 1.05;
const CPU_AIMS = { credentials: 4_000, revocation: 3_000 } as const;
export const THROTTLED_AIM = 1.2;
/** Credentials of a pool, and those that a slice takes: the pool fills itself more slowly than it is emptied. */
const POOL = 50;
const POOL_TAKEN = 45;
/** Of the time that the calls take: 100 ms against more than 200. */
const POOL_AIM = 0.4;
/** Credentials of the other engines, and the calls that each takes. */
const OTHERS = {
  "aws-session": "an AWS session, 1 call",
  "aws-user": "an AWS user with its key, 3 calls",
  "google-token": "a Google access token, 1 call",
} as const;
const WARM_UP_MS = 1_000;
const HOUR_MS = 3_600_000;
/** Number of leases to revoke in one slice, more than it can revoke. */
const REVOKED_MOST = 1_500;
const KEYS = 1_000_000;
const MEMORY_EVERY_MS = 100;
/** Time until the first of the expiring leases expires: long enough to create them. */
const LEAD_MS = 3_000;

export class EngineBench {
  readonly #loader: Loader;
  readonly #service: EngineService;
  readonly #bare: EngineSide;
  readonly #double: CloudDouble;
  readonly #scale: EngineScale;
  readonly #note: (text: string) => void;
  #sets = 0;
  #busy = 0;

  constructor(
    parts: { loader: Loader; service: EngineService; bare: EngineSide; double: CloudDouble },
    scale: EngineScale,
    note: (text: string) => void,
  ) {
    this.#loader = parts.loader;
    this.#service = parts.service;
    this.#bare = parts.bare;
    this.#double = parts.double;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<EngineResults> {
    const costs = [...(await this.credentials()), await this.#pooled(), ...(await this.#others())];
    await this.#double.ask({ kind: "begin", delayMs: 0 });
    const ended: Ended[] = [];
    const { ending, spreadsMs, throttled } = this.#scale;
    for (const spreadMs of spreadsMs) ended.push(await this.#ends(ending, spreadMs));
    ended.push(await this.#ends(throttled.leases, 0, throttled.perSecond));
    return { costs, ended, growth: await this.#growth(), doubleBusy: this.#busy };
  }

  // ---- against the bare calls ----

  /** Credentials and their revocation. Leaves the last delay to the cloud. */
  async credentials(atOnce: readonly number[] = AT_ONCE): Promise<CostRow[]> {
    const mount = await this.#service.mount("costs");
    const ours = this.#service.side(mount);
    for (const side of [ours, this.#bare]) {
      await this.#slice(side.server, this.#issue(side), side.token, 8, WARM_UP_MS);
    }
    const rows: CostRow[] = [];
    for (const delayMs of DELAYS_MS) {
      await this.#double.ask({ kind: "begin", delayMs });
      const ms = delayMs === 0 ? this.#scale.sliceMs : this.#scale.slowSliceMs;
      for (const connections of atOnce) {
        const how = `${connections} at a time, ${delayMs === 0 ? "answers at once" : `answers after ${delayMs} ms`}`;
        const ofOne = connections === 1 ? AIM : null;
        const time = delayMs === 0 ? ofOne : DELAYED_AIM;
        const issued = await this.#compare(
          `credentials, ${how}`,
          async (side) => this.#slice(side.server, this.#issue(side), side.token, connections, ms),
          ours,
        );
        const revoked = await this.#compare(
          `revocation, ${how}`,
          async (side) => {
            const job = await this.#revoke(side, mount);
            return this.#slice(side.server, job, side.token, connections, ms);
          },
          ours,
        );
        rows.push(
          { ...issued, aims: { time, cpu: CPU_AIMS.credentials } },
          { ...revoked, aims: { time, cpu: CPU_AIMS.revocation } },
        );
      }
    }
    return rows;
  }

  /** Credentials of a full pool, one at a time, against the calls that make them. The provider's answers are delayed. */
  async #pooled(): Promise<CostRow> {
    const mount = await this.#service.mount("pool");
    const ours = this.#service.side(mount);
    const ms = this.#scale.slowSliceMs;
    const row = await this.#compare(
      `credentials of a pool of ${POOL}, one at a time, answers after ${DELAYS_MS[1]} ms`,
      async (side) => {
        const job = this.#issue(side);
        if (side === this.#bare) return this.#slice(side.server, job, side.token, 1, ms);
        await mount.pool(POOL);
        return this.#slice(side.server, { ...job, keys: POOL_TAKEN, once: true }, side.token, 1, ms);
      },
      ours,
    );
    await mount.pool(0);
    return { ...row, aims: { time: POOL_AIM, cpu: CPU_AIMS.credentials } };
  }

  /** Credentials of the other engines, with delayed answers. */
  async #others(): Promise<CostRow[]> {
    const rows: CostRow[] = [];
    for (const kind of Object.keys(OTHERS) as (keyof typeof OTHERS)[]) {
      const { server, token } = this.#service;
      const ours = { server, token, issue: await this.#service.other(kind), revoke: () => "" };
      const bare = { ...this.#bare, issue: bareOther(kind) };
      for (const connections of AT_ONCE) {
        const row = await this.#compare(
          `${OTHERS[kind]}, ${connections} at a time, answers after ${DELAYS_MS[1]} ms`,
          (side) => {
            const job = this.#issue(side === this.#bare ? bare : side);
            return this.#slice(side.server, job, side.token, connections, this.#scale.slowSliceMs);
          },
          ours,
        );
        rows.push({ ...row, aims: { time: DELAYED_AIM, cpu: CPU_AIMS.credentials } });
      }
    }
    return rows;
  }

  #compare(name: string, slice: (side: EngineSide) => Promise<Slice>, ours: EngineSide): Promise<Row> {
    this.#note(name);
    return inTurns(
      name,
      this.#scale.rounds,
      () => slice(ours),
      () => slice(this.#bare),
    );
  }

  #issue({ issue }: EngineSide): Job {
    return { method: "GET", path: issue, body: "", keys: KEYS };
  }

  async #revoke(side: EngineSide, mount: EngineMount): Promise<Job> {
    const set = `s${this.#sets++}`;
    if (side !== this.#bare) {
      const later = Date.now() + HOUR_MS;
      await mount.fill(set, REVOKED_MOST, later, later + HOUR_MS);
    }
    return { method: "PUT", path: side.revoke(set), body: "{}", keys: REVOKED_MOST, once: true };
  }

  async #slice(server: EngineSide["server"], job: Job, token: string, connections: number, ms: number): Promise<Slice> {
    const double = await this.#double.ask({ kind: "seen" });
    const before = server.cpu();
    const { requests, ...rest } = await this.#loader.requests({ ...job, port: server.port, token, connections, ms });
    const after = server.cpu();
    const { own } = await this.#double.ask({ kind: "seen" });
    this.#busy = Math.max(this.#busy, (own - double.own) / rest.seconds);
    return sliceOf({ ...rest, count: requests }, before, after);
  }

  // ---- leases that end ----

  /** Leases that expire within a given time, without any request. */
  async #ends(ending: number, spreadMs: number, perSecond?: number): Promise<Ended> {
    const { server } = this.#service;
    this.#note(`${ending} leases that end within ${spreadMs} ms`);
    const mount = await this.#service.mount(`ends-${spreadMs}-${perSecond ?? "all"}`);
    await this.#double.ask({ kind: "begin", delayMs: 0, ...(perSecond !== undefined && { perSecond }) });
    const before = server.memory();
    const cpu = server.cpu();
    let most = before ?? 0;
    const watch = setInterval(() => {
      most = Math.max(most, server.memory() ?? 0);
    }, MEMORY_EVERY_MS);
    const first = Date.now() + LEAD_MS;
    const firstOnClock = clock() + LEAD_MS;
    await mount.fill("ends", ending, first, first + spreadMs);
    const seen = await this.#double.ask({ kind: "removed", count: ending * CALLS_A_REMOVAL });
    const after = server.cpu();
    let left = await mount.leases();
    // The last answers are on their way to the object.
    for (const end = clock() + LEAD_MS; left > 0 && clock() < end; ) left = await mount.leases();
    clearInterval(watch);
    await this.#double.ask({ kind: "begin", delayMs: 0 });
    const allowedMs = perSecond === undefined ? null : (ending * CALLS_A_REMOVAL * 1000) / perSecond;
    return {
      leases: ending,
      spreadMs,
      firstMs: seen.first - firstOnClock,
      wholeMs: seen.last - firstOnClock,
      behindMs: seen.last - firstOnClock - spreadMs,
      left,
      repeated: seen.repeated,
      cpu: cpu === null || after === null ? null : ((after - cpu) / ending) * 1e6,
      memory: before === null ? null : { before, most },
      times: allowedMs === null ? null : (seen.last - firstOnClock) / allowedMs,
    };
  }

  // ---- many leases ----

  async #growth(): Promise<GrowthRow[]> {
    const { server, token } = this.#service;
    const [few, ...sizes] = this.#scale.sizes;
    const small = await this.#filled(few);
    const rows: GrowthRow[] = [];
    for (const size of sizes) {
      const large = await this.#filled(size);
      const things: [name: string, job: (mount: EngineMount, keys: number) => Job][] = [
        ["lookup", ({ name }, keys) => this.#lookup(`/v1/sys/leases/lookup/${name}/creds/held/`, keys)],
        ["list of a role's leases", ({ name }) => this.#list(`${name}/creds/held/app`)],
        ["credentials", (mount) => this.#issue(this.#service.side(mount))],
      ];
      for (const [name, job] of things) {
        this.#note(`${name}, ${size} leases against ${few}`);
        const slice = (mount: EngineMount, keys: number) => () =>
          this.#slice(server, job(mount, keys), token, 1, this.#scale.sliceMs);
        const sides = [slice(large, size), slice(small, few)] as const;
        const row = await inTurns(`${name}, ${size} leases`, this.#scale.rounds, ...sides);
        rows.push({ ...row, thing: name, size, least: few });
      }
    }
    return rows;
  }

  async #filled(size: number): Promise<EngineMount> {
    this.#note(`making ${size} leases`);
    const mount = await this.#service.mount(`leases-${size}`);
    const later = Date.now() + HOUR_MS;
    await mount.fill("held", size, later, later + HOUR_MS);
    return mount;
  }

  #lookup(path: string, keys: number): Job {
    return { method: "PUT", path, body: "{}", keys };
  }

  #list(folder: string): Job {
    return { method: "GET", path: `/v1/sys/leases/lookup/${folder}?list=true&bench=`, body: "", keys: KEYS };
  }
}
