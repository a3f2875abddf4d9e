/** Pieces of exactly `size` bytes of a stream, and a shorter last one. Each piece has memory of its own. */
export async function* partsOf(stream: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Uint8Array> {
  let part = new Uint8Array(size);
  let length = 0;
  for await (const piece of stream) {
    for (let from = 0; from < piece.length; ) {
      const some = piece.subarray(from, from + size - length);
      part.set(some, length);
      length += some.length;
      from += some.length;
      if (length < size) continue;
      yield part;
      part = new Uint8Array(size);
      length = 0;
    }
  }
  if (length > 0) yield part.subarray(0, length);
}
