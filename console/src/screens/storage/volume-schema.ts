/** Schemas of volumes from the API document, and the screen's own texts of their fields. */
import csiSchema from "schema:PUT /v1/volume/csi/{id}/create";
import hostSchema from "schema:PUT /v1/volume/host/create";
import type { FieldTexts } from "../../components/schema-form.tsx";
import type { JsonSchema } from "../../lib/schema.ts";

export function schemaOf(kind: "host" | "csi"): JsonSchema {
  if (kind === "host") return hostSchema.properties?.["Volume"] ?? {};
  const bodies = csiSchema.anyOf ?? [csiSchema];
  return bodies.find(({ properties }: JsonSchema) => properties?.["Volumes"])?.properties?.["Volumes"]?.items ?? {};
}

/** Fields that the service sets, and those with inputs of their own. */
const OWN = [
  "ID",
  "Name",
  "Namespace",
  "NodeID",
  "RequestedCapabilities",
  "Allocations",
  "State",
  "CapacityBytes",
  "RequestedCapacityMin",
  "RequestedCapacityMax",
  "RequestedCapacityMinBytes",
  "RequestedCapacityMaxBytes",
  "CreateIndex",
  "CreateTime",
  "ModifyIndex",
  "ModifyTime",
  "AccessMode",
  "AttachmentMode",
  "Capacity",
  "ControllerRequired",
  "ControllersExpected",
  "ControllersHealthy",
  "NodesExpected",
  "NodesHealthy",
  "Provider",
  "ProviderVersion",
  "ReadAllocs",
  "WriteAllocs",
  "ResourceExhausted",
  "Schedulable",
  "Topologies",
];

export const HIDDEN = {
  host: { create: [...OWN, "HostPath"], register: [...OWN, "PluginID", "NodePool", "Constraints"] },
  csi: {
    create: [...OWN, "PluginID", "ExternalID", "Context"],
    register: [...OWN, "PluginID", "CloneID", "SnapshotID", "RequestedTopologies"],
  },
} as const;

export const ADVANCED = [
  "NodePool",
  "Constraints",
  "MountOptions",
  "RequestedTopologies",
  "CloneID",
  "SnapshotID",
  "Context",
];

export const TEXTS: Readonly<Record<"host" | "csi", Readonly<Record<string, FieldTexts>>>> = {
  host: {
    PluginID: { label: "Plugin", hint: "mkdir is built in: a directory on the node." },
    HostPath: {
      label: "Path on the node",
      hint: "A directory that exists, below one that the agent's configuration allows (hostVolumes.registerRoots).",
      placeholder: "/srv/data",
    },
    Parameters: { hint: "Given to the plugin. mkdir takes mode, uid and gid." },
    NodePool: { label: "Node pool", hint: "Only nodes of this pool; left empty, all." },
    Constraints: { label: "Constraints" },
  },
  csi: {
    ExternalID: { label: "External ID", hint: "By which the provider knows the volume; left empty, the ID." },
    Parameters: { hint: "Given to the plugin when it makes the volume." },
    Secrets: { hint: "Given to the plugin. Kept sealed, and never shown again.", isSecret: true },
    MountOptions: { label: "Mount options" },
    CloneID: { label: "Clone of", hint: "External ID of the volume to copy." },
    SnapshotID: { label: "From snapshot", hint: "ID of the snapshot to restore." },
    RequestedTopologies: { label: "Topologies" },
  },
};
