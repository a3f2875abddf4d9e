import type { Scope, StreamQuestion } from "../contracts/stream-rights.ts";
import { isServiceTopic } from "../rights/path-judge.ts";
import { newestGap } from "./account-gaps.ts";
import { type Framing, framingOf } from "./framing.ts";
import { encode, type Group, Groups, type LogView } from "./group.ts";
import type { Line } from "./line.ts";
import { type Ask, Permission, type PermissionState, Permissions } from "./permissions.ts";
import type { Subscription } from "./subscription.ts";

/** Bytes per chunk of a stream: a batch of ordinary lines, or a part of a large one. */
const PIECE_BYTES = 64 * 1024;

/** Reason for cutting a stream. */
type CutReason = "slow_consumer" | "permission_denied";

interface OpenedStream {
  readonly body: ReadableStream<Uint8Array>;
  /** The first index of the stream. Greater than the asked one if lines were evicted before it was opened. */
  readonly first: number;
  /** Lines from there up to this index are not all there, although those of others are; 0 for no gap. */
  readonly gap: number;
}

interface Reader {
  /** Its name if it is a relay. */
  readonly relay: string | null;
  readonly subscription: Subscription;
  readonly permission: Permission;
  controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  group: Group;
  /** The scope for which the group was chosen. */
  scope: Scope;
  /** The last index this reader has passed. */
  cursor: number;
  /** The newest index up to which lines may be missing, as its client was told; 0 for no gap. */
  gap: number;
  /** Remainder of a large batch: a stream gets one chunk at a time, since the runtime buffers its chunks. */
  rest: Uint8Array | null;
  /** The pending fetch of older lines. */
  fetching: Promise<void> | undefined;
  /** Heartbeat period of the last output; null before the first bytes. */
  beat: number | null;
  /** Whether the consumer has drained the stream, and since when this has been true or false. */
  isDrained: boolean;
  since: number;
  /** `closing`: cut; may still send its last line. */
  state: "open" | "closing" | "closed";
  /** The last line, until it is sent. */
  lastLine: Uint8Array | undefined;
}

interface Pace {
  /** Pause after which an idle stream gets a heartbeat. */
  readonly heartbeatMs: number;
  /** Maximum time without progress of a consumer with pending data; checked with each heartbeat. */
  readonly stallMs: number;
}

/**
 * All readers of the stream. Each reader is a cursor that pulls; it has no queue. A stalled reader costs its cursor and
 * at most one shared chunk. It is cut after `stallMs`, or when one of its next lines is evicted, because continuing
 * would hide the loss. One timer serves all readers.
 *
 *   open ──slow_consumer, permission_denied──> closing ──last line sent──> closed
 *     └──────────────────cancelled, or without error lines────────────────> closed
 */
export class Readers {
  readonly #groups = new Groups();
  readonly #permissions: Permissions;
  readonly #all = new Set<Reader>();
  #wakeUp = Promise.withResolvers<void>();
  #lines = 0;
  readonly #cut: Record<CutReason, number> = { slow_consumer: 0, permission_denied: 0 };
  #beats = 0;
  #beatAt = Number.POSITIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  /** The newest heartbeat of each framing: most readers share an index. */
  readonly #heartbeats = new Map<Framing, { readonly index: number; readonly bytes: Uint8Array }>();

  constructor(
    private readonly log: LogView,
    ask: Ask,
    private readonly pace: () => Pace,
  ) {
    this.#permissions = new Permissions(ask, () => this.#rightsChanged());
  }

  get count(): number {
    return this.#all.size;
  }

  /** Open streams, and since start: delivered lines, both without relays, and streams that were cut. */
  get stats() {
    let streams = 0;
    for (const { relay } of this.#all) if (relay === null) streams += 1;
    return { streams, lines: this.#lines, cut: { ...this.#cut } };
  }

  /** Names of the following relays, without duplicates. */
  get relays(): string[] {
    return [...new Set([...this.#all].flatMap(({ relay }) => relay ?? []))].sort();
  }

  /**
   * Wakes waiting readers.
   * @param lines newly visible lines. A reader that may lose rights by one of them gets no event until its permission
   * is confirmed.
   */
  wake(lines: Iterable<Line> = []): void {
    for (const { headers } of lines) this.#permissions.onHeaders(headers);
    const { resolve } = this.#wakeUp;
    this.#wakeUp = Promise.withResolvers<void>();
    resolve();
    void this.#permissions.askDue();
  }

  /** After lost lines, all permissions are confirmed again before further output. */
  invalidateAll(): void {
    this.#permissions.invalidateAll();
  }

  /**
   * Opens a reader, until its stream is cancelled or `signal` fires; null when its token lacks rights. Rejects with
   * `PermissionsUnavailable` when the rights cannot be determined.
   */
  async open(subscription: Subscription, signal: AbortSignal): Promise<OpenedStream | null> {
    const permission = await this.#permissions.admit(questionOf(subscription));
    if (!permission) return null;
    const reader = this.#add(subscription, permission, null);
    return { first: reader.cursor + 1, gap: reader.gap, body: this.#stream(reader, signal) };
  }

  /** Opens a relay's reader: every line after a cursor, with its headers. */
  follow(relay: string, after: number, signal: AbortSignal): ReadableStream<Uint8Array> {
    return this.#stream(this.#add({ ...FEED, from: after + 1 }, Permission.forRelay(), relay), signal);
  }

  #stream(reader: Reader, signal: AbortSignal): ReadableStream<Uint8Array> {
    const remove = () => this.#remove(reader);
    if (signal.aborted) remove();
    else signal.addEventListener("abort", remove);
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          reader.controller = controller;
        },
        pull: (controller) => this.#pull(reader, controller),
        cancel: remove,
      },
      { highWaterMark: 0 },
    );
  }

  #add(subscription: Subscription, permission: Permission, relay: string | null): Reader {
    const { from } = subscription;
    const reader: Reader = {
      relay,
      subscription,
      permission,
      controller: undefined,
      group: this.#groups.join({ topics: subscription.topics, ...permission.scope }, framingOf(subscription)),
      scope: permission.scope,
      cursor: from < 0 ? this.log.newest() : Math.max(from - 1, this.log.evicted()),
      gap: 0,
      rest: null,
      fetching: undefined,
      beat: null,
      isDrained: false,
      since: Date.now(),
      state: "open",
      lastLine: undefined,
    };
    reader.gap = this.#gapOf(reader);
    this.#all.add(reader);
    this.#arm();
    return reader;
  }

  #remove(reader: Reader): void {
    if (reader.state === "closed") return;
    reader.state = "closed";
    reader.rest = null;
    this.#all.delete(reader);
    this.#groups.leave(reader.group);
    this.#permissions.release(reader.permission);
    if (this.#all.size > 0) return;
    // Without readers, no timer keeps the object awake; a pending read ends.
    this.#arm();
    this.wake();
  }

  async #pull(reader: Reader, controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    reader.isDrained = true;
    try {
      const bytes = await this.#next(reader);
      if (bytes) controller.enqueue(bytes);
      else if (reader.state === "closing") {
        this.#remove(reader);
        controller.close();
      }
    } catch (failure) {
      this.#remove(reader);
      throw failure;
    } finally {
      reader.isDrained = false;
      reader.since = Date.now();
    }
  }

  /** The reader's next bytes, when available; null at the end of its stream. */
  async #next(reader: Reader): Promise<Uint8Array | null> {
    // Finishes a partially sent line first, also after a loss of rights: no stream is cut within a line.
    if (reader.rest) return this.#piece(reader, reader.rest);
    while (reader.state === "open") {
      const standing = reader.permission.stateAt(Date.now());
      if (standing === "denied") this.#cutStream(reader, "permission_denied");
      else if (this.#hasLost(reader)) this.#cutStream(reader, "slow_consumer");
      else {
        const bytes = this.#available(reader, standing);
        if (bytes) {
          reader.beat = this.#beats;
          return this.#piece(reader, bytes);
        }
        const behind = standing === "open" && reader.cursor < this.log.newest();
        await (behind ? this.#nextCheck(reader) : this.#wakeUp.promise);
      }
    }
    const last = reader.lastLine;
    reader.lastLine = undefined;
    return last ?? null;
  }

  /** Whether lines after the reader's cursor were evicted since its stream was opened. */
  #hasLost(reader: Reader): boolean {
    return reader.cursor < this.log.evicted() || this.#gapOf(reader) > reader.gap;
  }

  /** The newest gap after the reader's cursor. A relay finds gaps by the indexes, for its own readers. */
  #gapOf({ relay, cursor, group }: Reader): number {
    return relay === null ? newestGap(this.log.gaps(cursor), (account) => group.sees(account)) : 0;
  }

  #piece(reader: Reader, bytes: Uint8Array): Uint8Array {
    reader.rest = bytes.length > PIECE_BYTES ? bytes.subarray(PIECE_BYTES) : null;
    return reader.rest ? bytes.subarray(0, PIECE_BYTES) : bytes;
  }

  /** Resolves when a lagging reader should be checked again. */
  #nextCheck({ fetching }: Reader): Promise<void> {
    // A long backlog without matches must not delay other readers.
    return fetching ? Promise.race([fetching, this.#wakeUp.promise]) : scheduler.wait(0);
  }

  /** The bytes available for the reader: lines, or a due heartbeat. */
  #available(reader: Reader, standing: PermissionState): Uint8Array | null {
    if (standing === "expired") return null;
    const { greeting } = reader.group.framing;
    if (reader.beat === null && greeting !== null) return encode(greeting);
    const bytes = standing === "open" ? this.#read(reader) : null;
    if (bytes) return bytes;
    // The response head is sent with the first bytes, so a reader without backlog is greeted immediately.
    const due = reader.beat === null ? reader.cursor >= this.log.newest() : reader.beat !== this.#beats;
    // A reader that waits for a future index reports no index beyond the newest.
    return due ? this.#heartbeat(reader.group.framing, Math.min(reader.cursor, this.log.newest())) : null;
  }

  /** Advances the reader past filtered lines and returns the matching ones. */
  #read(reader: Reader): Uint8Array | null {
    if (reader.cursor >= this.log.newest()) return null;
    const { scope } = reader.permission;
    if (scope !== reader.scope) this.#regroup(reader, scope);
    const batch = this.#groups.read(reader.group, this.log, reader.cursor);
    reader.fetching = batch ? undefined : this.#groups.fetch(reader.group, this.log, reader.cursor);
    if (!batch) return null;
    reader.cursor = batch.cursor;
    if (reader.relay === null) this.#lines += batch.lines;
    return batch.bytes;
  }

  /** Moves the reader to another group after its rights changed. */
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

  /** Cuts a stream, with a last line if requested, once its consumer reads. */
  #cutStream(reader: Reader, because: CutReason): void {
    if (reader.state !== "open") return;
    this.#cut[because] += 1;
    reader.state = "closing";
    reader.since = Date.now();
    if (!reader.subscription.errors) return;
    const error = JSON.stringify({ Error: { Code: because, LastIndex: Math.min(reader.cursor, this.log.newest()) } });
    reader.lastLine = encode(reader.group.framing.lastLine(error));
  }

  #rightsChanged(): void {
    for (const reader of this.#all) if (reader.permission.denied) this.#cutStream(reader, "permission_denied");
    this.wake();
    this.#arm();
  }

  /** Sets the timer for the next heartbeat or permission question. */
  #arm(): void {
    if (this.#all.size === 0) this.#beatAt = Number.POSITIVE_INFINITY;
    else if (this.#beatAt === Number.POSITIVE_INFINITY) this.#beatAt = Date.now() + this.pace().heartbeatMs;
    const at = Math.min(this.#beatAt, this.#permissions.nextAsk());
    if (at === this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    if (at !== Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#onTimer(), Math.max(0, at - Date.now()));
  }

  /** Heartbeats also detect dead clients: the write fails. */
  #onTimer(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = Date.now();
    if (now >= this.#beatAt) {
      const { heartbeatMs, stallMs } = this.pace();
      this.#beats += 1;
      this.#beatAt = now + heartbeatMs;
      for (const reader of this.#all) if (!reader.isDrained && now - reader.since >= stallMs) this.#stalled(reader);
    }
    this.wake();
    this.#arm();
  }

  #stalled(reader: Reader): void {
    const waits = reader.rest !== null || reader.cursor < this.log.newest() || reader.beat !== this.#beats;
    if (reader.state === "open" && !waits) return;
    if (reader.state === "open" && reader.subscription.errors) this.#cutStream(reader, "slow_consumer");
    else {
      // Closing readers were counted before.
      if (reader.state === "open") this.#cut.slow_consumer += 1;
      // An error instead of an end: it discards the connection's buffer immediately.
      this.#remove(reader);
      reader.controller?.error(slowConsumer());
    }
  }
}

/** With `retryable` the runtime treats it as a lost connection; other stream errors are logged as uncaught. */
const slowConsumer = (): Error => Object.assign(new Error("slow consumer"), { retryable: true });

const FEED: Omit<Subscription, "from"> = {
  accessor: "",
  topics: { "*": ["*"] },
  namespace: "*",
  dialect: "neutral",
  format: "feed",
  errors: false,
};

function questionOf({ accessor, topics: keys, namespace, dialect }: Subscription): StreamQuestion {
  const topics = Object.keys(keys);
  // For clients of upstream, `*` is upstream's topics.
  const service = topics.some(isServiceTopic) || (dialect === "neutral" && topics.includes("*"));
  return { accessor, topics, namespace, ...(service && { service }) };
}
