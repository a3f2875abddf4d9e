import { within } from "../lib/timeout.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { type Series, series } from "../platform/observability/metrics/series.ts";
import { type StoredSnapshot, snapshotSchedule, storedSnapshots } from "../platform/snapshot-bucket.ts";
import { accessControl } from "../rpc/stubs.ts";

/** Time for a snapshot and for repetitions of a failed one, before health names it. */
const LATE_AFTER_MS = 3_600_000;
/** A listing of the bucket is billed. */
const CACHE_TTL_MS = 60_000;
const DEADLINE_MS = 2_000;

let last: { readonly at: number; readonly stored: StoredSnapshot[] | null } | null = null;

/** Clears the cached listing, for tests with another deployment. */
export const clearSnapshotCache = (): void => {
  last = null;
};

/**
 * Scheduled snapshots: gauges, and whether the newest one is too old. Judged by the content of the bucket, which also
 * shows a trigger that never fires. A bucket that cannot be listed counts as late.
 * @returns null without a schedule
 */
export async function snapshotState(env: Env) {
  const schedule = snapshotSchedule(env);
  if (!schedule) return null;
  const stored = await listed(env, schedule.bucket);
  const newest = stored?.at(-1);
  const now = Date.now();
  const isLate = !newest || now > schedule.nextDue(newest.taken) + LATE_AFTER_MS;
  return {
    isLate,
    series: [
      series("sallyport_snapshot_late", isLate ? 1 : 0),
      ...(stored ? [series("sallyport_snapshots_stored", stored.length)] : []),
      ...(newest
        ? [
            series("sallyport_snapshot_age_seconds", Math.max(0, now - newest.taken) / 1000),
            series("sallyport_snapshot_size_bytes", newest.bytes),
          ]
        : []),
    ],
  };
}

/**
 * Seconds since a snapshot was last read to its end, by a caller or for the bucket; none if none was. Rejects without an
 * answer.
 */
export async function lastSnapshotSeries(env: Env): Promise<Series[]> {
  const { lastSnapshot } = await within(DEADLINE_MS, accessControl(env).status());
  if (!lastSnapshot) return [];
  return [series("sallyport_snapshot_read_age_seconds", Math.max(0, Date.now() - lastSnapshot) / 1000)];
}

/** The deployment's snapshots, up to a minute old; none without a bucket, null when it does not answer. */
async function listed(env: Env, bucket: R2Bucket | undefined): Promise<StoredSnapshot[] | null> {
  if (last && Math.abs(Date.now() - last.at) < CACHE_TTL_MS) return last.stored;
  const ask = async (): Promise<StoredSnapshot[]> =>
    bucket ? storedSnapshots(bucket, (await accessControl(env).status()).clusterId) : [];
  const stored = await within(DEADLINE_MS, ask()).catch((failure: unknown) => {
    warn("snapshots-not-listed", { because: textOf(failure) });
    return null;
  });
  last = { at: Date.now(), stored };
  return stored;
}
