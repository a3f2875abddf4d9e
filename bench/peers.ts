/** The service against other programs that do the same work, and versions of it against each other, in turns. */
import { setTimeout as sleep } from "node:timers/promises";
import { TOKEN_HEADER } from "./connection.ts";
import type { Requests } from "./load.ts";
import type { Loader } from "./loader.ts";
import type { Peer } from "./peers-sides.ts";
import { compared, type Row, type Slice, sliceOf, turns } from "./rounds.ts";
import { SECRET, type Side } from "./sides.ts";

export interface PeersScale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly keys: number;
  readonly readers: readonly number[];
}

export interface PeersFigures {
  /** The programs, as they report themselves; those that were not named are missing. */
  readonly programs: readonly string[];
  readonly rows: readonly Row[];
  /** Bytes at the end, of ours and of each program. */
  readonly memory: Readonly<Record<string, number | null>>;
}

/** One side of a comparison. */
export interface Compared extends Pick<Peer, "port" | "token" | "header" | "cpu" | "memory"> {
  readonly name: string;
  /** Where the keys live. */
  readonly keys: string;
}

/** The rounds of each side, by its name. */
export interface Scenario {
  readonly name: string;
  readonly slices: Readonly<Record<string, readonly Slice[]>>;
}

const CONNECTIONS = [1, 8, 32] as const;
const STREAM = "/v1/event/stream?topic=ACLPolicy";
/** Both programs answer a write with the index of its event, ours with its own header, too. */
const INDEX = "x-nomad-index";
/** Each event of a line has it once; a heartbeat does not. */
const MARK = '"Topic":"ACLPolicy"';
const POLICY = {
  path: "/v1/acl/policy/bench",
  body: JSON.stringify({ Name: "bench", Description: "of the bench", Rules: 'node { policy = "read" }' }),
};
const KEYS = "/v1/small/data/";

export const ofSide = (name: string, { server, keys }: Side, token: string): Compared => ({
  name,
  port: server.port,
  token,
  header: TOKEN_HEADER,
  keys: keys("small"),
  cpu: () => server.cpu(),
  memory: () => server.memory(),
});
export const ofPeer = (name: string, peer: Peer): Compared => ({ ...peer, name, keys: KEYS });

export const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`;

export class PeersBench {
  readonly #loader: Loader;
  readonly #scale: PeersScale;
  readonly #note: (text: string) => void;

  constructor(loader: Loader, scale: PeersScale, note: (text: string) => void) {
    this.#loader = loader;
    this.#scale = scale;
    this.#note = note;
  }

  async run(ours: Side, secrets: Peer | null, cluster: Peer | null): Promise<PeersFigures> {
    const scenarios: Scenario[] = [];
    if (secrets) scenarios.push(...(await this.secrets([ofSide("ours", ours, ours.token), ofPeer("theirs", secrets)])));
    if (cluster) {
      const sides = [ofSide("ours", ours, ours.access.token), ofPeer("theirs", cluster)];
      for (const readers of this.#scale.readers) scenarios.push(await this.events(sides, readers, 1));
    }
    const rows = scenarios.map(({ name, slices: { ours = [], theirs = [] } }) => compared(name, ours, theirs));
    const programs = [secrets, cluster].flatMap((peer) => peer?.version ?? []);
    const memory = Object.fromEntries([
      ["ours", ours.server.memory()],
      ...[secrets, cluster].flatMap((peer) => (peer ? [[peer.version, peer.memory()] as const] : [])),
    ]);
    return { programs, rows, memory };
  }

  async secrets(sides: readonly Compared[]): Promise<Scenario[]> {
    const { keys, sliceMs } = this.#scale;
    const ask = (side: Compared, method: "GET" | "PUT", more: Partial<Requests>) =>
      this.ask(side, { method, path: side.keys, keys, body: method === "PUT" ? SECRET : "", ...more });
    for (const side of sides) {
      this.#note(`writing ${keys} keys to ${side.name}`);
      await ask(side, "PUT", { once: true, ms: 60_000 });
      await ask(side, "GET", {});
      await ask(side, "PUT", {});
    }
    const scenarios: Scenario[] = [];
    for (const method of ["GET", "PUT"] as const) {
      for (const connections of CONNECTIONS) {
        const name = method === "GET" ? "KV read" : "KV write after reads of the keys";
        const slice = async (side: Compared) => {
          // A write after reads of the same keys, whose leases it has to recall.
          if (method === "PUT") await ask(side, "GET", { connections, ms: sliceMs / 2 });
          return ask(side, method, { connections });
        };
        scenarios.push(await this.inTurns(`${name}, ${counted(connections, "connection")}`, sides, slice));
      }
    }
    return scenarios;
  }

  /** @param atOnce policies that are written together */
  async events(sides: readonly Compared[], readers: number, atOnce: number): Promise<Scenario> {
    for (const side of sides) {
      this.#note(`opening ${readers} streams: ${side.name}`);
      await this.#open(side, readers);
    }
    const what = atOnce === 1 ? "a policy written until its event is" : `${atOnce} policies at once until they are`;
    const slice = (side: Compared) => this.#publish(side, readers, atOnce);
    for (const side of sides) await slice(side);
    const scenario = await this.inTurns(`${what} at ${counted(readers, "reader")}`, sides, slice);
    for (const { name: group } of sides) await this.#loader.close({ group });
    return scenario;
  }

  async inTurns<S extends { readonly name: string }>(
    name: string,
    sides: readonly S[],
    slice: (side: S) => Promise<Slice>,
  ): Promise<Scenario> {
    this.#note(name);
    const each = sides.map((side) => () => slice(side));
    const slices = await turns(this.#scale.rounds, each);
    return { name, slices: Object.fromEntries(sides.map((side, at) => [side.name, slices[at] ?? []])) };
  }

  /** Eight connections for the time of a slice, if nothing else is said. */
  async ask(
    { port, token, header, cpu }: Compared,
    job: Pick<Requests, "method" | "path" | "keys" | "body"> & Partial<Requests>,
  ): Promise<Slice> {
    const before = cpu();
    const { requests, ...rest } = await this.#loader.requests({
      ms: this.#scale.sliceMs,
      connections: 8,
      ...job,
      port,
      token,
      header,
    });
    return sliceOf({ ...rest, count: requests }, before, cpu());
  }

  /** Opens streams that begin at a new event, without those of earlier slices, and writes until each has shown a line. */
  async #open({ name: group, port, token, header }: Compared, streams: number): Promise<void> {
    const write = async (): Promise<string> => {
      const request = { method: "PUT", headers: { [header]: token }, body: POLICY.body };
      const response = await fetch(`http://127.0.0.1:${port}${POLICY.path}`, request);
      await response.arrayBuffer();
      return response.headers.get(INDEX) ?? "";
    };
    let isOpen = false;
    const path = `${STREAM}&index=${await write()}`;
    const opened = this.#loader.open({ group, port, token, header, path, streams, mark: MARK }).finally(() => {
      isOpen = true;
    });
    while (!isOpen) {
      await write();
      await Promise.race([opened, sleep(300)]);
    }
    await opened;
    // The lines of the last write.
    await sleep(500);
  }

  /** Counts writes, not lines. */
  async #publish({ name: group, port, token, header, cpu }: Compared, readers: number, atOnce: number): Promise<Slice> {
    const before = cpu();
    const { lines, ...rest } = await this.#loader.publish({
      group,
      port,
      ...POLICY,
      lines: 1,
      atOnce,
      ms: this.#scale.sliceMs,
      request: { method: "PUT", token, header },
    });
    return sliceOf({ ...rest, count: lines / readers }, before, cpu());
  }
}
