/**
 * Scenarios of the bench. Every figure is taken on both sides in turns, so that other load on the machine affects both.
 */
import type { Requests, Tail } from "./load.ts";
import type { Loader } from "./loader.ts";
import { type BudgetRow, type GrowthRow, inTurns, type ReplicaRow, type Row, type Slice, sliceOf } from "./rounds.ts";
import { KEY_SETS, type KeySet, SECRET, type Side } from "./sides.ts";

export interface Scale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly keys: Readonly<Record<KeySet, number>>;
  /** Time limit for filling a set, which then has fewer keys. */
  readonly fillMs: number;
}

const CONNECTIONS = [1, 8, 32] as const;
const AIM = { read: 0.5, write: 0.4 } as const;
const GROWTH_CONNECTIONS = 8;
/** The CPU that a request may cost, in times that of the bare Worker. */
const BUDGET = { noObject: 1.2, oneObject: 1.3 } as const;

/** Requests of one connection, each sent when the one before is answered. */
export interface TailRow extends Tail {
  readonly name: string;
  readonly requests: number;
  readonly p50: number;
  readonly p99: number;
}

/** A slice of a histogram, in slices of the comparison: pauses come about once a second. */
const TAIL_SLICES = 10;

/** Where the bare Worker writes an audit line, too. */
const AUDITED = "/audited";

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

  /** Writes the keys, ours through the API, and warms both sides up. @returns how many keys each set has */
  async fill(): Promise<Scale["keys"]> {
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
    return keys;
  }

  async keyValue(method: "GET" | "PUT", keys: Scale["keys"]): Promise<Row[]> {
    const rows: Row[] = [];
    for (const connections of CONNECTIONS) {
      const name = `KV ${method === "GET" ? "read" : "write"}, ${connections} ${connections === 1 ? "connection" : "connections"}`;
      const slice = (side: Side) =>
        this.#ask(side, { ...this.#requests(side, method, "small", keys.small), connections });
      rows.push(await this.#compare(name, slice, method === "GET" ? AIM.read : AIM.write));
    }
    return rows;
  }

  /** The same requests with read replicas, and to another service without them. */
  async replicas(without: Side, keys: Scale["keys"]): Promise<ReplicaRow[]> {
    const [ours] = this.#sides;
    const { small } = keys;
    await this.#loader.requests({
      ...this.#requests(without, "PUT", "small", small),
      connections: 8,
      once: true,
      ms: 60_000,
    });
    await this.#loader.requests({ ...this.#requests(without, "GET", "small", small), connections: 8, ms: 700 });
    const rows: ReplicaRow[] = [];
    for (const method of ["GET", "PUT"] as const) {
      for (const connections of CONNECTIONS) {
        const calls = new Map<Side, { asked: number; requests: number }>();
        const slice = (side: Side) => async () => {
          const before = (await side.ownerCalls?.()) ?? 0;
          const taken = await this.#ask(side, { ...this.#requests(side, method, "small", small), connections });
          const { asked = 0, requests = 0 } = calls.get(side) ?? {};
          const after = (await side.ownerCalls?.()) ?? 0;
          calls.set(side, { asked: asked + after - before, requests: requests + taken.count });
          return taken;
        };
        const name = `KV ${method === "GET" ? "read" : "write"}, ${connections} ${connections === 1 ? "connection" : "connections"}`;
        const row = await this.#rounds(name, slice(ours), slice(without));
        const perRequest = (side: Side) => {
          const { asked = 0, requests = 1 } = calls.get(side) ?? {};
          return asked / requests;
        };
        rows.push({ ...row, ownerCalls: { with: perRequest(ours), without: perRequest(without) } });
      }
    }
    return rows;
  }

  /**
   * The cost of the layer around a route: a request without a call of an object, and one with a single call. The bare
   * Worker that writes an audit line, too, is the least that an audited service can cost.
   */
  async layer(): Promise<BudgetRow[]> {
    const rows: BudgetRow[] = [];
    for (const [kind, name] of [
      ["noObject", "no object: OPTIONS"],
      ["oneObject", "one object: lookup-self against a row"],
    ] as const) {
      const slice =
        (side: Side, prefix = "") =>
        () => {
          const { server, token } = side;
          const { method, path } = side.layer[kind];
          const target = { method, path: `${prefix}${path}` };
          return this.#ask(side, {
            port: server.port,
            token,
            ...target,
            keys: 0,
            body: "",
            connections: GROWTH_CONNECTIONS,
          });
        };
      const [ours, bare] = this.#sides;
      rows.push({ ...(await this.#rounds(name, slice(ours), slice(bare))), budget: BUDGET[kind] });
      rows.push(await this.#rounds(`${name}, bare with an audit line`, slice(ours), slice(bare, AUDITED)));
      rows.push(await this.#rounds(`${name}, only that audit line`, slice(bare, AUDITED), slice(bare)));
    }
    return rows;
  }

  /** The times of one caller, who waits for each answer. */
  async tails(keys: Scale["keys"]): Promise<TailRow[]> {
    const rows: TailRow[] = [];
    for (const side of this.#sides) {
      const { method, path } = side.layer.oneObject;
      for (const [name, job] of [
        ["KV read", this.#requests(side, "GET", "small", keys.small)],
        ["KV write", this.#requests(side, "PUT", "small", keys.small)],
        ["token look-up", { port: side.server.port, token: side.token, method, path, keys: 0, body: "" }],
      ] as const) {
        if (side.name === "bare" && name === "token look-up") continue;
        this.#note(`${side.name}: ${name}, its slowest answers`);
        const ms = TAIL_SLICES * this.#scale.sliceMs;
        const { requests, p50, p99, tail } = await this.#loader.requests({ ...job, connections: 1, ms });
        rows.push({ name: `${side.name}: ${name}`, requests, p50, p99, ...tail });
      }
    }
    return rows;
  }

  /** The same requests to the small and to a larger set of keys, in turns: here a row compares two sets on one side. */
  async growth(keys: Scale["keys"]): Promise<GrowthRow[]> {
    const rows: GrowthRow[] = [];
    for (const method of ["GET", "PUT"] as const) {
      for (const side of this.#sides) {
        const slice = (set: KeySet) => () =>
          this.#ask(side, { ...this.#requests(side, method, set, keys[set]), connections: GROWTH_CONNECTIONS });
        const thing = `${side.name}: KV ${method === "GET" ? "read" : "write"}`;
        for (const set of ["middle", "large"] as const) {
          const row = await this.#rounds(`${thing}, ${keys[set]} keys`, slice(set), slice("small"));
          rows.push({ ...row, thing, size: keys[set], least: keys.small });
        }
      }
    }
    return rows;
  }

  #compare(name: string, slice: (side: Side) => Promise<Slice>, aim?: number): Promise<Row> {
    const [ours, bare] = this.#sides;
    return this.#rounds(
      name,
      () => slice(ours),
      () => slice(bare),
      aim,
    );
  }

  #rounds(name: string, ours: () => Promise<Slice>, bare: () => Promise<Slice>, aim?: number): Promise<Row> {
    this.#note(name);
    return inTurns(name, this.#scale.rounds, ours, bare, aim);
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
}
