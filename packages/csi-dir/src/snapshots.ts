import { cp } from "node:fs/promises";
import type { Draft, Request } from "@sallyport/csi-wire";
import * as checks from "./checks.ts";
import type { Driver, SnapshotRecord } from "./driver.ts";
import { type Page, pageOf } from "./pages.ts";
import { exists } from "./refusal.ts";
import { existingVolume, lockOfSnapshot, lockOfVolume } from "./volumes.ts";

export function messageOf({ id, volumeId, bytes, created, readyAt }: SnapshotRecord): Draft<"Snapshot"> {
  return {
    sizeBytes: bytes,
    snapshotId: id,
    sourceVolumeId: volumeId,
    creationTime: { seconds: String(Math.floor(created / 1000)), nanos: (created % 1000) * 1_000_000 },
    readyToUse: Date.now() >= readyAt,
  };
}

export async function createSnapshot(driver: Driver, request: Request<"CreateSnapshot">): Promise<SnapshotRecord> {
  const { locks, volumes, snapshots, faults } = driver;
  const volumeId = checks.required("source_volume_id", request.sourceVolumeId);
  const name = checks.nameOf("name", request.name);
  return locks.with([`snapshot name ${name}`, lockOfVolume(volumeId)], async () => {
    const known = await snapshots.named(name);
    if (known && known.volumeId !== volumeId) throw exists(`snapshot ${name} exists, of volume ${known.volumeId}`);
    if (known) return known;
    const { bytes } = await existingVolume(driver, volumeId);
    const id = await snapshots.idFor(name);
    const created = Date.now();
    const snapshot = { id, name, volumeId, bytes, created, readyAt: created + faults.now.snapshotReadyAfterMs };
    await snapshots.add(snapshot, (data) =>
      cp(volumes.data(volumeId), data, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true }),
    );
    return snapshot;
  });
}

export async function deleteSnapshot({ locks, snapshots }: Driver, snapshotId: string): Promise<void> {
  const id = checks.required("snapshot_id", snapshotId);
  await locks.with([lockOfSnapshot(id)], async () => {
    const snapshot = await snapshots.find(id);
    if (snapshot) await locks.with([`snapshot name ${snapshot.name}`], () => snapshots.remove(snapshot));
  });
}

export async function listSnapshots(
  { snapshots, faults }: Driver,
  request: Request<"ListSnapshots">,
): Promise<Page<SnapshotRecord>> {
  const { snapshotId, sourceVolumeId } = request;
  const isOfSource = ({ volumeId }: SnapshotRecord) => sourceVolumeId === "" || volumeId === sourceVolumeId;
  if (snapshotId === "") return pageOf(snapshots, request, faults.now.surplusEntries, isOfSource);
  const snapshot = await snapshots.find(snapshotId);
  return { entries: snapshot && isOfSource(snapshot) ? [snapshot] : [], nextToken: "" };
}
