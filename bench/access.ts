/** Changes of rights, and audit lines, against a bare Worker that stores a row and sends a line. */
import type { Loader } from "./loader.ts";
import { inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import type { AccessRequests, Side } from "./sides.ts";

export interface AccessScale {
  readonly rounds: number;
  readonly sliceMs: number;
}

/** A row with the CPU that one operation of ours may take, in milliseconds. */
export interface AccessRow extends Row {
  readonly aimMs: number;
}

/** Milliseconds of CPU. */
const AIM = { policy: 1.5, token: 1, line: 0.05 } as const;
const WRITERS = [1, 8] as const;
/** So many audit lines are written by one request that its own cost disappears. */
const LINES = 200;

export class AccessBench {
  readonly #loader: Loader;
  readonly #sides: readonly [ours: Side, bare: Side];
  readonly #scale: AccessScale;
  readonly #note: (text: string) => void;

  constructor(
    loader: Loader,
    sides: readonly [ours: Side, bare: Side],
    scale: AccessScale,
    note: (text: string) => void,
  ) {
    this.#loader = loader;
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<AccessRow[]> {
    const rows: AccessRow[] = [];
    for (const { name, server, access } of this.#sides) {
      const { stream } = access.policy;
      await this.#loader.open({ group: name, port: server.port, token: access.token, path: stream, streams: 1 });
    }
    rows.push(await this.#compare("a policy written until its event is at a reader", AIM.policy, this.#policy));
    for (const { name } of this.#sides) await this.#loader.close({ group: name });
    for (const connections of WRITERS) {
      const created = this.#requests(({ created }) => created, connections, 1);
      rows.push(await this.#compare(`a token created, ${connections} at a time`, AIM.token, created));
    }
    const lines = this.#requests(({ audit }) => audit(LINES), 1, LINES);
    rows.push(await this.#compare("an audit line", AIM.line, lines));
    return rows;
  }

  readonly #policy = async ({ name, server, access }: Side): Promise<Slice> => {
    const { path, body } = access.policy;
    const before = server.cpu();
    const { lines, ...rest } = await this.#loader.publish({
      group: name,
      port: server.port,
      path,
      body,
      lines: 1,
      ms: this.#scale.sliceMs,
      request: { method: "PUT", token: access.token },
    });
    return sliceOf({ ...rest, count: lines }, before, server.cpu());
  };

  /** @param each what one request counts for */
  #requests(of: (access: AccessRequests) => { path: string; body: string }, connections: number, each: number) {
    return async ({ server, access }: Side): Promise<Slice> => {
      const before = server.cpu();
      const { requests, ...rest } = await this.#loader.requests({
        port: server.port,
        token: access.token,
        method: "PUT",
        keys: 0,
        ms: this.#scale.sliceMs,
        ...of(access),
        connections,
      });
      return sliceOf({ ...rest, count: requests * each }, before, server.cpu());
    };
  }

  async #compare(name: string, aimMs: number, slice: (side: Side) => Promise<Slice>): Promise<AccessRow> {
    this.#note(name);
    const [ours, bare] = this.#sides;
    // The first slices only warm both sides.
    await slice(ours);
    await slice(bare);
    const row = await inTurns(
      name,
      this.#scale.rounds,
      () => slice(ours),
      () => slice(bare),
    );
    return { ...row, aimMs };
  }
}
