import { uuidV7 } from "../../../lib/uuid-v7.ts";
import { settings } from "../../settings.ts";
import { BYTES_A_REQUEST, type HttpTarget, LINES_A_REQUEST, sendLines } from "./http-sink.ts";

/** Lines that are written together. */
export interface Batch {
  /** Also the name of its object in a bucket: a repeated write replaces the first one. */
  readonly id: string;
  readonly lines: readonly string[];
}

/** The folders of the hour say when the id was made, so that a search by time finds it. */
export function newBatch(lines: readonly string[], now = Date.now()): Batch {
  const [day = "", hour = ""] = new Date(now).toISOString().split(/[T:]/);
  return { id: `${day}/${hour}/${uuidV7(now)}`, lines };
}

/** A destination of audit lines beside the Worker's own log, bound by the deployment. */
export interface Sink {
  readonly name: "queue" | "bucket" | "http";
  /** Stores all lines. A rejection may follow a partial write; the retry then repeats lines. */
  readonly write: (batch: Batch) => Promise<unknown>;
}

export function sinksOf(env: Env): Sink[] {
  const { AUDIT_QUEUE: queue, AUDIT_BUCKET: bucket } = env;
  const { AUDIT_HTTP_URL: url, AUDIT_HTTP_FORMAT: format, AUDIT_HTTP_TOKEN: token } = settings(env);
  const sinks: Sink[] = [];
  if (queue) sinks.push({ name: "queue", write: ({ lines }) => send(queue, lines) });
  if (bucket) sinks.push({ name: "bucket", write: (batch) => put(bucket, batch) });
  if (url) sinks.push({ name: "http", write: ({ lines }) => post({ url, format, token }, lines) });
  return sinks;
}

async function post(target: HttpTarget, lines: readonly string[]): Promise<void> {
  for (const part of partsOf(lines, LINES_A_REQUEST, BYTES_A_REQUEST)) await sendLines(target, part);
}

/** Limits of one queue call: 100 messages and 256 KB, including the platform's framing. */
const MESSAGES_A_CALL = 100;
const BYTES_A_CALL = 200_000;

async function send(queue: Queue<string>, lines: readonly string[]): Promise<void> {
  for (const part of partsOf(lines, MESSAGES_A_CALL, BYTES_A_CALL))
    await queue.sendBatch(part.map((body) => ({ body, contentType: "text" })));
}

/** Lines in parts of at most so many lines and bytes. */
function partsOf(lines: readonly string[], most: number, mostBytes: number): string[][] {
  const parts: string[][] = [];
  let part: string[] = [];
  let bytes = 0;
  for (const line of lines) {
    const size = Buffer.byteLength(line);
    if (part.length === 0 || part.length >= most || bytes + size > mostBytes) {
      part = [];
      parts.push(part);
      bytes = 0;
    }
    part.push(line);
    bytes += size;
  }
  return parts;
}

/**
 * Stores a batch as one object: `2026-11-21/19/<uuid>.jsonl`. Ids grow with time, so the listing of an hour is in
 * order.
 */
const put = (bucket: R2Bucket, { id, lines }: Batch): Promise<unknown> =>
  bucket.put(`${id}.jsonl`, `${lines.join("\n")}\n`, { httpMetadata: { contentType: "application/jsonl" } });
