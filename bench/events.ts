/** The event stream against a bare broadcast of the same bytes: delivery, appending, replaying a backlog, and what an idle stream costs. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Delivered } from "./load.ts";
import type { Loader } from "./loader.ts";
import { inTurns, type Row, type Slice, sliceOf } from "./rounds.ts";
import type { Side } from "./sides.ts";

export interface EventsScale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly streams: readonly number[];
  /** Lines of the backlog that is replayed. */
  readonly backlog: number;
  /** Of that many lines one is for a filtered reader. */
  readonly oneIn: number;
}

export interface Idle {
  readonly side: Side["name"];
  readonly streams: number;
  /** Bytes of the server's memory per idle stream; null if the system does not report it. */
  readonly each: number | null;
}

export interface EventsResults {
  readonly delivery: readonly Row[];
  readonly appending: readonly Row[];
  readonly replay: readonly Row[];
  readonly idle: readonly Idle[];
}

const BURST = 100;
/** With few readers a line costs its durable row, with many only its delivery. */
const aimOf = (streams: number, lines: number): number => {
  if (streams >= 1_000) return 0.95;
  return streams === 1 && lines > 1 ? 0.5 : 0.9;
};
const AIM = { append: 0.5, appendAtOnce: 1, replay: 0.5 } as const;
const APPENDERS = 32;
const BATCH = 100;
/** Lines written at once while the backlog is made. */
const FILL = 1_000;

export class EventsBench {
  readonly #loader: Loader;
  readonly #sides: readonly [ours: Side, bare: Side];
  readonly #scale: EventsScale;
  readonly #note: (text: string) => void;

  constructor(
    loader: Loader,
    sides: readonly [ours: Side, bare: Side],
    scale: EventsScale,
    note: (text: string) => void,
  ) {
    this.#loader = loader;
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<EventsResults> {
    const idle: Idle[] = [];
    const delivery: Row[] = [];
    for (const streams of this.#scale.streams) {
      const many = streams === Math.max(...this.#scale.streams);
      for (const side of this.#sides) {
        this.#note(`opening ${streams} streams: ${side.name}`);
        const before = side.server.memory();
        const { name, token, stream, server } = side;
        await this.#loader.open({ group: name, port: server.port, token, path: stream, streams });
        if (!many) continue;
        await sleep(1_000);
        const after = side.server.memory();
        idle.push({ side: name, streams, each: before === null || after === null ? null : (after - before) / streams });
      }
      for (const lines of [1, BURST]) delivery.push(await this.#delivery(streams, lines));
      for (const side of this.#sides) await this.#loader.close({ group: side.name });
    }
    return { delivery, idle, appending: await this.#appending(), replay: await this.#replays() };
  }

  #delivery(streams: number, lines: number): Promise<Row> {
    const how = lines === 1 ? "one line at a time" : `bursts of ${lines}`;
    const name = `${streams} ${streams === 1 ? "stream" : "streams"}, ${how}`;
    return this.#compare(name, aimOf(streams, lines), async (side) => {
      const job = { group: side.name, port: side.server.port, ...side.publish, lines, ms: this.#scale.sliceMs };
      const before = side.server.cpu();
      const { lines: count, ...rest }: Delivered = await this.#loader.publish(job);
      return sliceOf({ ...rest, count }, before, side.server.cpu());
    });
  }

  /** One line per append, many concurrent appenders, and many lines per append. */
  async #appending(): Promise<Row[]> {
    const rows: Row[] = [];
    for (const [connections, lines] of [
      [1, 1],
      [APPENDERS, 1],
      [8, BATCH],
    ] as const) {
      const name = `append: ${connections} at a time, ${lines === 1 ? "a line each" : `${lines} lines each`}`;
      const slice = async (side: Side): Promise<Slice> => {
        const { path, body } = side.append(lines);
        const before = side.server.cpu();
        const { requests, ...rest } = await this.#loader.requests({
          port: side.server.port,
          token: side.token,
          method: "PUT",
          keys: 1_000_000,
          ms: this.#scale.sliceMs,
          path,
          body,
          connections,
        });
        return sliceOf({ ...rest, count: requests * lines }, before, side.server.cpu());
      };
      rows.push(await this.#compare(name, connections === APPENDERS ? AIM.appendAtOnce : AIM.append, slice));
    }
    return rows;
  }

  /** The whole backlog, and the few lines that match a filter. */
  async #replays(): Promise<Row[]> {
    const { backlog, oneIn } = this.#scale;
    for (const side of this.#sides) {
      this.#note(`writing ${backlog} lines: ${side.name}`);
      await side.backlog(backlog, oneIn, FILL);
    }
    const replay = (filtered: boolean) => async (side: Side) => {
      const before = side.server.cpu();
      const path = side.replay(backlog, filtered);
      const lines = filtered && side.name === "ours" ? backlog / oneIn : backlog;
      const { seconds, own } = await this.#loader.replay({ port: side.server.port, token: side.token, path, lines });
      return sliceOf({ count: backlog, seconds, own }, before, side.server.cpu());
    };
    return [
      await this.#compare(`replay of ${backlog} lines`, AIM.replay, replay(false)),
      await this.#compare(`of these, 1 in ${oneIn}, against reading all`, AIM.replay, replay(true)),
    ];
  }

  #compare(name: string, aim: number, slice: (side: Side) => Promise<Slice>): Promise<Row> {
    this.#note(name);
    const [ours, bare] = this.#sides;
    return inTurns(
      name,
      this.#scale.rounds,
      () => slice(ours),
      () => slice(bare),
      aim,
    );
  }
}
