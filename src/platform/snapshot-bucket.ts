import { parseCron } from "../lib/cron.ts";
import { settings } from "./settings.ts";

/**
 * Snapshots in the bucket `SNAPSHOT_BUCKET`, as `<cluster id>/sallyport-20261125T020000Z.snapshot`. The schedule is in
 * the names, so a restart neither skips nor repeats one. Each deployment has a folder: a new deployment, into which a
 * snapshot is restored, must not prune those of the lost one. A listing costs one call for 1 000 objects.
 */

export interface StoredSnapshot {
  /** Key in the bucket. */
  readonly name: string;
  /** Begin of the snapshot, ms since 1970. */
  readonly taken: number;
  readonly bytes: number;
}

export interface SnapshotSchedule {
  /** Undefined when no bucket is bound. */
  readonly bucket: R2Bucket | undefined;
  readonly keep: number;
  /** When the next snapshot is due; 0 without any before. @param newest begin of the newest one */
  nextDue(newest: number | undefined): number;
}

/** The schedule of the deployment; null without `SNAPSHOT_CRON`. */
export function snapshotSchedule(env: Env): SnapshotSchedule | null {
  const { SNAPSHOT_CRON: text, SNAPSHOT_KEEP: keep } = settings(env);
  const cron = text ? parseCron(text) : null;
  if (!cron) return null;
  return {
    bucket: env.SNAPSHOT_BUCKET,
    keep,
    nextDue: (newest) => (newest === undefined ? 0 : (cron.after(newest) ?? Number.POSITIVE_INFINITY)),
  };
}

const NAME = /^[^/]+\/sallyport-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.snapshot$/;

/** @param cluster id of the deployment @param taken ms since 1970 */
export const snapshotName = (cluster: string, taken: number): string =>
  `${folderOf(cluster)}sallyport-${new Date(taken)
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replace(/[-:]/g, "")}.snapshot`;

const folderOf = (cluster: string): string => `${cluster}/`;

/** Snapshots of one deployment, or of all, the oldest first. Objects with other names are ignored. */
export async function storedSnapshots(bucket: R2Bucket, cluster: string | null = null): Promise<StoredSnapshot[]> {
  const found: StoredSnapshot[] = [];
  const prefix = cluster === null ? {} : { prefix: folderOf(cluster) };
  for (let cursor: string | undefined, more = true; more; ) {
    const page: R2Objects = await bucket.list({ ...prefix, ...(cursor !== undefined && { cursor }) });
    for (const { key, size } of page.objects) {
      const [, year, month, day, hour, minute, second] = NAME.exec(key) ?? [];
      if (year === undefined) continue;
      const taken = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
      found.push({ name: key, taken, bytes: size });
    }
    more = page.truncated;
    cursor = page.truncated ? page.cursor : undefined;
  }
  return found.sort((a, b) => a.taken - b.taken);
}
