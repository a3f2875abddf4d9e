/** Maximum of bytes read from a refused request: several times the largest accepted body. */
const MAX_BYTES = 32 * 1024 * 1024;
const TIMEOUT_MS = 5_000;

/**
 * Reads the rest of a refused request's body before the refusal is sent. A server that closes a connection with unread
 * input resets it, and the client may lose the answer (RFC 9112, section 9.6). The runtime itself reads 64 KiB.
 */
export async function readUnreadBody({ body, headers }: Request): Promise<void> {
  // With `Expect`, the client has not sent its body yet.
  if (body === null || body.locked || headers.has("expect")) return;
  const reader = body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const timer = setTimeout(() => void reader.cancel().catch(() => undefined), TIMEOUT_MS);
  try {
    for (let bytes = 0; bytes <= MAX_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      bytes += value.length;
    }
  } catch {
    // The client disconnected.
  } finally {
    clearTimeout(timer);
  }
}
