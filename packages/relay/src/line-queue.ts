import type { Readable } from "node:stream";

/** Lines held while the consumer is busy; beyond, the source is not read, so that its own buffer applies. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** Nomad sends a heartbeat every 30 s. */
const SILENCE_MS = 75_000;
const LINE_FEED = 0x0a;

/** The lines of a stream, of any size. */
export async function* linesOf(stream: Readable, silenceMs = SILENCE_MS): AsyncGenerator<string> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest: Buffer[] = [];
  for (;;) {
    const silence = setTimeout(() => stream.destroy(new Error("the stream is silent")), silenceMs);
    const next = await chunks.next().finally(() => clearTimeout(silence));
    if (next.done) return;
    let chunk = next.value;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED)) {
      yield Buffer.concat([...rest, chunk.subarray(0, end)]).toString();
      rest = [];
      chunk = chunk.subarray(end + 1);
    }
    if (chunk.length > 0) rest.push(chunk);
  }
}

/** Reads a stream ahead of its consumer, within bounds. Single producer, single consumer. */
export class LineQueue {
  readonly #lines: string[] = [];
  #bytes = 0;
  #ended = false;
  #failure: unknown = null;
  #consumer: () => void = () => undefined;
  #producer: () => void = () => undefined;
  readonly #maxBytes: number;

  constructor(stream: Readable, maxBytes = MAX_HELD_BYTES) {
    this.#maxBytes = maxBytes;
    void this.#read(stream);
  }

  /** Bytes of held lines. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The next line; null after `waitMs` without one, or when woken. Rejects when the stream has ended. */
  async next(waitMs: number): Promise<string | null> {
    if (this.#lines.length === 0 && !this.#ended) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#consumer = resolve;
        timer = setTimeout(resolve, waitMs);
      });
      clearTimeout(timer);
    }
    const line = this.#lines.shift();
    if (line !== undefined) {
      this.#bytes -= line.length;
      this.#producer();
      return line;
    }
    if (this.#ended) throw this.#failure ?? new Error("the stream has ended");
    return null;
  }

  /** The next lines that have been read already, each up to `maxBytes` together; not waited for. */
  ready(maxBytes: number): string[] {
    const lines: string[] = [];
    let bytes = 0;
    for (let line = this.#lines[0]; line !== undefined; line = this.#lines[0]) {
      bytes += line.length;
      if (bytes > maxBytes) break;
      lines.push(line);
      this.#lines.shift();
      this.#bytes -= line.length;
    }
    if (lines.length > 0) this.#producer();
    return lines;
  }

  /** Makes the consumer continue. */
  wake(): void {
    this.#consumer();
  }

  async #read(stream: Readable): Promise<void> {
    try {
      for await (const line of linesOf(stream)) {
        this.#lines.push(line);
        this.#bytes += line.length;
        this.#consumer();
        if (this.#bytes > this.#maxBytes) await new Promise<void>((resolve) => (this.#producer = resolve));
      }
    } catch (failure) {
      this.#failure = failure;
    }
    this.#ended = true;
    this.#consumer();
  }
}
