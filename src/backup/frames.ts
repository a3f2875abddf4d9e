import { badRequest } from "../platform/http/errors.ts";
import { LENGTH_BYTES, MAGIC } from "./format.ts";

/** A row has at most 2 MB, and a page of rows slightly more; their JSON text may be several times as long. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024;

/** The frames of a file as they arrive. Holds one frame in memory. */
export async function* framesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  const bytes = new Bytes(body);
  const magic = await bytes.take(MAGIC.length).catch(() => null);
  if (!magic || Buffer.from(magic).toString("latin1") !== MAGIC)
    throw badRequest("request body: is not a snapshot of this service as it was taken (curl: --data-binary @FILE)");
  for (;;) {
    const head = await bytes.take(LENGTH_BYTES);
    if (!head) return;
    const length = Buffer.from(head).readUInt32BE();
    if (length > MAX_FRAME_BYTES) throw badRequest("snapshot: a frame is longer than any can be");
    const frame = await bytes.take(length);
    if (!frame) throw badRequest("snapshot: it is cut off");
    yield frame;
  }
}

/** Reads exact byte counts from chunks of any size. */
class Bytes {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #rest: Uint8Array[] = [];
  #length = 0;

  constructor(body: ReadableStream<Uint8Array> | null) {
    this.#pieces = (body ?? new Blob([]).stream())[Symbol.asyncIterator]();
  }

  /** The next `count` bytes; null at the end. */
  async take(count: number): Promise<Uint8Array | null> {
    while (this.#length < count) {
      const { done, value } = await this.#pieces.next();
      if (done) {
        if (this.#length > 0) throw badRequest("snapshot: it is cut off");
        return null;
      }
      this.#rest.push(value);
      this.#length += value.length;
    }
    const whole = Buffer.concat(this.#rest);
    this.#rest = [whole.subarray(count)];
    this.#length -= count;
    return whole.subarray(0, count);
  }
}
