import { lstat, mkdir, readdir, readlink, rm, rmdir, symlink } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { ACCESS_MODE, type Draft, NODE_RPC, type Request, USAGE_UNIT } from "@sallyport/csi-wire";
import type { Calls } from "./calls.ts";
import * as checks from "./checks.ts";
import type { Driver, VolumeRecord } from "./driver.ts";
import { unlessMissing } from "./files.ts";
import { isConstrained } from "./identity.ts";
import type { Mount } from "./mounts.ts";
import { publishContextOf } from "./publication.ts";
import { exists, failedPrecondition, invalid, notFound } from "./refusal.ts";
import { contextOf, existingVolume, lockOfVolume } from "./volumes.ts";

const OFFERED = [
  NODE_RPC.stageUnstageVolume,
  NODE_RPC.getVolumeStats,
  NODE_RPC.expandVolume,
  NODE_RPC.volumeCondition,
  NODE_RPC.singleNodeMultiWriter,
] as const;

/**
 * The Node service. Staging records that a volume is on the node; publishing creates a symbolic link to its directory
 * at the target path. It needs no root privileges.
 */
export const nodeCalls = (driver: Driver): Calls<"Node"> => {
  const { locks, mounts, settings } = driver;
  const { nodeId } = settings;

  return {
    NodeGetInfo: async () => ({
      nodeId,
      maxVolumesPerNode: String(settings.maxVolumesPerNode),
      accessibleTopology: isConstrained(settings.topology) ? { segments: settings.topology } : null,
    }),

    NodeGetCapabilities: async () => {
      const { withoutNodeRpcs } = driver.faults.now;
      return {
        capabilities: OFFERED.filter((type) => !withoutNodeRpcs.includes(type)).map((type) => ({ rpc: { type } })),
      };
    },

    NodeStageVolume: async (request) => {
      const id = checks.required("volume_id", request.volumeId);
      const path = pathOf("staging_target_path", request.stagingTargetPath);
      const mode = checks.supported(request.volumeCapability);
      await locks.with([lockOfVolume(id)], async () => {
        checkContexts(driver, await existingVolume(driver, id), request);
        const known = await mounts.find(id, nodeId, path);
        if (known && known.mode !== mode) throw exists(`volume ${id} is staged there with another access`);
        await mkdir(path, { recursive: true });
        if (!known) await mounts.put({ kind: "staged", volumeId: id, nodeId, path, readonly: false, mode });
      });
      return {};
    },

    NodeUnstageVolume: async (request) => {
      const id = checks.required("volume_id", request.volumeId);
      const path = pathOf("staging_target_path", request.stagingTargetPath);
      await locks.with([lockOfVolume(id)], async () => {
        checkId(driver, id);
        const here = (await mounts.of(id)).filter((mount) => mount.nodeId === nodeId);
        const published = here.find(({ kind }) => kind === "published");
        if (published) throw failedPrecondition(`volume ${id} is published at ${published.path}`);
        for (const mount of here) if (mount.path === path) await mounts.remove(mount);
      });
      return {};
    },

    NodePublishVolume: async (request) => {
      await publish(driver, request);
      return {};
    },

    NodeUnpublishVolume: async (request) => {
      const id = checks.required("volume_id", request.volumeId);
      const path = pathOf("target_path", request.targetPath);
      await locks.with([lockOfVolume(id)], async () => {
        // The controller may have detached the volume from a node that was away, and deleted it.
        checkId(driver, id);
        await unlink(path, driver.volumes.data(id));
        const known = await mounts.find(id, nodeId, path);
        if (known) await mounts.remove(known);
      });
      return {};
    },

    NodeGetVolumeStats: async (request) => {
      const id = checks.required("volume_id", request.volumeId);
      const path = checks.required("volume_path", request.volumePath);
      const volume = await existingVolume(driver, id);
      const mount = await mounts.find(id, nodeId, path);
      if (!mount || (mount.kind === "published" && !(await unlessMissing(lstat(path)))))
        throw notFound(`volume ${id} is not at volume_path`);
      return statsOf(volume, driver.volumes.data(id));
    },

    NodeExpandVolume: async (request) => {
      const id = checks.required("volume_id", request.volumeId);
      const path = checks.required("volume_path", request.volumePath);
      checks.rangeOf(request.capacityRange);
      return locks.with([lockOfVolume(id)], async () => {
        const volume = await existingVolume(driver, id);
        if (!(await mounts.find(id, nodeId, path))) throw notFound(`volume ${id} is not at volume_path`);
        return { capacityBytes: volume.bytes };
      });
    },
  };
};

async function publish(driver: Driver, request: Request<"NodePublishVolume">): Promise<void> {
  const { locks, mounts, volumes, settings } = driver;
  const { nodeId } = settings;
  const id = checks.required("volume_id", request.volumeId);
  const path = pathOf("target_path", request.targetPath);
  const mode = checks.supported(request.volumeCapability);
  const { readonly, stagingTargetPath } = request;
  await locks.with([lockOfVolume(id)], async () => {
    checkContexts(driver, await existingVolume(driver, id), request);
    if (stagingTargetPath === "") throw failedPrecondition("staging_target_path is missing");
    if (!(await mounts.find(id, nodeId, stagingTargetPath)))
      throw failedPrecondition(`volume ${id} is not staged there`);
    const known = await mounts.find(id, nodeId, path);
    if (known && (known.kind !== "published" || known.readonly !== readonly || known.mode !== mode))
      throw exists(`volume ${id} is at target_path with another access`);
    if (mode === ACCESS_MODE.singleNodeSingleWriter) await checkSingleTarget(driver, id, path);
    const mount: Mount = { kind: "published", volumeId: id, nodeId, path, readonly, mode };
    if (!known) await mounts.put(mount);
    await link(path, volumes.data(id));
  });
}

/** @throws NOT_FOUND for an id that no volume of this driver had */
function checkId({ volumes }: Driver, id: string): void {
  if (!volumes.isId(id)) throw notFound(`there is no volume ${id.slice(0, 64)}`);
}

/** A single-writer volume has at most one target on its node. */
async function checkSingleTarget({ mounts, settings }: Driver, id: string, path: string): Promise<void> {
  const here = (await mounts.of(id)).filter(({ kind, nodeId }) => kind === "published" && nodeId === settings.nodeId);
  const other = here.find((mount) => mount.path !== path);
  if (other) throw failedPrecondition(`volume ${id} has a single writer and is published at ${other.path}`);
}

function pathOf(field: string, path: string): string {
  if (!isAbsolute(checks.required(field, path))) throw invalid(`${field} is not an absolute path`);
  return path;
}

interface Contexts {
  readonly volumeContext: Readonly<Record<string, string>>;
  readonly publishContext: Readonly<Record<string, string>>;
}

function checkContexts({ settings }: Driver, volume: VolumeRecord, given: Contexts): void {
  checks.checkContext("volume_context", given.volumeContext, contextOf(volume));
  checks.checkContext("publish_context", given.publishContext, publishContextOf(settings.nodeId));
}

/** Creates the link; an empty directory in its place is removed, since some callers create the target. */
async function link(path: string, data: string): Promise<void> {
  const there = await unlessMissing(lstat(path));
  if (there?.isSymbolicLink() && (await readlink(path)) === data) return;
  if (there && !(there.isDirectory() && (await readdir(path)).length === 0))
    throw failedPrecondition("something else is at target_path");
  if (there) await rmdir(path);
  await mkdir(dirname(path), { recursive: true });
  await symlink(data, path);
}

async function unlink(path: string, data: string): Promise<void> {
  const there = await unlessMissing(lstat(path));
  if (!there) return;
  if (!there.isSymbolicLink() || (await readlink(path)) !== data)
    throw failedPrecondition("something else is at target_path");
  await rm(path);
}

async function statsOf(volume: VolumeRecord, data: string): Promise<Draft<"NodeGetVolumeStatsResponse">> {
  const there = await unlessMissing(lstat(data));
  if (!there) return { usage: [], volumeCondition: { abnormal: true, message: "its directory is gone" } };
  const { bytes, entries } = await usageOf(data);
  const total = BigInt(volume.bytes);
  const used = BigInt(bytes);
  return {
    usage: [
      {
        unit: USAGE_UNIT.bytes,
        total: String(total),
        used: String(used),
        available: String(used < total ? total - used : 0n),
      },
      { unit: USAGE_UNIT.inodes, used: String(entries) },
    ],
    volumeCondition: { abnormal: false, message: "" },
  };
}

async function usageOf(directory: string): Promise<{ bytes: number; entries: number }> {
  let [bytes, entries] = [0, 0];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    entries++;
    const found = await unlessMissing(lstat(join(entry.parentPath, entry.name)));
    if (found?.isFile()) bytes += found.size;
  }
  return { bytes, entries };
}
