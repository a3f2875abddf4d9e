/** Event notifications against a bare broadcast: from the answer to a write until the last subscriber has its frame. */
import type { Delivered } from "./load.ts";
import type { Loader } from "./loader.ts";
import { inTurns, type Row, sliceOf } from "./rounds.ts";
import { SECRET, type Side } from "./sides.ts";

export interface NotifyScale {
  readonly rounds: number;
  readonly sliceMs: number;
  readonly subscribers: readonly number[];
  /** Numbers of idle sockets whose memory is measured. */
  readonly idle: readonly number[];
}

export interface NotifyRow extends Row {
  /** From the answer to the last frame, ms at the median. */
  readonly aimMs: number;
}

const AIM_MS: Readonly<Record<number, number>> = { 1: 3, 100: 6, 1000: 40 };
/** Longer than the interval at which a mount joins events to one delivery. */
const PAUSE_MS = 30;
const SUBSCRIBE = "/v1/sys/events/subscribe/kv-v2*";

export class NotifyBench {
  readonly #loader: Loader;
  readonly #sides: readonly [ours: Side, bare: Side];
  readonly #scale: NotifyScale;
  readonly #note: (text: string) => void;

  constructor(
    loader: Loader,
    sides: readonly [ours: Side, bare: Side],
    scale: NotifyScale,
    note: (text: string) => void,
  ) {
    this.#loader = loader;
    this.#sides = sides;
    this.#scale = scale;
    this.#note = note;
  }

  async run(): Promise<NotifyRow[]> {
    const rows: NotifyRow[] = [];
    for (const subscribers of this.#scale.subscribers) {
      for (const side of this.#sides) {
        this.#note(`opening ${subscribers} subscriptions: ${side.name}`);
        const { name, access, server } = side;
        const events = name === "bare" ? { path: side.stream } : { path: SUBSCRIBE, accept: "text/event-stream" };
        await this.#loader.open({
          group: name,
          port: server.port,
          token: access.token,
          streams: subscribers,
          ...events,
        });
      }
      const text = `a write, ${subscribers} ${subscribers === 1 ? "subscriber" : "subscribers"}`;
      this.#note(text);
      const [ours, bare] = this.#sides;
      const row = await inTurns(
        text,
        this.#scale.rounds,
        () => this.#slice(ours),
        () => this.#slice(bare),
      );
      rows.push({ ...row, aimMs: AIM_MS[subscribers] ?? Number.POSITIVE_INFINITY });
      for (const side of this.#sides) await this.#loader.close({ group: side.name });
    }
    return rows;
  }

  async #slice(side: Side) {
    const write =
      side.name === "bare"
        ? side.publish
        : {
            path: `${side.keys("small")}app/notified`,
            body: SECRET,
            request: { method: "PUT" as const, token: side.access.token },
          };
    const { server, name } = side;
    const before = server.cpu();
    const job = { group: name, port: server.port, lines: 1, ms: this.#scale.sliceMs, pauseMs: PAUSE_MS, ...write };
    const { lines: count, ...rest }: Delivered = await this.#loader.publish(job);
    return sliceOf({ ...rest, count }, before, server.cpu());
  }
}
