import * as z from "zod";
import { HostVolumeRequestBody } from "../../volumes/host/request-body.ts";
import {
  AllocationStub,
  bytes,
  Capabilities,
  createdAndModified,
  index,
  texts,
  timesInNanoseconds,
} from "../../wire/shapes.ts";
import { bare, group, type Operation, type QueryParameters, required, text, word } from "../operation.ts";
import { filter, list, mustPage, namespace, namespaces, prefix, reverse, waiting } from "../parameters.ts";
import { CsiVolumeStub, PLUGIN_FAILS } from "./volumes-csi.ts";

const State = z.enum(["pending", "ready", "unavailable"]);
const stub = {
  CapacityBytes: bytes,
  ...createdAndModified,
  ...timesInNanoseconds,
  ID: z.string(),
  Name: z.string(),
  Namespace: z.string(),
  NodeID: z.string(),
  NodePool: z.string(),
  PluginID: z.string(),
  State,
};
const HostVolumeStub = z.object(stub).meta({ id: "HostVolumeStub", description: "List view of a host volume." });

const volume = {
  ...stub,
  Constraints: z.array(z.object({ LTarget: z.string(), Operand: z.string(), RTarget: z.string() })).optional(),
  HostPath: z.string(),
  Parameters: texts.optional(),
  RequestedCapabilities: Capabilities,
  RequestedCapacityMaxBytes: bytes,
  RequestedCapacityMinBytes: bytes,
};
const HostVolume = z.object(volume).meta({ id: "HostVolume" });
const HostVolumeInUse = z.object({
  ...volume,
  Allocations: z.array(AllocationStub).optional().describe("Those that use it."),
});

const Claim = z
  .object({
    AllocID: z.string(),
    ID: z.string(),
    JobID: z.string(),
    Namespace: z.string(),
    TaskGroupName: z.string(),
    VolumeID: z.string(),
    VolumeName: z.string(),
    ...createdAndModified,
  })
  .meta({ id: "VolumeClaim" });

const hex = "hexadecimal digits, an even number of them";

const written = (intent: "create" | "register"): Operation => ({
  id: `${intent}HostVolume`,
  summary: intent === "create" ? "Create or update a host volume" : "Register or update a host volume",
  description:
    "With an `ID` it changes that volume. `PolicyOverride` overrides rules of policies that may be, and takes `namespace:policy-override`.",
  right: `namespace:host-volume-${intent} or namespace:host-volume-write`,
  method: "put",
  query: namespace,
  body: {
    schema: HostVolumeRequestBody,
    fields: {
      Namespace: "Of a volume that names none.",
      IdempotencyToken: "Requests with the same one are one request.",
    },
    required: ["Volume"],
  },
  answers: bare(
    "The volume, once its node has done its part.",
    z.object({ Index: index, Volume: HostVolume, Warnings: z.string() }),
  ),
  errors: PLUGIN_FAILS,
});

const deleted = (id: string): Operation => ({
  id,
  summary: "Delete a host volume and its data",
  right: "namespace:host-volume-delete or namespace:host-volume-write",
  query: { ...namespace, force: "Also without its node." },
  answers: bare("Deleted.", z.object({ Index: index })),
  errors: PLUGIN_FAILS,
});

const claimDeleted = (id: string): Operation => ({
  id,
  summary: "Delete a task group's claim on a host volume",
  path: { id: "The claim's id." },
  right: "namespace:host-volume-delete or namespace:host-volume-write",
  query: namespace,
  errors: [409],
});

const volumeQuery: QueryParameters = {
  type: required(word("Which kind.", "csi", "host")),
  ...namespaces,
  ...prefix,
  node_id: `Only on nodes whose ids begin with these bytes: ${hex}.`,
  plugin_id: `Only of this plugin, or of those whose ids begin with these bytes: ${hex}.`,
  node_pool: "Only on nodes of this pool; host volumes.",
  ...list,
};

export const hostVolumes = group(
  "Volumes",
  { id: "The volume's whole id." },
  {
    "GET /volumes": {
      id: "listVolumes",
      summary: "List host or CSI volumes",
      right: "namespace:csi-list-volume, namespace:host-volume-read",
      query: volumeQuery,
      answers: bare("Volumes visible to the caller.", z.array(z.union([HostVolumeStub, CsiVolumeStub]))),
    },
    "POST /volume/host/create": written("create"),
    "POST /volume/host/register": written("register"),
    "GET /volume/host/:id": {
      id: "readHostVolume",
      summary: "Read a host volume",
      right: "namespace:host-volume-read",
      query: { ...namespaces, ...waiting },
      answers: bare("The volume.", HostVolumeInUse),
    },
    "DELETE /volume/host/:id": deleted("deleteHostVolumeById"),
    "DELETE /volume/host/:id/delete": deleted("deleteHostVolume"),
    "GET /volumes/claims": {
      id: "listVolumeClaims",
      summary: "List task group claims on sticky host volumes",
      right: "namespace:host-volume-read",
      query: {
        namespace: required(text("The namespace; `*` means all.")),
        claim_id: "Only ids that begin with this.",
        prefix: "The same as `claim_id`.",
        job_id: "Only of this job.",
        task_group: "Only of this task group.",
        volume_name: "Only on volumes of this name.",
        ...mustPage,
        ...filter,
        ...reverse,
        ...waiting,
      },
      answers: bare("The claims.", z.object({ Claims: z.array(Claim), NextToken: z.string() })),
    },
    "DELETE /volumes/claim/:id": claimDeleted("deleteVolumeClaim"),
    "DELETE /volume/claim/:id": claimDeleted("deleteVolumeClaimOld"),
  },
);
