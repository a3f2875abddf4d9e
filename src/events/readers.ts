import type { Scope, StreamQuestion } from "../contracts/stream-rights.ts";
import { type Framing, framingOf } from "./framing.ts";
import { encode, type Group, Groups, type LogView } from "./group.ts";
import type { Line } from "./line.ts";
import { type Ask, Permission, Permissions, type Standing } from "./permissions.ts";
import type { Subscription } from "./subscription.ts";

/** What a stream is given at once: a batch of ordinary lines, or a part of a large one. */
const PIECE_BYTES = 64 * 1024;

/** Why a stream is cut. */
type Cut = "slow_consumer" | "permission_denied";

/** What was done for readers since this began. */
export interface Served {
  /** Streams that are open now, and lines given to streams; of relays neither. */
  readonly streams: number;
  readonly lines: number;
  readonly cut: Readonly<Record<Cut, number>>;
}

interface Reader {
  /** Its name, when it is a relay. */
  readonly relay: string | null;
  readonly subscription: Subscription;
  readonly permission: Permission;
  controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  group: Group;
  /** What the group was chosen by. */
  scope: Scope;
  /** The last index this reader has passed. */
  cursor: number;
  /** What is left of a large batch: a stream is given no more than a piece at a time, as the runtime keeps what it is given. */
  rest: Uint8Array | null;
  /** Lines on their way for it, from further away than memory or disk. */
  fetching: Promise<void> | undefined;
  /** The beat that this reader has had something in; null before its first bytes. */
  beat: number | null;
  /** Whether its consumer has taken what it was given and wants more, and since when that is so, or not. */
  asks: boolean;
  since: number;
  /** `parting`: cut, and may take its last line. */
  state: "open" | "parting" | "over";
  /** Its last line, until it is taken. */
  parting: Uint8Array | undefined;
}

export interface Pace {
  /** The pause after which a silent stream gets a heartbeat. */
  readonly heartbeatMs: number;
  /** How long a consumer may take nothing although something waits for it; looked at with each heartbeat. */
  readonly stallMs: number;
}

/**
 * Everybody who reads the stream. Each reader is a cursor that pulls: it has no queue, and one that stalls costs nothing but
 * its cursor and at most one chunk, which it shares, until it is cut: after a while, or when its next line leaves the buffer,
 * because going on would hide the loss. One timer serves them all.
 */
export class Readers {
  readonly #log: LogView;
  readonly #pace: () => Pace;
  readonly #groups = new Groups();
  readonly #permissions: Permissions;
  readonly #all = new Set<Reader>();
  #news = Promise.withResolvers<void>();
  #lines = 0;
  readonly #cut: Record<Cut, number> = { slow_consumer: 0, permission_denied: 0 };
  #beats = 0;
  #beatAt = Number.POSITIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** The newest heartbeat of each framing: most readers stand at the same index. */
  readonly #heartbeats = new Map<Framing, { readonly index: number; readonly bytes: Uint8Array }>();

  constructor(log: LogView, ask: Ask, pace: () => Pace) {
    this.#log = log;
    this.#pace = pace;
    this.#permissions = new Permissions(ask, () => this.#rightsChanged());
  }

  get count(): number {
    return this.#all.size;
  }

  get served(): Served {
    let streams = 0;
    for (const { relay } of this.#all) if (relay === null) streams += 1;
    return { streams, lines: this.#lines, cut: { ...this.#cut } };
  }

  /** The names of the relays that follow, each once. */
  get relays(): string[] {
    return [...new Set([...this.#all].flatMap(({ relay }) => relay ?? []))].sort();
  }

  /**
   * Tells those who wait that there is something to look at.
   * @param lines that are shown from this turn on. Who may lose rights by one of them gets neither it nor anything else until
   * that is known
   */
  wake(lines: Iterable<Line> = []): void {
    for (const { facts } of lines) this.#permissions.told(facts);
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers<void>();
    resolve();
    void this.#permissions.askDue();
  }

  /** Lines were lost that may have told of rights: nobody gets anything more before they were asked about again. */
  doubt(): void {
    this.#permissions.doubt();
  }

  /**
   * One more reader, until its stream is cancelled or `signal` fires; null when its token does not let it read all it asks for.
   * Rejects with `RightsUnknown` when that cannot be found out.
   */
  async open(subscription: Subscription, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | null> {
    const permission = await this.#permissions.admit(questionOf(subscription));
    return permission && this.#stream(this.#enter(subscription, permission, null), signal);
  }

  /** A relay, as one more reader: every line after a cursor, with its facts. */
  follow(relay: string, after: number, signal: AbortSignal): ReadableStream<Uint8Array> {
    return this.#stream(this.#enter({ ...FEED, from: after + 1 }, Permission.ofOurOwn(), relay), signal);
  }

  #stream(reader: Reader, signal: AbortSignal): ReadableStream<Uint8Array> {
    const gone = () => this.#leave(reader);
    if (signal.aborted) gone();
    else signal.addEventListener("abort", gone);
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          reader.controller = controller;
        },
        pull: (controller) => this.#pull(reader, controller),
        cancel: gone,
      },
      { highWaterMark: 0 },
    );
  }

  #enter(subscription: Subscription, permission: Permission, relay: string | null): Reader {
    const { from } = subscription;
    const reader: Reader = {
      relay,
      subscription,
      permission,
      controller: undefined,
      group: this.#groups.join({ topics: subscription.topics, ...permission.scope }, framingOf(subscription)),
      scope: permission.scope,
      cursor: from < 0 ? this.#log.newest() : Math.max(from - 1, this.#log.evicted()),
      rest: null,
      fetching: undefined,
      beat: null,
      asks: false,
      since: Date.now(),
      state: "open",
      parting: undefined,
    };
    this.#all.add(reader);
    this.#arm();
    return reader;
  }

  #leave(reader: Reader): void {
    if (reader.state === "over") return;
    reader.state = "over";
    reader.rest = null;
    this.#all.delete(reader);
    this.#groups.leave(reader.group);
    this.#permissions.release(reader.permission);
    if (this.#all.size > 0) return;
    // Nobody is left: no timer keeps the object awake, and a read that still waits ends.
    this.#arm();
    this.wake();
  }

  async #pull(reader: Reader, controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    reader.asks = true;
    try {
      const bytes = await this.#next(reader);
      if (bytes) controller.enqueue(bytes);
      else if (reader.state === "parting") {
        this.#leave(reader);
        controller.close();
      }
    } catch (failure) {
      this.#leave(reader);
      throw failure;
    } finally {
      reader.asks = false;
      reader.since = Date.now();
    }
  }

  /** The reader's next bytes, as soon as there are some; null when its stream is over. */
  async #next(reader: Reader): Promise<Uint8Array | null> {
    // To the end of its last line, whatever has become of its rights: no stream is cut within one.
    if (reader.rest) return this.#piece(reader, reader.rest);
    while (reader.state === "open") {
      const standing = reader.permission.standing(Date.now());
      if (standing === "denied") this.#part(reader, "permission_denied");
      else if (reader.cursor < this.#log.evicted()) this.#part(reader, "slow_consumer");
      else {
        const bytes = this.#offer(reader, standing);
        if (bytes) {
          reader.beat = this.#beats;
          return this.#piece(reader, bytes);
        }
        const behind = standing === "open" && reader.cursor < this.#log.newest();
        await (behind ? this.#turn(reader) : this.#news.promise);
      }
    }
    const last = reader.parting;
    reader.parting = undefined;
    return last ?? null;
  }

  #piece(reader: Reader, bytes: Uint8Array): Uint8Array {
    reader.rest = bytes.length > PIECE_BYTES ? bytes.subarray(PIECE_BYTES) : null;
    return reader.rest ? bytes.subarray(0, PIECE_BYTES) : bytes;
  }

  /** When to look again for a reader that has lines before it. */
  #turn({ fetching }: Reader): Promise<void> {
    // A long backlog without a line for this reader must not keep the others waiting.
    return fetching ? Promise.race([fetching, this.#news.promise]) : scheduler.wait(0);
  }

  /** What there is for the reader right now: lines, or a sign of life when one is due. */
  #offer(reader: Reader, standing: Standing): Uint8Array | null {
    if (standing === "expired") return null;
    const { greeting } = reader.group.framing;
    if (reader.beat === null && greeting !== null) return encode(greeting);
    const bytes = standing === "open" ? this.#read(reader) : null;
    if (bytes) return bytes;
    // The answer's head leaves with its first bytes, so who has no backlog is greeted at once.
    const due = reader.beat === null ? reader.cursor >= this.#log.newest() : reader.beat !== this.#beats;
    // A reader that waits for a future index has passed nothing beyond the newest.
    return due ? this.#heartbeat(reader.group.framing, Math.min(reader.cursor, this.#log.newest())) : null;
  }

  /** Moves the reader on, past what is not for it, and returns what is. */
  #read(reader: Reader): Uint8Array | null {
    if (reader.cursor >= this.#log.newest()) return null;
    const { scope } = reader.permission;
    if (scope !== reader.scope) this.#regroup(reader, scope);
    const batch = this.#groups.read(reader.group, this.#log, reader.cursor);
    reader.fetching = batch ? undefined : this.#groups.fetch(reader.group, this.#log, reader.cursor);
    if (!batch) return null;
    reader.cursor = batch.cursor;
    if (reader.relay === null) this.#lines += batch.lines;
    return batch.bytes;
  }

  /** Its rights are others than before: who gets the same bytes may be, too. */
  #regroup(reader: Reader, scope: Scope): void {
    const before = reader.group;
    reader.group = this.#groups.join({ topics: reader.subscription.topics, ...scope }, before.framing);
    reader.scope = scope;
    this.#groups.leave(before);
  }

  #heartbeat(framing: Framing, index: number): Uint8Array {
    const known = this.#heartbeats.get(framing);
    if (known?.index === index) return known.bytes;
    const bytes = encode(framing.heartbeat(index));
    this.#heartbeats.set(framing, { index, bytes });
    return bytes;
  }

  /** Ends a stream: with its last line, if it wants one, as soon as its consumer takes that. */
  #part(reader: Reader, because: Cut): void {
    if (reader.state !== "open") return;
    this.#cut[because] += 1;
    reader.state = "parting";
    reader.since = Date.now();
    if (!reader.subscription.errors) return;
    const error = JSON.stringify({ Error: { Code: because, LastIndex: Math.min(reader.cursor, this.#log.newest()) } });
    reader.parting = encode(reader.group.framing.parting(error));
  }

  #rightsChanged(): void {
    for (const reader of this.#all) if (reader.permission.denied) this.#part(reader, "permission_denied");
    this.wake();
    this.#arm();
  }

  /** Sets the timer for whatever is due first: the next beat, or a question about somebody's rights. */
  #arm(): void {
    if (this.#all.size === 0) this.#beatAt = Number.POSITIVE_INFINITY;
    else if (this.#beatAt === Number.POSITIVE_INFINITY) this.#beatAt = Date.now() + this.#pace().heartbeatMs;
    const at = Math.min(this.#beatAt, this.#permissions.nextAsk());
    if (at === this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    if (at !== Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#tick(), Math.max(0, at - Date.now()));
  }

  /** Also how a dead client is noticed: by writing to it. */
  #tick(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = Date.now();
    if (now >= this.#beatAt) {
      const { heartbeatMs, stallMs } = this.#pace();
      this.#beats += 1;
      this.#beatAt = now + heartbeatMs;
      for (const reader of this.#all) if (!reader.asks && now - reader.since >= stallMs) this.#stalled(reader);
    }
    this.wake();
    this.#arm();
  }

  #stalled(reader: Reader): void {
    const waits = reader.rest !== null || reader.cursor < this.#log.newest() || reader.beat !== this.#beats;
    if (reader.state === "open" && !waits) return;
    if (reader.state === "open" && reader.subscription.errors) this.#part(reader, "slow_consumer");
    else {
      // One that is parting was counted.
      if (reader.state === "open") this.#cut.slow_consumer += 1;
      // An error, not an end: what the connection still holds goes at once.
      this.#leave(reader);
      reader.controller?.error(slowConsumer());
    }
  }
}

/** `retryable` makes it a connection that is lost to the runtime, which logs every other error of a stream as uncaught. */
const slowConsumer = (): Error => Object.assign(new Error("slow consumer"), { retryable: true });

const FEED: Omit<Subscription, "from"> = {
  ...{ accessor: "", topics: { "*": ["*"] }, namespace: "*" },
  ...{ dialect: "neutral", format: "feed", errors: false },
};

const questionOf = ({ accessor, topics, namespace }: Subscription): StreamQuestion => ({
  accessor,
  topics: Object.keys(topics),
  namespace,
});
