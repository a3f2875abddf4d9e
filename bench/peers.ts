/** The service against other programs that do the same work, in turns. */
import { setTimeout as sleep } from "node:timers/promises";
import { TOKEN_HEADER } from "./connection.ts";
import type { Loader } from "./loader.ts";
import type { Peer } from "./peers-sides.ts";
import { inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
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
type Compared = Pick<Peer, "port" | "token" | "header" | "cpu"> & { readonly name: string };

const CONNECTIONS = [1, 8, 32] as const;
const STREAM = "/v1/event/stream?topic=ACLPolicy";
/** Each line with events has it once; a heartbeat does not. */
const MARK = '"Events":[';
const POLICY = {
  path: "/v1/acl/policy/bench",
  body: JSON.stringify({ Name: "bench", Description: "of the bench", Rules: 'node { policy = "read" }' }),
};

export class PeersBench {
  readonly #loader: Loader;
  readonly #sides: { readonly ours: Side; readonly secrets: Peer | null; readonly cluster: Peer | null };
  readonly #scale: PeersScale;
  readonly #note: (text: string) => void;

  constructor(
    loader: Loader,
    sides: { readonly ours: Side; readonly secrets: Peer | null; readonly cluster: Peer | null },
    scale: PeersScale,
    note: (text: string) => void,
  ) {
    this.#loader = loader;
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<PeersFigures> {
    const { ours, secrets, cluster } = this.#sides;
    const rows: Row[] = [];
    if (secrets) rows.push(...(await this.#secrets(this.#ours(ours.token), { ...secrets, name: "secrets" })));
    if (cluster) rows.push(...(await this.#events(this.#ours(ours.access.token), { ...cluster, name: "cluster" })));
    const programs = [secrets, cluster].flatMap((peer) => peer?.version ?? []);
    const memory = Object.fromEntries([
      ["ours", ours.server.memory()],
      ...[secrets, cluster].flatMap((peer) => (peer ? [[peer.version, peer.memory()] as const] : [])),
    ]);
    return { programs, rows, memory };
  }

  #ours(token: string): Compared {
    const { server } = this.#sides.ours;
    return { name: "ours", port: server.port, token, header: TOKEN_HEADER, cpu: () => server.cpu() };
  }

  async #secrets(ours: Compared, theirs: Compared): Promise<Row[]> {
    const rows: Row[] = [];
    for (const side of [ours, theirs]) {
      this.#note(`writing ${this.#scale.keys} keys to ${side.name}`);
      await this.#ask(side, "PUT", 8, { once: true, ms: 60_000 });
      await this.#ask(side, "GET", 8);
      await this.#ask(side, "PUT", 8);
    }
    for (const method of ["GET", "PUT"] as const) {
      for (const connections of CONNECTIONS) {
        const slice = (side: Compared) => async () => {
          // A write after reads of the same keys, whose leases it has to recall.
          if (method === "PUT") await this.#ask(side, "GET", connections, { ms: this.#scale.sliceMs / 2 });
          return this.#ask(side, method, connections);
        };
        const name = method === "GET" ? "KV read" : "KV write after reads of the keys";
        const counted = `${name}, ${connections} ${connections === 1 ? "connection" : "connections"}`;
        this.#note(counted);
        rows.push(await inTurns(counted, this.#scale.rounds, slice(ours), slice(theirs)));
      }
    }
    return rows;
  }

  async #ask(
    { port, token, header, cpu }: Compared,
    method: "GET" | "PUT",
    connections: number,
    more: { readonly ms?: number; readonly once?: boolean } = {},
  ): Promise<Slice> {
    const { keys, sliceMs } = this.#scale;
    const target = { port, token, header, method, path: "/v1/small/data/", keys, body: method === "PUT" ? SECRET : "" };
    const before = cpu();
    const { requests, ...rest } = await this.#loader.requests({ ...target, connections, ms: sliceMs, ...more });
    return sliceOf({ ...rest, count: requests }, before, cpu());
  }

  async #events(ours: Compared, theirs: Compared): Promise<Row[]> {
    const rows: Row[] = [];
    for (const readers of this.#scale.readers) {
      for (const side of [ours, theirs]) await this.#open(side, readers);
      const name = `a policy written until its event is at ${readers} ${readers === 1 ? "reader" : "readers"}`;
      this.#note(name);
      const slice = (side: Compared) => () => this.#publish(side, readers);
      await slice(ours)();
      await slice(theirs)();
      rows.push(await inTurns(name, this.#scale.rounds, slice(ours), slice(theirs)));
      for (const { name: group } of [ours, theirs]) await this.#loader.close({ group });
    }
    return rows;
  }

  /** Opens streams, and writes until each of them has shown a line. */
  async #open({ name: group, port, token, header }: Compared, streams: number): Promise<void> {
    let isOpen = false;
    const opened = this.#loader.open({ group, port, token, header, path: STREAM, streams, mark: MARK }).finally(() => {
      isOpen = true;
    });
    while (!isOpen) {
      const request = { method: "PUT", headers: { [header]: token }, body: POLICY.body };
      const response = await fetch(`http://127.0.0.1:${port}${POLICY.path}`, request);
      await response.arrayBuffer();
      await Promise.race([opened, sleep(300)]);
    }
    await opened;
    // The lines of the last write.
    await sleep(500);
  }

  /** Counts writes, not lines. */
  async #publish({ name: group, port, token, header, cpu }: Compared, readers: number): Promise<Slice> {
    const before = cpu();
    const { lines, ...rest } = await this.#loader.publish({
      group,
      port,
      ...POLICY,
      lines: 1,
      ms: this.#scale.sliceMs,
      request: { method: "PUT", token, header },
    });
    return sliceOf({ ...rest, count: lines / readers }, before, cpu());
  }
}
