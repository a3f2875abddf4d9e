import { exports } from "cloudflare:workers";

/** A request whose head and first bytes have arrived; its rest is held back. */
export interface HeldRequest {
  readonly answer: Promise<Response>;
  /** Sends the rest of the body. */
  finish(): Promise<void>;
}

/** Sends a request up to the first byte of its body. Root's unless `headers` say otherwise. */
export function holdBody(
  method: string,
  path: string,
  body: unknown,
  { token = "root", headers = {} }: { token?: string; headers?: Record<string, string> } = {},
): HeldRequest {
  const bytes = body instanceof Uint8Array ? body : new TextEncoder().encode(JSON.stringify(body));
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const answer = exports.default.fetch(`https://x${path}`, {
    method,
    headers: { "X-Orch-Token": token, ...headers },
    body: readable,
  });
  // A refusal leaves the body unread.
  const first = writer.write(bytes.subarray(0, 1)).catch(() => undefined);
  return {
    answer,
    finish: async () => {
      await first;
      await writer.write(bytes.subarray(1)).catch(() => undefined);
      await writer.close().catch(() => undefined);
    },
  };
}
