import { chmod, cp } from "node:fs/promises";
import type { Draft, Message, Request } from "@sallyport/csi-wire";
import * as checks from "./checks.ts";
import type { Driver, Settings, VolumeRecord } from "./driver.ts";
import { isConstrained } from "./identity.ts";
import { exhausted, exists, failedPrecondition, invalid, notFound, outOfRange } from "./refusal.ts";

type Source = VolumeRecord["source"];

export const lockOfVolume = (id: string) => `volume ${id}`;
export const lockOfSnapshot = (id: string) => `snapshot ${id}`;

/** The context that requests for a volume have to return. */
export const contextOf = ({ id, source }: VolumeRecord): Record<string, string> => ({
  "csi-dir/directory": id,
  ...(source && { "csi-dir/source": source.id }),
});

export async function existingVolume({ volumes }: Driver, id: string): Promise<VolumeRecord> {
  const volume = await volumes.find(checks.required("volume_id", id));
  if (!volume) throw notFound(`there is no volume ${id.slice(0, 64)}`);
  return volume;
}

export function messageOf(volume: VolumeRecord, { topology }: Settings): Draft<"Volume"> {
  const { id, bytes, source } = volume;
  return {
    capacityBytes: bytes,
    volumeId: id,
    volumeContext: contextOf(volume),
    contentSource:
      source &&
      (source.kind === "volume" ? { volume: { volumeId: source.id } } : { snapshot: { snapshotId: source.id } }),
    accessibleTopology: isConstrained(topology) ? [{ segments: topology }] : [],
  };
}

export async function createVolume(driver: Driver, request: Request<"CreateVolume">): Promise<VolumeRecord> {
  const { locks, volumes, settings } = driver;
  const name = checks.nameOf("name", request.name);
  checks.allSupported(request.volumeCapabilities);
  const range = checks.rangeOf(request.capacityRange);
  checks.mutable(request.mutableParameters);
  const source = sourceOf(request.volumeContentSource);
  const locked = source && (source.kind === "volume" ? lockOfVolume(source.id) : lockOfSnapshot(source.id));
  return locks.with([`volume name ${name}`, ...(locked ? [locked] : [])], async () => {
    const known = await volumes.named(name);
    if (known) {
      if (!isSame(known, range, request.parameters, source))
        throw exists(`volume ${name} exists with another size, content or parameters`);
      await setMode(driver, known);
      return known;
    }
    checkTopology(request.accessibilityRequirements, settings.topology);
    const content = source && (await contentOf(driver, source));
    const bytes = checks.sizeOf(range, content?.bytes ?? 0n);
    await checkRoom(driver, bytes);
    const id = await volumes.idFor(name);
    const { parameters, mutableParameters } = request;
    const maps = { parameters: { ...parameters }, mutableParameters: { ...mutableParameters } };
    const volume = { id, name, bytes: String(bytes), ...maps, source, published: {} };
    await volumes.add(volume, async (data) => {
      if (content) await cp(content.path, data, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    });
    await setMode(driver, volume);
    return volume;
  });
}

export async function deleteVolume(driver: Driver, volumeId: string): Promise<void> {
  const { locks, volumes, mounts } = driver;
  const id = checks.required("volume_id", volumeId);
  await locks.with([lockOfVolume(id)], async () => {
    const volume = await volumes.find(id);
    if (!volume) return;
    const nodes = Object.keys(volume.published);
    if (nodes.length > 0) throw failedPrecondition(`volume ${id} is published on ${nodes.join(", ")}`);
    const used = (await mounts.of(id))[0];
    if (used) throw failedPrecondition(`volume ${id} is ${used.kind} on node ${used.nodeId}`);
    await locks.with([`volume name ${volume.name}`], async () => {
      await mounts.forget(id);
      await volumes.remove(volume);
    });
  });
}

export async function expandVolume(driver: Driver, request: Request<"ControllerExpandVolume">): Promise<VolumeRecord> {
  const { locks, volumes } = driver;
  const id = checks.required("volume_id", request.volumeId);
  if (!request.capacityRange) throw invalid("capacity_range is missing");
  const range = checks.rangeOf(request.capacityRange);
  return locks.with([lockOfVolume(id)], async () => {
    const volume = await existingVolume(driver, id);
    const bytes = BigInt(volume.bytes);
    if (range.most > 0n && bytes > range.most)
      throw outOfRange(`capacity_range: the volume has ${bytes} bytes already`);
    if (range.least <= bytes) return volume;
    await checkRoom(driver, range.least - bytes);
    const larger = { ...volume, bytes: String(range.least) };
    await volumes.replace(larger);
    return larger;
  });
}

/** Sets the given mutable parameters; the others keep their values. */
export async function modifyVolume(driver: Driver, request: Request<"ControllerModifyVolume">): Promise<void> {
  const { locks, volumes } = driver;
  const id = checks.required("volume_id", request.volumeId);
  checks.mutable(request.mutableParameters);
  await locks.with([lockOfVolume(id)], async () => {
    const volume = await existingVolume(driver, id);
    const mutableParameters = { ...volume.mutableParameters, ...request.mutableParameters };
    const modified = { ...volume, mutableParameters };
    await volumes.replace(modified);
    await setMode(driver, modified);
  });
}

/** Applies the parameter `mode`: the permissions of the volume's directory. */
async function setMode({ volumes }: Driver, { id, mutableParameters: { mode } }: VolumeRecord): Promise<void> {
  if (mode !== undefined) await chmod(volumes.data(id), Number.parseInt(mode, 8));
}

export async function validateVolume(
  driver: Driver,
  request: Request<"ValidateVolumeCapabilities">,
): Promise<Draft<"ValidateVolumeCapabilitiesResponse">> {
  const { volumeContext, volumeCapabilities, parameters } = request;
  checks.required("volume_id", request.volumeId);
  if (volumeCapabilities.length === 0) throw invalid("volume_capabilities are missing");
  const volume = await existingVolume(driver, request.volumeId);
  const fault = volumeCapabilities.map(checks.unsupported).find((reason) => reason !== undefined);
  if (fault !== undefined) return { message: fault };
  if (Object.keys(volumeContext).length > 0 && !checks.sameMap(volumeContext, contextOf(volume)))
    return { message: "volume_context is not this volume's" };
  if (Object.keys(parameters).length > 0 && !checks.sameMap(parameters, volume.parameters))
    return { message: "parameters are not this volume's" };
  return driver.faults.now.withoutConfirmed ? {} : { confirmed: { volumeContext, volumeCapabilities, parameters } };
}

/** The bytes that can still be reserved; undefined when unlimited. */
export async function roomOf({ volumes, settings: { capacity } }: Driver): Promise<bigint | undefined> {
  if (capacity === undefined) return undefined;
  let promised = 0n;
  for (const id of await volumes.ids()) promised += BigInt((await volumes.find(id))?.bytes ?? 0);
  return promised < capacity ? capacity - promised : 0n;
}

async function checkRoom(driver: Driver, bytes: bigint): Promise<void> {
  const room = await roomOf(driver);
  if (room !== undefined && bytes > room) throw exhausted(`${bytes} bytes are wanted, and ${room} are left`);
}

function sourceOf(source: Message<"VolumeContentSource"> | null): Source {
  if (!source) return null;
  const { snapshot, volume } = source;
  if (snapshot) return { kind: "snapshot", id: checks.required("snapshot_id", snapshot.snapshotId) };
  if (volume) return { kind: "volume", id: checks.required("volume_id of the source", volume.volumeId) };
  throw invalid("volume_content_source is neither a snapshot nor a volume");
}

async function contentOf({ volumes, snapshots }: Driver, { kind, id }: NonNullable<Source>) {
  const shelf = kind === "volume" ? volumes : snapshots;
  const thing = await shelf.find(id);
  if (!thing) throw notFound(`there is no ${kind} ${id.slice(0, 64)} to copy`);
  return { path: shelf.data(id), bytes: BigInt(thing.bytes) };
}

const isSame = (
  known: VolumeRecord,
  range: checks.Range,
  parameters: Readonly<Record<string, string>>,
  source: Source,
) =>
  checks.fits(BigInt(known.bytes), range) &&
  checks.sameMap(known.parameters, parameters) &&
  known.source?.kind === source?.kind &&
  known.source?.id === source?.id;

/** Volumes are accessible from this machine's topology only. */
export function checkTopology(
  wanted: Message<"TopologyRequirement"> | null,
  topology: Readonly<Record<string, string>>,
): void {
  const requisite = wanted?.requisite ?? [];
  if (isConstrained(topology) && requisite.length > 0 && !requisite.some(({ segments }) => covers(topology, segments)))
    throw exhausted("accessibility_requirements: none of the requisite topologies is this machine's");
}

export const covers = (topology: Readonly<Record<string, string>>, segments: Readonly<Record<string, string>>) =>
  Object.entries(segments).every(([key, value]) => topology[key] === value);
