import type { CsiPlugin, CsiUser, CsiVolume, FoundCsiVolume } from "../../contracts/csi-volumes.ts";
import type { MountOptions } from "../../contracts/volume-requests.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { pick } from "../../lib/pick.ts";

/** CSI volumes: the forms of requests, rows, responses and events (docs/internals/wire/volumes.md). */

export const ACCESS_MODES = [
  "single-node-reader-only",
  "single-node-writer",
  "single-node-single-writer",
  "single-node-multi-writer",
  "multi-node-reader-only",
  "multi-node-single-writer",
  "multi-node-multi-writer",
] as const;
export const ATTACHMENT_MODES = ["file-system", "block-device"] as const;

/** The volume's id at the provider. */
export const remoteId = ({ externalId, id }: Pick<CsiVolume, "externalId" | "id">): string => externalId || id;

const nanoseconds = (ms: number): number => ms * 1_000_000;
export const REDACTED = "[REDACTED]";

/** Mount options as stored in the row: flags are sealed elsewhere, the row shows only whether there are any. */
export const withoutFlags = (mount: MountOptions | null): MountOptions | null =>
  mount && { ...mount, MountFlags: mount.MountFlags.length > 0 ? [REDACTED] : [] };

const idsOf = (users: readonly CsiUser[]): Record<string, null> =>
  Object.fromEntries(users.map(({ allocId }) => [allocId, null]));

/**
 * A volume as reads and events show it. Mount flags are redacted, since they may hold secrets. Health is the plugin's
 * current health.
 */
export function csiVolumeJson({ volume, plugin, users, modes }: FoundCsiVolume) {
  const controllerRequired = plugin?.controllerRequired ?? volume.controllerRequired;
  const { mount } = volume;
  return {
    AccessMode: modes?.AccessMode ?? "",
    Allocations: [] as unknown[],
    AttachmentMode: modes?.AttachmentMode ?? "",
    Capacity: volume.capacityBytes,
    CloneID: volume.cloneId,
    Context: volume.context,
    ControllerRequired: controllerRequired,
    ControllersExpected: plugin?.controllersExpected ?? 0,
    ControllersHealthy: plugin?.controllersHealthy ?? 0,
    CreateIndex: volume.createIndex,
    CreateTime: nanoseconds(volume.createTime),
    ExternalID: volume.externalId,
    ID: volume.id,
    ModifyIndex: volume.modifyIndex,
    ModifyTime: nanoseconds(volume.modifyTime),
    MountOptions: mount && { FSType: mount.FSType, MountFlags: mount.MountFlags.length > 0 ? [REDACTED] : null },
    MutableParameters: volume.mutableParameters ?? {},
    Name: volume.name,
    Namespace: volume.namespace,
    NodesExpected: plugin?.nodesExpected ?? 0,
    NodesHealthy: plugin?.nodesHealthy ?? 0,
    Parameters: volume.parameters,
    PluginID: volume.pluginId,
    Provider: volume.provider,
    ProviderVersion: volume.providerVersion,
    ReadAllocs: idsOf(users.filter(({ readOnly }) => readOnly)),
    RequestedCapabilities: volume.capabilities,
    RequestedCapacityMax: volume.capacityMax,
    RequestedCapacityMin: volume.capacityMin,
    RequestedTopologies: volume.topologyRequest,
    ResourceExhausted: null,
    Schedulable: isSchedulable(plugin),
    Secrets: null,
    SnapshotID: volume.snapshotId,
    Topologies: volume.topologies,
    WriteAllocs: idsOf(users.filter(({ readOnly }) => !readOnly)),
  };
}

export const isSchedulable = (plugin: CsiPlugin | null): boolean =>
  plugin !== null && plugin.nodesHealthy > 0 && (!plugin.controllerRequired || plugin.controllersHealthy > 0);

/** An index that is not assigned yet is shown as 0. */
export const shownCsiVolume = (found: FoundCsiVolume) => {
  const shown = csiVolumeJson(found);
  return { ...shown, CreateIndex: shown.CreateIndex ?? 0, ModifyIndex: shown.ModifyIndex ?? shown.CreateIndex ?? 0 };
};
export type ShownCsiVolume = ReturnType<typeof shownCsiVolume>;

/** A volume as lists show it. */
export const csiVolumeStub = (volume: ShownCsiVolume) => ({
  ...pick(volume, "AccessMode", "AttachmentMode", "ControllerRequired", "ControllersExpected", "ControllersHealthy"),
  ...pick(volume, "CreateIndex", "CreateTime"),
  CurrentReaders: Object.keys(volume.ReadAllocs).length,
  CurrentWriters: Object.keys(volume.WriteAllocs).length,
  ...pick(volume, "ExternalID", "ID", "ModifyIndex", "ModifyTime", "Name", "Namespace", "NodesExpected"),
  ...pick(volume, "NodesHealthy", "PluginID", "Provider", "ResourceExhausted", "Schedulable", "Topologies"),
});

const texts = kind.map(kind.string);
const topologies = kind.list(kind.struct({ Segments: texts }));

/**
 * The fields that a filter expression can name. Secrets and mount flags are excluded, so that list access cannot
 * probe them.
 */
export const csiVolumeFields = kind.record<ShownCsiVolume>({
  AccessMode: kind.string,
  AttachmentMode: kind.string,
  Capacity: kind.integer,
  CloneID: kind.string,
  Context: texts,
  ControllerRequired: kind.boolean,
  ControllersExpected: kind.integer,
  ControllersHealthy: kind.integer,
  CreateIndex: kind.integer,
  CreateTime: kind.integer,
  ExternalID: kind.string,
  ID: kind.string,
  ModifyIndex: kind.integer,
  ModifyTime: kind.integer,
  MountOptions: kind.struct({ FSType: kind.string }),
  MutableParameters: texts,
  Name: kind.string,
  Namespace: kind.string,
  NodesExpected: kind.integer,
  NodesHealthy: kind.integer,
  Parameters: texts,
  PluginID: kind.string,
  Provider: kind.string,
  ProviderVersion: kind.string,
  ReadAllocs: kind.map(kind.any),
  RequestedCapabilities: kind.list(kind.struct({ AccessMode: kind.string, AttachmentMode: kind.string })),
  RequestedCapacityMax: kind.integer,
  RequestedCapacityMin: kind.integer,
  RequestedTopologies: kind.struct({ Preferred: topologies, Required: topologies }),
  Schedulable: kind.boolean,
  SnapshotID: kind.string,
  Topologies: topologies,
  WriteAllocs: kind.map(kind.any),
});
