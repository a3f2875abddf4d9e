/**
 * HTTP/1.1 message framing only: the end of heads and bodies (RFC 9112).
 * Strict where two parsers could disagree: a front with other message boundaries than its server allows request
 * smuggling. Valid bytes are forwarded unchanged, as soon as they are validated.
 */

/** A head as long as the platform itself accepts. Trailers share the limit. */
const MAX_HEAD_BYTES = 128 * 1024;
/** A chunk's size and its extensions. */
const MAX_CHUNK_LINE_BYTES = 4 * 1024;

const LF = 0x0a;
const CRLF = "\r\n";
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const FIELD = new RegExp(`^(${TOKEN}):(.*)$`);
/** The target is a path or an absolute URL; other forms are refused. */
const REQUEST_LINE = new RegExp(`^(${TOKEN}) ((?:/|https?://[^/])[^\\x00-\\x20\\x7f]*) HTTP/1\\.([01])$`);
const CHUNKED = /^[ \t]*chunked[ \t]*$/i;
const LENGTH = /^[ \t]*(\d+)[ \t]*$/;
const STATUS_LINE = /^HTTP\/1\.[01] ([1-9]\d\d)(?: .*)?$/;
const CHUNK_LINE = /^([0-9A-Fa-f]{1,13})(?:[ \t]*;.*)?$/;

/** A request that is not forwarded, with its response: it violates the protocol, or the service is down. */
export class Malformed extends Error {
  readonly status: 400 | 404 | 408 | 431 | 501 | 503;

  constructor(status: Malformed["status"], text: string) {
    super(text);
    this.status = status;
  }
}

export interface Head {
  startLine: string;
  /**
   * Names in lower case; a name that was sent twice has two values. Values are unchanged, including surrounding spaces.
   */
  fields: ReadonlyMap<string, readonly string[]>;
  /** The unchanged field lines without line ends. */
  lines: readonly string[];
}

/** A head as bytes, the empty line included. */
export const headBytes = ({ startLine, lines }: Pick<Head, "startLine" | "lines">): Buffer =>
  Buffer.from([startLine, ...lines, "", ""].join(CRLF), "latin1");

/**
 * The head of a final answer with its time, which the platform adds and the local runtime does not. Clients with a cache
 * need it (RFC 9110, 6.6.1).
 */
export const datedHead = ({ startLine, fields, lines }: Head): Pick<Head, "startLine" | "lines"> => ({
  startLine,
  lines: fields.has("date") ? lines : [...lines, dateLine()],
});

export const dateLine = (): string => `Date: ${new Date().toUTCString()}`;

export type Body =
  | { kind: "length"; bytes: number }
  | { kind: "chunked" }
  /** Ends when the connection does: responses only. */
  | { kind: "rest" };

export const NO_BODY: Body = { kind: "length", bytes: 0 };

interface Reactions {
  /** Called once per message. Emits the head to forward and returns the kind of the body. */
  head(head: Head): Body;
  /** Receives bytes of the body in order, as they arrive. */
  body(bytes: Buffer): void;
}

type State =
  | { reading: "head" }
  | { reading: "counted" | "chunk-data"; left: number }
  | { reading: "chunk-size" | "chunk-end" | "trailers" | "rest" };

/** Reads messages one after another from a connection; `read` stops at the end of each. */
export class MessageReader {
  #state: State = { reading: "head" };
  #lines: string[] = [];
  #sectionBytes = 0;
  /** The beginning of a line whose end has not arrived. */
  #partial: Buffer[] = [];
  #partialBytes = 0;
  /** Of the chunks that were read. */
  #lastByte: number | undefined;
  readonly #reactions: Reactions;

  constructor(reactions: Reactions) {
    this.#reactions = reactions;
  }

  /** True between two chunks of a body whose bytes so far end with a line. */
  get isAtLineEnd(): boolean {
    return this.#state.reading === "chunk-size" && this.#partialBytes === 0 && this.#lastByte === LF;
  }

  /** Reads until the end of a message or of the input. @throws Malformed, after which the connection is unusable */
  read(input: Buffer): { rest: Buffer; ended: boolean } {
    let at = 0;
    let sent = 0;
    // Adjacent pieces of a body are one write.
    const flush = () => {
      if (at > sent) this.#reactions.body(input.subarray(sent, at));
      sent = at;
    };
    while (at < input.length) {
      const state = this.#state;
      switch (state.reading) {
        case "rest":
          at = input.length;
          break;
        case "counted":
        case "chunk-data": {
          const size = Math.min(state.left, input.length - at);
          at += size;
          state.left -= size;
          this.#lastByte = input[at - 1];
          if (state.left > 0) break;
          if (state.reading === "chunk-data") this.#state = { reading: "chunk-end" };
          else {
            flush();
            return this.#ended(input.subarray(at));
          }
          break;
        }
        default: {
          // A line is forwarded when it is complete and valid.
          flush();
          const end = input.indexOf(LF, at) + 1;
          const piece = input.subarray(at, end || input.length);
          at += piece.length;
          sent = at;
          const line = this.#takeLine(piece, end > 0);
          if (line !== undefined && this.#takeSection(line)) return this.#ended(input.subarray(at));
        }
      }
    }
    flush();
    return { rest: input.subarray(at), ended: false };
  }

  #ended(rest: Buffer): { rest: Buffer; ended: boolean } {
    this.#state = { reading: "head" };
    this.#lastByte = undefined;
    return { rest, ended: true };
  }

  #takeLine(piece: Buffer, whole: boolean): string | undefined {
    this.#partial.push(piece);
    this.#partialBytes += piece.length;
    const inChunk = this.#state.reading === "chunk-size" || this.#state.reading === "chunk-end";
    if (this.#sectionBytes + this.#partialBytes > (inChunk ? MAX_CHUNK_LINE_BYTES : MAX_HEAD_BYTES)) {
      throw inChunk ? new Malformed(400, "chunk header too long") : new Malformed(431, "header fields too large");
    }
    if (!whole) return undefined;
    const line = Buffer.concat(this.#partial).toString("latin1");
    this.#partial = [];
    this.#partialBytes = 0;
    if (!line.endsWith(CRLF)) throw new Malformed(400, "a line must end with CRLF");
    const text = line.slice(0, -CRLF.length);
    if (/[\r\0]/.test(text)) throw new Malformed(400, "CR or NUL inside a line");
    return text;
  }

  /** Takes one line; true when it ends the message. */
  #takeSection(line: string): boolean {
    switch (this.#state.reading) {
      case "chunk-size":
        return this.#takeChunkSize(line);
      case "chunk-end":
        if (line !== "") throw new Malformed(400, "a chunk is longer than its size");
        this.#reactions.body(Buffer.from(CRLF));
        this.#state = { reading: "chunk-size" };
        return false;
      case "trailers":
        if (line !== "") fieldOf(line);
        this.#sectionBytes = line === "" ? 0 : this.#sectionBytes + line.length + CRLF.length;
        this.#reactions.body(Buffer.from(line + CRLF, "latin1"));
        return line === "";
      default:
        return this.#takeHead(line);
    }
  }

  #takeChunkSize(line: string): boolean {
    const size = CHUNK_LINE.exec(line)?.[1];
    if (size === undefined) throw new Malformed(400, "malformed chunk size");
    const left = Number.parseInt(size, 16);
    this.#reactions.body(Buffer.from(line + CRLF, "latin1"));
    this.#state = left === 0 ? { reading: "trailers" } : { reading: "chunk-data", left };
    return false;
  }

  #takeHead(line: string): boolean {
    // Old clients send an empty line before a request; a server should ignore it.
    if (line === "" && this.#lines.length === 0) return false;
    if (line !== "") {
      this.#lines.push(line);
      this.#sectionBytes += line.length + CRLF.length;
      return false;
    }
    const [startLine = "", ...fieldLines] = this.#lines;
    this.#lines = [];
    this.#sectionBytes = 0;
    const fields = new Map<string, string[]>();
    for (const fieldLine of fieldLines) {
      const [name, value] = fieldOf(fieldLine);
      fields.set(name, [...(fields.get(name) ?? []), value]);
    }
    const body = this.#reactions.head({ startLine, fields, lines: fieldLines });
    if (body.kind === "length") {
      if (body.bytes === 0) return true;
      this.#state = { reading: "counted", left: body.bytes };
    } else {
      this.#state = { reading: body.kind === "chunked" ? "chunk-size" : "rest" };
    }
    return false;
  }
}

interface RequestLine {
  method: string;
  target: string;
  minor: string;
}

export function requestLine(head: Head): RequestLine {
  const [, method, target, minor] = REQUEST_LINE.exec(head.startLine) ?? [];
  if (method === undefined || target === undefined || minor === undefined) {
    throw new Malformed(400, "malformed request line");
  }
  // The platform closes the connection without a response for either.
  if (method === "CONNECT") throw new Malformed(501, "CONNECT is no method of this service");
  if ((head.fields.get("host")?.length ?? 0) > 1) throw new Malformed(400, "more than one Host");
  return { method, target, minor };
}

export function requestBody(head: Head, minor: string): Body {
  const body = declaredBody(head);
  if (body?.kind === "chunked" && minor === "0") throw new Malformed(400, "HTTP/1.0 has no Transfer-Encoding");
  return body ?? NO_BODY;
}

export function responseStatus(head: Head): number {
  const status = STATUS_LINE.exec(head.startLine)?.[1];
  if (status === undefined) throw new Malformed(400, "malformed status line");
  return Number(status);
}

export function responseBody(head: Head, status: number, method: string): Body {
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return NO_BODY;
  return declaredBody(head) ?? { kind: "rest" };
}

/** True when a list field (`Connection: keep-alive, Upgrade`) holds the name. */
export function lists(head: Head, field: string, name: string): boolean {
  return (head.fields.get(field) ?? []).some((value) =>
    value
      .toLowerCase()
      .split(",")
      .some((item) => item.trim() === name),
  );
}

function declaredBody(head: Head): Body | undefined {
  const codings = head.fields.get("transfer-encoding");
  const lengths = head.fields.get("content-length");
  if (codings && lengths) throw new Malformed(400, "both Content-Length and Transfer-Encoding");
  if (codings) {
    if (codings.length > 1 || !CHUNKED.test(codings[0] ?? "")) {
      throw new Malformed(400, "Transfer-Encoding must be chunked and nothing else");
    }
    return { kind: "chunked" };
  }
  if (!lengths) return undefined;
  const bytes = Number(LENGTH.exec(lengths[0] ?? "")?.[1] ?? Number.NaN);
  if (lengths.length > 1 || !Number.isSafeInteger(bytes)) throw new Malformed(400, "Content-Length must be one number");
  return { kind: "length", bytes };
}

function fieldOf(line: string): [name: string, value: string] {
  const [, name, value] = FIELD.exec(line) ?? [];
  if (name === undefined || value === undefined) throw new Malformed(400, "malformed header field");
  return [name.toLowerCase(), value];
}
