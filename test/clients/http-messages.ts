/** One side of a recorded HTTP/1.1 connection, cut into its messages. */

export interface Message {
  /** Offset of the message in the bytes of its side. */
  readonly at: number;
  readonly startLine: string;
  readonly headers: ReadonlyMap<string, string>;
  /** The decoded body; null while its end has not arrived, as in a stream. */
  readonly body: Buffer | null;
}

const END_OF_HEAD = Buffer.from("\r\n\r\n");

/**
 * @param bodiless tells from the number of a message and its start line that it has no body whatever its headers say
 * @returns messages in order; the last one may lack its body
 */
export function messagesIn(bytes: Buffer, bodiless: (number: number, startLine: string) => boolean): Message[] {
  const found: Message[] = [];
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(END_OF_HEAD, at);
    if (end < 0) return found;
    const [startLine = "", ...lines] = bytes.toString("latin1", at, end).split("\r\n");
    const headers = new Map(lines.map(split));
    const from = end + END_OF_HEAD.length;
    const { body, next } = bodiless(found.length, startLine)
      ? { body: Buffer.alloc(0), next: from }
      : bodyAt(bytes, from, headers);
    found.push({ at, startLine, headers, body });
    if (body === null) return found;
    at = next;
  }
}

function split(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}

function bodyAt(bytes: Buffer, from: number, headers: ReadonlyMap<string, string>) {
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") return chunkedAt(bytes, from);
  const next = from + Number(headers.get("content-length") ?? 0);
  return next > bytes.length ? { body: null, next } : { body: bytes.subarray(from, next), next };
}

function chunkedAt(bytes: Buffer, from: number): { body: Buffer | null; next: number } {
  const chunks: Buffer[] = [];
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return { body: null, next: at };
    const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    if (end + 2 > bytes.length) return { body: null, next: at };
    if (size === 0) return { body: Buffer.concat(chunks), next: end + 2 };
    chunks.push(bytes.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}
