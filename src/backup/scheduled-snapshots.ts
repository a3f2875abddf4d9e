import { partsOf } from "../lib/parts-of.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { flushCountsSoon } from "../platform/observability/metrics/flush.ts";
import { count } from "../platform/observability/metrics/isolate-counters.ts";
import {
  type SnapshotSchedule,
  type StoredSnapshot,
  snapshotName,
  snapshotSchedule,
  storedSnapshots,
} from "../platform/snapshot-bucket.ts";
import { accessControl } from "../rpc/stubs.ts";
import { takeSnapshot } from "./take.ts";

/**
 * Size of the parts of an upload, all but the last; one is held in memory. R2 takes parts of 5 MiB and more, all of one
 * size, and 10 000 of them (https://developers.cloudflare.com/r2/objects/multipart-objects, read on 2026-11-25).
 */
const PART_BYTES = 5 * 1024 * 1024;

/**
 * R2 deletes up to 1 000 objects a call (https://developers.cloudflare.com/r2/api/workers/workers-api-reference/, read on
 * 2026-11-30).
 */
const KEYS_PER_DELETE = 100;
/** Single deletions that may be refused before the rest waits for the next snapshot. */
const MAX_REFUSED = 10;

/** `busy`: another snapshot is being read; the next call tries again. */
type SnapshotOutcome = "ok" | "failed" | "busy" | "not-due";

/**
 * Stores a snapshot in the bucket if one is due, and deletes those beyond `SNAPSHOT_KEEP`. A cron trigger calls it every
 * few minutes, so that a failed one is repeated. Never throws.
 */
export async function storeDueSnapshot(env: Env): Promise<SnapshotOutcome> {
  const schedule = snapshotSchedule(env);
  if (!schedule) return "not-due";
  const outcome = await storeIfDue(env, schedule).catch((failure: unknown): SnapshotOutcome => {
    warn("scheduled-snapshot-failed", { because: textOf(failure) });
    return "failed";
  });
  if (outcome !== "not-due") {
    count("sallyport_snapshots_total", outcome);
    flushCountsSoon();
  }
  return outcome;
}

async function storeIfDue(env: Env, { bucket, keep, nextDue }: SnapshotSchedule): Promise<SnapshotOutcome> {
  if (!bucket) throw new Error("SNAPSHOT_CRON is set, and no bucket is bound as SNAPSHOT_BUCKET");
  const { clusterId } = await accessControl(env).status();
  const stored = await storedSnapshots(bucket, clusterId);
  const began = Date.now();
  if (began < nextDue(stored.at(-1)?.taken)) return "not-due";
  const snapshot = await takeSnapshot(env);
  if (!snapshot.ok && snapshot.reason === "conflict") return "busy";
  if (!snapshot.ok) throw new Error(snapshot.message);
  const name = snapshotName(clusterId, began);
  const bytes = await upload(bucket, name, snapshot.value);
  recordAction("snapshot-stored", { object: name, bytes });
  await prune(bucket, stored.slice(0, Math.max(0, stored.length + 1 - keep)));
  return "ok";
}

/** The object appears when it is whole. @returns its size */
async function upload(bucket: R2Bucket, name: string, snapshot: ReadableStream<Uint8Array>): Promise<number> {
  let bytes = 0;
  let multipart: R2MultipartUpload | null = null;
  const parts: R2UploadedPart[] = [];
  try {
    for await (const part of partsOf(snapshot, PART_BYTES)) {
      bytes += part.length;
      if (!multipart && part.length < PART_BYTES) await bucket.put(name, part);
      else {
        multipart ??= await bucket.createMultipartUpload(name);
        parts.push(await multipart.uploadPart(parts.length + 1, part));
      }
    }
    await multipart?.complete(parts);
    return bytes;
  } catch (failure) {
    await multipart?.abort().catch((other: unknown) => warn("upload-left", { object: name, because: textOf(other) }));
    throw failure;
  }
}

/**
 * Deletes snapshots, the oldest first. The new one is whole, so a failure here fails nothing: the next one prunes again.
 * A lock rule of the bucket may refuse a call as a whole, so its keys are then deleted one by one.
 */
async function prune(bucket: R2Bucket, old: readonly StoredSnapshot[]): Promise<void> {
  const names = old.map(({ name }) => name);
  let [refused, because] = [0, ""];
  const isDeleted = (keys: string | string[]): Promise<boolean> =>
    bucket.delete(keys).then(
      () => true,
      (failure: unknown) => {
        because ||= textOf(failure);
        return false;
      },
    );
  for (let at = 0; at < names.length; at += KEYS_PER_DELETE) {
    const some = names.slice(at, at + KEYS_PER_DELETE);
    if (await isDeleted(some)) continue;
    for (const name of some) {
      if (refused >= MAX_REFUSED) break;
      if (!(await isDeleted(name))) refused++;
    }
  }
  if (refused > 0) warn("snapshots-not-pruned", { because });
}

const NOT_BOUND = "object: no bucket is bound as SNAPSHOT_BUCKET";

/** Snapshots of all deployments in the bucket, the oldest first. */
export async function listSnapshots({ SNAPSHOT_BUCKET: bucket }: Env): Promise<Result<StoredSnapshot[]>> {
  return bucket ? ok(await storedSnapshots(bucket)) : refuse("invalid", NOT_BOUND);
}

/** The content of an object of the bucket. @param name its key; may be of another deployment */
export async function openSnapshot(
  { SNAPSHOT_BUCKET: bucket }: Env,
  name: string,
): Promise<Result<ReadableStream<Uint8Array>>> {
  if (!bucket) return refuse("invalid", NOT_BOUND);
  const object = await bucket.get(name);
  return object ? ok(object.body) : refuse("invalid", "object: the bucket SNAPSHOT_BUCKET has no object of this name");
}
