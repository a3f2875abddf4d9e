import type { Request } from "@sallyport/csi-wire";
import * as checks from "./checks.ts";
import type { Driver } from "./driver.ts";
import { exhausted, exists, failedPrecondition, notFound } from "./refusal.ts";
import { contextOf, existingVolume, lockOfVolume } from "./volumes.ts";

/** The context that stage and publish requests have to return. */
export const publishContextOf = (nodeId: string) => ({ "csi-dir/node": nodeId });

/** Attaches a volume to a node. */
export async function publishVolume(
  driver: Driver,
  request: Request<"ControllerPublishVolume">,
): Promise<Record<string, string>> {
  const { locks, nodes, volumes } = driver;
  const { readonly } = request;
  const id = checks.required("volume_id", request.volumeId);
  const nodeId = checks.required("node_id", request.nodeId);
  const mode = checks.supported(request.volumeCapability);
  return locks.with([lockOfVolume(id)], async () => {
    const volume = await existingVolume(driver, id);
    checks.checkContext("volume_context", request.volumeContext, contextOf(volume));
    if (!(await nodes.has(nodeId))) throw notFound(`there is no node ${nodeId.slice(0, 64)}`);
    const known = volume.published[nodeId];
    if (known && (known.readonly !== readonly || known.mode !== mode))
      throw exists(`volume ${id} is published on ${nodeId} with another access`);
    if (known) return publishContextOf(nodeId);
    const others = Object.entries(volume.published);
    const blocking = others.find(([, other]) => !checks.isForManyNodes(mode) || !checks.isForManyNodes(other.mode));
    if (blocking) throw failedPrecondition(`volume ${id} is published on ${blocking[0]}`);
    await checkRoomOn(driver, nodeId);
    await volumes.replace({ ...volume, published: { ...volume.published, [nodeId]: { readonly, mode } } });
    return publishContextOf(nodeId);
  });
}

/**
 * Detaches a volume from one node or from all, including its remaining mounts: a node may have disappeared without
 * unpublishing.
 */
export async function unpublishVolume(driver: Driver, request: Request<"ControllerUnpublishVolume">): Promise<void> {
  const { locks, mounts, volumes } = driver;
  const { nodeId } = request;
  const id = checks.required("volume_id", request.volumeId);
  await locks.with([lockOfVolume(id)], async () => {
    const volume = await volumes.find(id);
    if (!volume) return;
    const stays = (node: string) => nodeId !== "" && node !== nodeId;
    for (const mount of await mounts.of(id)) if (!stays(mount.nodeId)) await mounts.remove(mount);
    const left = Object.entries(volume.published).filter(([node]) => stays(node));
    if (left.length < Object.keys(volume.published).length)
      await volumes.replace({ ...volume, published: Object.fromEntries(left) });
  });
}

async function checkRoomOn({ volumes, settings: { maxVolumesPerNode: most } }: Driver, nodeId: string): Promise<void> {
  if (most === 0) return;
  let there = 0;
  for (const id of await volumes.ids()) if ((await volumes.find(id))?.published[nodeId]) there++;
  if (there >= most) throw exhausted(`node ${nodeId} has ${most} volumes, which is as many as it takes`);
}
