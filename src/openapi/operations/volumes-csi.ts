import * as z from "zod";
import { SnapshotBody } from "../../routes/csi-snapshots.ts";
import { CsiRequestBody, CsiVolumeBody } from "../../volumes/csi/request-body.ts";
import { Instance } from "../../wire/csi.ts";
import {
  AllocationStub,
  answerMeta,
  bytes,
  Capabilities,
  createdAndModified,
  nanoseconds,
  texts,
  timeOrNull,
  timesInNanoseconds,
} from "../../wire/shapes.ts";
import { bare, group, type Operation, required, word } from "../operation.ts";
import { csiSecrets, mustPage, namespace, namespaces, page, prefix, waiting } from "../parameters.ts";

/** Error statuses of plugin operations. */
export const PLUGIN_FAILS = [409, 501, 502, 503, 504, 507];

const Topology = z.object({ Segments: texts });
const Topologies = z.array(Topology);

const common = {
  AccessMode: z.string(),
  AttachmentMode: z.string(),
  ControllerRequired: z.boolean(),
  ControllersExpected: z.int(),
  ControllersHealthy: z.int(),
  ...createdAndModified,
  CreateTime: nanoseconds,
  ExternalID: z.string(),
  ID: z.string(),
  ModifyTime: nanoseconds,
  Name: z.string(),
  Namespace: z.string(),
  NodesExpected: z.int(),
  NodesHealthy: z.int(),
  PluginID: z.string(),
  Provider: z.string(),
  ResourceExhausted: z.null(),
  Schedulable: z.boolean(),
  Topologies,
};

export const CsiVolumeStub = z
  .object({ ...common, CurrentReaders: z.int(), CurrentWriters: z.int() })
  .meta({ id: "CsiVolumeStub", description: "List view of a CSI volume." });

const users = z.record(z.string(), z.null()).describe("Ids of allocations.");
const CsiVolume = z
  .object({
    ...common,
    Allocations: z.array(AllocationStub),
    Capacity: bytes,
    CloneID: z.string(),
    Context: texts,
    MountOptions: z.object({ FSType: z.string(), MountFlags: z.array(z.literal("[REDACTED]")).nullable() }).nullable(),
    MutableParameters: texts.describe("As last set here; others are the plugin's."),
    Parameters: texts,
    ProviderVersion: z.string(),
    ReadAllocs: users,
    RequestedCapabilities: Capabilities,
    RequestedCapacityMax: bytes,
    RequestedCapacityMin: bytes,
    RequestedTopologies: z.object({ Required: Topologies.nullable(), Preferred: Topologies.nullable() }).nullable(),
    Secrets: z.null(),
    SnapshotID: z.string(),
    WriteAllocs: users,
  })
  .meta({ id: "CsiVolume" });

const Written = z.object({ ...answerMeta, Volumes: z.array(CsiVolume), Warnings: z.string() });

const CsiOperation = z
  .object({
    CreateTime: nanoseconds,
    EndTime: nanoseconds.nullable(),
    Error: z.string(),
    ID: z.string(),
    Method: z.string(),
    NodeID: z.string(),
    NodesAsked: z.array(z.string()),
    PluginID: z.string(),
    State: z.enum(["queued", "running", "unknown", "done", "failed"]),
  })
  .meta({ id: "CsiOperation" });

const CsiClaim = z
  .object({
    AccessMode: z.string(),
    AllocID: z.string(),
    AttachmentMode: z.string(),
    Attempts: z.int(),
    CreateTime: nanoseconds,
    ExpansionOwed: z.boolean().describe("The file system on the node has yet to grow."),
    ExternalNodeID: z.string(),
    LastError: z.string().describe("Why the last try failed; empty when it did not."),
    Mode: z.string(),
    ModifyTime: nanoseconds,
    NextRetry: timeOrNull,
    NodeID: z.string(),
    OperationID: z.string(),
    Path: z.string(),
    State: z.string(),
    Problem: z.string().describe("Why its node cannot use the volume as it should; empty when it can."),
  })
  .meta({ id: "CsiClaim", description: "A claim of an allocation on a CSI volume." });

const ExternalVolume = z.object({
  CapacityBytes: bytes,
  CloneID: z.string(),
  ExternalID: z.string(),
  IsAbnormal: z.boolean(),
  PublishedExternalNodeIDs: z.array(z.string()),
  SnapshotID: z.string(),
  Status: z.string(),
  VolumeContext: texts,
});

const Snapshot = z
  .object({
    CreateTime: z.int().describe("Seconds since 1970."),
    ExternalSourceVolumeID: z.string(),
    ID: z.string(),
    IsReady: z.boolean(),
    Parameters: z.null(),
    Secrets: z.null(),
    SizeBytes: bytes,
    Name: z.string(),
    PluginID: z.string(),
    SourceVolumeID: z.string(),
  })
  .meta({ id: "CsiSnapshot" });

const pluginStub = {
  ControllerRequired: z.boolean(),
  ControllersExpected: z.int(),
  ControllersHealthy: z.int(),
  ...createdAndModified,
  ID: z.string(),
  NodesExpected: z.int(),
  NodesHealthy: z.int(),
  Provider: z.string(),
};
const Plugin = z.object({
  ...pluginStub,
  Allocations: z.array(AllocationStub).nullable(),
  ControllerJobs: z.object({}),
  Controllers: z.record(z.string(), Instance),
  NodeJobs: z.object({}),
  Nodes: z.record(z.string(), Instance),
  ...timesInNanoseconds,
  Version: z.string(),
});

const LIST = "namespace:csi-list-volume";
const READ = "namespace:csi-read-volume";
const WRITE = "namespace:csi-write-volume";

const written = (id: string, summary: string, description: string): Operation => ({
  id,
  summary,
  description,
  right: WRITE,
  method: "put",
  query: namespace,
  body: { schema: z.union([CsiRequestBody, CsiVolumeBody]) },
  answers: bare("The volumes.", Written),
  errors: PLUGIN_FAILS,
});
const OVERRIDE =
  "The body is one volume, or `Volumes`. `PolicyOverride` overrides rules of policies that may be, and takes `namespace:policy-override`.";
const registered = `It must exist at its provider; \`NodeID\` names the node that validates it. ${OVERRIDE}`;

const deleted = (id: string, summary: string, more: Partial<Operation> = {}): Operation => ({
  id,
  summary,
  right: WRITE,
  query: namespace,
  errors: PLUGIN_FAILS,
  ...more,
});

const pluginId = "The plugin.";

export const csiVolumes = group(
  "Volumes",
  { id: "The volume's id." },
  {
    "POST /volumes": written("registerCsiVolumes", "Register or update CSI volumes", registered),
    "POST /volume/csi/:id": written("registerCsiVolume", "Register or update a CSI volume", registered),
    "POST /volume/csi/:id/create": written(
      "createCsiVolume",
      "Create or update a CSI volume at its provider",
      OVERRIDE,
    ),
    "GET /volume/csi/:id": {
      id: "readCsiVolume",
      summary: "Read a CSI volume",
      right: READ,
      query: { ...namespace, ...waiting },
      answers: bare("The volume, with the current health of its plugin.", CsiVolume),
    },
    "GET /volume/csi/:id/claims": {
      id: "listCsiClaims",
      summary: "List claims of a CSI volume",
      right: READ,
      query: { ...namespace, ...page, ...waiting },
      answers: bare("The claims.", z.array(CsiClaim)),
    },
    "GET /volume/csi/:id/operations": {
      id: "listCsiOperations",
      summary: "List recent operations of a CSI volume",
      right: READ,
      query: { ...namespace, ...page },
      answers: bare("The operations.", z.array(CsiOperation)),
    },
    "DELETE /volume/csi/:id": deleted("deregisterCsiVolume", "Deregister a CSI volume", {
      query: { ...namespace, force: "Drops claims of allocations that have ended." },
    }),
    "DELETE /volume/csi/:id/delete": deleted("deleteCsiVolume", "Delete a CSI volume at its provider", {
      headers: csiSecrets,
    }),
    "DELETE /volume/csi/:id/detach": deleted("detachCsiVolume", "Detach a CSI volume from a node", {
      query: { ...namespace, node: "The node's id." },
    }),
    "GET /volumes/external": {
      id: "listExternalVolumes",
      summary: "List external volumes of a CSI plugin",
      right: LIST,
      query: { plugin_id: pluginId, ...namespaces, ...mustPage, ...waiting },
      answers: bare("The volumes.", z.object({ ...answerMeta, Index: z.literal(0), Volumes: z.array(ExternalVolume) })),
      errors: PLUGIN_FAILS,
    },
    "GET /volumes/snapshot": {
      id: "listSnapshots",
      summary: "List snapshots of a CSI plugin",
      right: LIST,
      query: { plugin_id: pluginId, ...namespaces, ...mustPage, ...waiting },
      headers: csiSecrets,
      answers: bare("The snapshots.", z.object({ ...answerMeta, Index: z.literal(0), Snapshots: z.array(Snapshot) })),
      errors: PLUGIN_FAILS,
    },
    "POST /volumes/snapshot": {
      id: "createSnapshots",
      summary: "Create CSI snapshots",
      right: WRITE,
      query: namespace,
      headers: csiSecrets,
      body: {
        schema: z.union([
          z.object({
            Namespace: z.string().max(128).describe("Unless the query names one.").optional(),
            Snapshots: z.array(SnapshotBody).max(50),
          }),
          SnapshotBody,
        ]),
      },
      answers: bare(
        "The snapshots; null when none were requested.",
        z.object({ ...answerMeta, Index: z.literal(0), Snapshots: z.array(Snapshot).nullable() }),
      ),
      errors: PLUGIN_FAILS,
    },
    "DELETE /volumes/snapshot": {
      id: "deleteSnapshot",
      summary: "Delete a CSI snapshot",
      right: WRITE,
      query: { plugin_id: pluginId, snapshot_id: "The snapshot's id at the provider.", ...namespace },
      headers: csiSecrets,
      errors: PLUGIN_FAILS,
    },
    "GET /plugins": {
      id: "listPlugins",
      summary: "List CSI plugins",
      right: "plugin:list",
      query: { type: required(word("Which kind.", "csi")), ...prefix, ...waiting },
      answers: bare("The plugins.", z.array(z.object(pluginStub))),
    },
    "GET /plugin/csi/:id": {
      id: "readPlugin",
      summary: "Read a CSI plugin and its instances",
      path: { id: "The plugin's id." },
      right: "plugin:read",
      query: { ...namespaces, ...waiting },
      answers: bare("The plugin.", Plugin),
    },
  },
);
