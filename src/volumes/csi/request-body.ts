import * as z from "zod";
import type { CsiRequest, Topology } from "../../contracts/csi-volumes.ts";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { type Guesses, respelt, spelling } from "../host/spelling.ts";
import { MAX_SECRET_VALUE, MAX_SECRETS } from "./secrets.ts";
import { ACCESS_MODES, ATTACHMENT_MODES } from "./volume-views.ts";

/** The body of register and create after spelling and type checks; `requestOf` validates the values. */
export interface CsiBody {
  readonly volumes: readonly CsiFields[];
  readonly policyOverride: boolean;
  /** The namespace named beside the volumes; empty = none. */
  readonly namespace: string;
  readonly warnings: readonly string[];
}

/** Each volume is a plugin operation. */
const MAX_VOLUMES = 50;
const MAX_ENTRIES = 128;
/** The refusal of a body without a volume, as upstream says it. */
export const NO_VOLUME = "missing volume definition";

const text = (most: number) => z.string().max(most);
const line = (most: number) => text(most).regex(/^[^\p{Cc}\p{Zl}\p{Zp}\p{Cs}]*$/u, "must not hold control characters");
const bytes = () => z.int().nonnegative();
const texts = (longest = 4096, most = MAX_ENTRIES) =>
  z.record(text(256).min(1), text(longest)).refine((map) => Object.keys(map).length <= most, `at most ${most} entries`);

/** Secret names also appear in a header, split at commas and equals signs (docs/internals/wire/volumes.md). */
const secrets = z
  .record(
    z.string().regex(/^[A-Za-z0-9._-]{1,128}$/, "names are letters, digits, '-', '_' and '.'"),
    text(MAX_SECRET_VALUE),
  )
  .refine((map) => Object.keys(map).length <= MAX_SECRETS, `at most ${MAX_SECRETS} entries`);

const Segments = z.strictObject({ Segments: texts(256, 64).optional() });
const topologies = z.array(Segments).max(MAX_ENTRIES);
const Topologies = z.strictObject({ Required: topologies.optional(), Preferred: topologies.optional() });
const CapabilityBody = z.strictObject({ AccessMode: text(64).default(""), AttachmentMode: text(64).default("") });
const Mount = z.strictObject({
  FSType: text(128).default(""),
  MountFlags: z.array(text(4096)).max(MAX_ENTRIES).default([]),
});

const fields = {
  ID: line(128),
  Name: line(256),
  Namespace: text(128),
  NodeID: text(64),
  PluginID: line(128),
  ExternalID: line(1024),
  RequestedCapabilities: z.array(CapabilityBody).max(MAX_ENTRIES),
  MountOptions: Mount,
  Secrets: secrets,
  Parameters: texts(),
  MutableParameters: texts(),
  Context: texts(),
  RequestedTopologies: Topologies,
  RequestedCapacityMin: bytes(),
  RequestedCapacityMax: bytes(),
  CloneID: line(1024),
  SnapshotID: line(1024),
};

/** Server-owned fields are accepted and ignored, so that a read's response can be sent back. */
const ours = z.unknown().optional();
const OURS = [
  "AccessMode",
  "Allocations",
  "AttachmentMode",
  "Capacity",
  "ControllerRequired",
  "ControllersExpected",
  "ControllersHealthy",
  "CreateIndex",
  "CreateTime",
  "ModifyIndex",
  "ModifyTime",
  "NodesExpected",
  "NodesHealthy",
  "Provider",
  "ProviderVersion",
  "ReadAllocs",
  "ResourceExhausted",
  "Schedulable",
  "Topologies",
  "WriteAllocs",
];

/** One volume of a body, after normalization. */
export const CsiVolumeBody = z.strictObject({
  ...Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, (field as z.ZodType).optional()])),
  ...Object.fromEntries(OURS.map((name) => [name, ours])),
});
export type CsiFields = { readonly [Name in keyof typeof fields]?: z.output<(typeof fields)[Name]> };

/** The body after normalization. */
export const CsiRequestBody = z.strictObject({
  Volumes: z.array(CsiVolumeBody).max(MAX_VOLUMES),
  PolicyOverride: z.boolean().default(false),
  Namespace: text(128).default(""),
  // Header and query take precedence; the volume id makes requests idempotent.
  Region: ours,
  AuthToken: ours,
  SecretID: ours,
  IdempotencyToken: ours,
});

const segments = spelling(Segments);
const volumeSpelling = spelling(
  CsiVolumeBody,
  {
    RequestedCapabilities: spelling(CapabilityBody),
    MountOptions: spelling(Mount),
    RequestedTopologies: spelling(Topologies, { Required: segments, Preferred: segments }),
  },
  { capacitymin: "RequestedCapacityMin", capacitymax: "RequestedCapacityMax" },
);
const bodySpelling = spelling(CsiRequestBody, { Volumes: volumeSpelling });

/** Parses a body by spelling and types: a list of volumes, or a single volume. @throws ZodError */
export function parseBody(given: Readonly<Record<string, unknown>>): Result<CsiBody> {
  const isListed = Object.keys(given).some((name) => name.toLowerCase() === "volumes");
  const guesses: Guesses = { warnings: [], faults: [] };
  const wrapped = isListed || Object.keys(given).length === 0 ? given : { Volumes: [given] };
  const respelled = respelt(wrapped, bodySpelling, "", guesses);
  if (guesses.faults.length > 0) return refuse("invalid", guesses.faults.join("; "));
  const volumes = isPlainObject(respelled) ? (respelled["Volumes"] ?? []) : [];
  if (Array.isArray(volumes) && volumes.length === 0) return refuse("invalid", NO_VOLUME);
  const body = CsiRequestBody.parse(respelled);
  return ok({
    volumes: body.Volumes as CsiFields[],
    policyOverride: body.PolicyOverride,
    namespace: body.Namespace,
    warnings: guesses.warnings,
  });
}

const shownTopologies = (given: readonly z.output<typeof Segments>[] | undefined): Topology[] | null =>
  given ? given.map(({ Segments: each }) => ({ Segments: each ?? {} })) : null;

/** Validates a volume's values (docs/internals/wire/volumes.md). @returns the request, or all faults */
export function requestOf(volume: CsiFields, namespace: string): Result<CsiRequest> {
  const faults = faultsOf(volume);
  if (faults.length > 0) return refuse("invalid", `validation: ${faults.join(", ")}`);
  const { RequestedTopologies: asked, MountOptions: mount } = volume;
  return ok({
    id: volume.ID ?? "",
    namespace,
    name: volume.Name ?? "",
    pluginId: volume.PluginID ?? "",
    externalId: volume.ExternalID ?? "",
    capabilities: volume.RequestedCapabilities ?? [],
    mount: mount ?? null,
    topologyRequest: asked
      ? { Required: shownTopologies(asked.Required), Preferred: shownTopologies(asked.Preferred) }
      : null,
    parameters: volume.Parameters ?? {},
    mutableParameters: volume.MutableParameters ?? {},
    context: volume.Context ?? {},
    capacityMin: volume.RequestedCapacityMin ?? 0,
    capacityMax: volume.RequestedCapacityMax ?? 0,
    cloneId: volume.CloneID ?? "",
    snapshotId: volume.SnapshotID ?? "",
    secrets: volume.Secrets ?? null,
  });
}

function faultsOf(volume: CsiFields): string[] {
  const faults: string[] = [];
  if (!volume.ID) faults.push("missing volume id");
  if (!volume.PluginID) faults.push("missing plugin id");
  if (volume.SnapshotID && volume.CloneID) faults.push("only one of snapshot_id and clone_id is allowed");
  if (!volume.RequestedCapabilities?.length) faults.push("must include at least one capability block");
  for (const { AccessMode, AttachmentMode } of volume.RequestedCapabilities ?? []) {
    if (!ATTACHMENT_MODES.some((mode) => mode === AttachmentMode))
      faults.push(`unknown volume attachment mode: ${AttachmentMode}`);
    if (!ACCESS_MODES.some((mode) => mode === AccessMode)) faults.push(`unknown volume access mode: ${AccessMode}`);
  }
  const lacks = (given: readonly z.output<typeof Segments>[] | undefined) =>
    given?.some(({ Segments: each }) => Object.keys(each ?? {}).length === 0);
  if (lacks(volume.RequestedTopologies?.Required)) faults.push("required topology is missing segments field");
  if (lacks(volume.RequestedTopologies?.Preferred)) faults.push("preferred topology is missing segments field");
  return faults;
}
