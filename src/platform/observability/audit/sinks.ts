import { uuidV7 } from "../../../lib/uuid-v7.ts";

/** A destination of audit lines beside the Worker's own log, bound by the deployment. */
export interface Sink {
  readonly name: "queue" | "bucket";
  /** Stores all lines. A rejection may follow a partial write; the retry then repeats lines. */
  readonly write: (lines: readonly string[]) => Promise<void>;
}

export function sinksOf({ AUDIT_QUEUE: queue, AUDIT_BUCKET: bucket }: Env): Sink[] {
  const sinks: Sink[] = [];
  if (queue) sinks.push({ name: "queue", write: (lines) => send(queue, lines) });
  if (bucket) sinks.push({ name: "bucket", write: (lines) => put(bucket, lines) });
  return sinks;
}

/** Limits of one queue call: 100 messages and 256 KB, including the platform's framing. */
const MESSAGES_A_CALL = 100;
const BYTES_A_CALL = 200_000;

async function send(queue: Queue<string>, lines: readonly string[]): Promise<void> {
  let batch: string[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await queue.sendBatch(batch.map((body) => ({ body, contentType: "text" })));
    batch = [];
    bytes = 0;
  };
  for (const line of lines) {
    const size = Buffer.byteLength(line);
    if (batch.length >= MESSAGES_A_CALL || bytes + size > BYTES_A_CALL) await flush();
    batch.push(line);
    bytes += size;
  }
  await flush();
}

/**
 * Stores lines as one object: `2026-11-21/19/<uuid>.jsonl`. Ids grow with time, so the listing of an hour is in order.
 */
async function put(bucket: R2Bucket, lines: readonly string[]): Promise<void> {
  const [day = "", hour = ""] = new Date().toISOString().split(/[T:]/);
  await bucket.put(`${day}/${hour}/${uuidV7()}.jsonl`, `${lines.join("\n")}\n`, {
    httpMetadata: { contentType: "application/jsonl" },
  });
}
