import { exports } from "cloudflare:workers";

/** A request whose head and first bytes have arrived; its rest is held back. */
export interface HeldRequest {
  readonly answer: Promise<Response>;
  /** Resolves when the body is being read, after the request was judged, or the request has its answer. */
  readonly begun: Promise<unknown>;
  /** Sends the rest of the body. */
  finish(): Promise<void>;
}

interface HeldOptions {
  readonly token?: string;
  readonly headers?: Record<string, string>;
  /** Whether the head says how long the body is. */
  readonly declared?: boolean;
}

/** Sends a request up to the second byte of its body. Root's unless `headers` say otherwise. */
export function holdBody(
  method: string,
  path: string,
  body: unknown,
  { token = "root", headers = {}, declared = false }: HeldOptions = {},
): HeldRequest {
  // The space is held back of every body, also of an empty object.
  const bytes = body instanceof Uint8Array ? body : new TextEncoder().encode(`${JSON.stringify(body)} `);
  const { readable, writable } = declared
    ? new FixedLengthStream(bytes.length)
    : new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const answer = exports.default.fetch(`https://x${path}`, {
    method,
    headers: { "X-Orch-Token": token, ...headers },
    body: readable,
  });
  // The runtime takes the first piece by itself. A refusal leaves the body unread.
  const read = Promise.all([bytes.subarray(0, 1), bytes.subarray(1, 2)].map((piece) => writer.write(piece))).catch(
    () => undefined,
  );
  const begun = Promise.race([read, answer.catch(() => undefined)]);
  return {
    answer,
    begun,
    finish: async () => {
      await begun;
      await writer.write(bytes.subarray(2)).catch(() => undefined);
      await writer.close().catch(() => undefined);
    },
  };
}
