import type { Draft } from "./mutants.ts";

interface Request {
  readonly method: string;
  readonly path: string;
  readonly text: Buffer;
  /** The route reads a body. */
  readonly takes: boolean;
}

/** Messages whose parts do not fit together, by HTTP/1.1 (RFC 9112). */
export function framings({ method, path, text, takes }: Request, token: string): readonly (() => Draft)[] {
  const half = Math.ceil(text.length / 2);
  const chunks = Buffer.concat([
    Buffer.from(`${half.toString(16)};ext="x"\r\n`),
    text.subarray(0, half),
    Buffer.from(`\r\n${(text.length - half).toString(16)}\r\n`),
    text.subarray(half),
    Buffer.from(text.length > half ? "\r\n0\r\n\r\n" : "\r\n\r\n"),
  ]);
  const headOf = (line: string, ...fields: string[]): string =>
    [line, `X-Orch-Token: ${token}`, "Host: sallyport.test", ...fields, "", ""].join("\r\n");
  const broken = (what: string, head: string, body: Buffer | null = null, refused = true): Draft => ({
    what,
    head,
    body,
    refused,
  });
  return [
    () => ({ what: "in chunks", headers: [["Transfer-Encoding", "chunked"]], body: chunks, contentLength: null }),
    () => ({
      what: "in chunks of an unknown end",
      headers: [
        ["Transfer-Encoding", "chunked"],
        ["Connection", "close"],
      ],
      body: Buffer.from("2\r\n{}\r\n0\r\nX-Orch-Token: root\r\n\r\n"),
      contentLength: null,
    }),
    () =>
      broken(
        "a chunk size that is none",
        headOf(`${method} ${path} HTTP/1.1`, "Transfer-Encoding: chunked"),
        Buffer.from("zz\r\n{}\r\n0\r\n\r\n"),
        takes,
      ),
    () =>
      broken(
        "both lengths",
        headOf(`${method} ${path} HTTP/1.1`, "Content-Length: 2", "Transfer-Encoding: chunked"),
        Buffer.from("0\r\n\r\n"),
      ),
    () =>
      broken(
        "two lengths",
        headOf(`${method} ${path} HTTP/1.1`, "Content-Length: 2", "Content-Length: 3"),
        Buffer.from("{}"),
      ),
    () => broken("a negative length", headOf(`${method} ${path} HTTP/1.1`, "Content-Length: -1")),
    () => broken("a length of letters", headOf(`${method} ${path} HTTP/1.1`, "Content-Length: two"), Buffer.from("{}")),
    () =>
      broken("a length beyond counting", headOf(`${method} ${path} HTTP/1.1`, "Content-Length: 99999999999999999999")),
    () => ({
      what: "a length beyond the limit",
      contentLength: "1048577",
      body: Buffer.alloc(1_048_577, 32),
      refused: takes,
    }),
    () =>
      broken(
        "another coding",
        headOf(`${method} ${path} HTTP/1.1`, "Transfer-Encoding: gzip, chunked"),
        Buffer.from("0\r\n\r\n"),
      ),
    () => broken("a folded field", headOf(`${method} ${path} HTTP/1.1`, "X-A: b", " c")),
    () => broken("a space before the colon", headOf(`${method} ${path} HTTP/1.1`, "X-A : b")),
    () => broken("NUL in a field", headOf(`${method} ${path} HTTP/1.1`, "X-A: b\0c")),
    () => broken("a space in the target", headOf(`${method} ${path} x HTTP/1.1`)),
    () => broken("an unknown version", headOf(`${method} ${path} HTTP/3.9`)),
    () => broken("no version", `${method} ${path}\r\n\r\n`),
    () => broken("a target that is no path", headOf(`${method} ${path.slice(1)} HTTP/1.1`)),
    () => broken("a target *", headOf(`${method} * HTTP/1.1`)),
    () => broken("two hosts", headOf(`${method} ${path} HTTP/1.1`, "Host: elsewhere.test")),
    () => broken("no host", `${method} ${path} HTTP/1.1\r\nX-Orch-Token: ${token}\r\n\r\n`),
    () =>
      broken(
        "a head that is too large",
        headOf(
          `${method} ${path} HTTP/1.1`,
          ...Array.from({ length: 200 }, (_, at) => `X-${at}: ${"x".repeat(1_000)}`),
        ),
      ),
    () => ({ what: "300 header fields", headers: Array.from({ length: 300 }, (_, at) => [`X-${at}`, "x"] as const) }),
    () => broken("a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
  ];
}
