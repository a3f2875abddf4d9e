import * as z from "zod";
import type { Capability, Constraint, HostVolumeRequest } from "../../contracts/host-volumes.ts";
import { isPlainObject } from "../../lib/json.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { constraintFaults, hasTooManyPatterns, isBetweenAllocations, TOO_MANY_PATTERNS } from "../constraint.ts";
import { joinedErrors, oneOrJoined } from "../joined-errors.ts";
import { type Guesses, respelt, spelling } from "./spelling.ts";
import { ACCESS_MODES, ATTACHMENT_MODES } from "./volume-views.ts";

/** The body of create and register after spelling and type checks; `requestOf` validates the values. */
export interface HostVolumeBody {
  readonly volume: VolumeFields;
  readonly policyOverride: boolean;
  /** The namespace named beside the volume; empty = none. */
  readonly namespace: string;
  /** Identifies retries of a request; empty = none. */
  readonly idempotencyToken: string;
  readonly warnings: readonly string[];
}

const MAX_ENTRIES = 128;

const text = (most: number) => z.string().max(most);
const bytes = () => z.int().nonnegative();
const identifier = () => text(128);

const fields = {
  ID: identifier(),
  Name: text(256).regex(/^[^\p{Cc}\p{Zl}\p{Zp}\p{Cs}]*$/u, "must not hold control characters"),
  Namespace: identifier(),
  NodeID: identifier(),
  NodePool: identifier(),
  PluginID: text(128).regex(/^([A-Za-z0-9][A-Za-z0-9._-]*)?$/, "must be letters, digits, '.', '_' and '-'"),
  HostPath: text(4096).regex(/^(\/[^\u0000]*)?$/, "must be an absolute path"),
  CapacityBytes: bytes(),
  RequestedCapacityMinBytes: bytes(),
  RequestedCapacityMaxBytes: bytes(),
  Parameters: z
    .record(text(256).min(1), text(4096))
    .refine((map) => Object.keys(map).length <= MAX_ENTRIES, `at most ${MAX_ENTRIES} entries`),
  Constraints: z
    .array(
      z.strictObject({ LTarget: text(512).default(""), Operand: text(64).default(""), RTarget: text(512).default("") }),
    )
    .max(MAX_ENTRIES),
  RequestedCapabilities: z
    .array(z.strictObject({ AccessMode: text(64).default(""), AttachmentMode: text(64).default("") }))
    .max(MAX_ENTRIES),
};

/** Server-owned fields are accepted and ignored, so that a read's response can be sent back. */
const ours = z.unknown().optional();

const Volume = z.strictObject({
  ...Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, (field as z.ZodType).optional()])),
  Allocations: ours,
  CreateIndex: ours,
  CreateTime: ours,
  ModifyIndex: ours,
  ModifyTime: ours,
  State: ours,
});
type VolumeFields = { readonly [Name in keyof typeof fields]?: z.output<(typeof fields)[Name]> };

/** The body after normalization. */
export const HostVolumeRequestBody = z.strictObject({
  Volume,
  PolicyOverride: z.boolean().default(false),
  Namespace: identifier().default(""),
  IdempotencyToken: text(256).default(""),
  // Header and query take precedence.
  Region: ours,
  AuthToken: ours,
  SecretID: ours,
});

const bodySpelling = spelling(HostVolumeRequestBody, {
  Volume: spelling(
    Volume,
    {
      Constraints: spelling(fields.Constraints.element),
      RequestedCapabilities: spelling(fields.RequestedCapabilities.element),
    },
    { capacitymin: "RequestedCapacityMinBytes", capacitymax: "RequestedCapacityMaxBytes" },
  ),
});

/**
 * Parses a body by spelling and types. Field names are case-insensitive, as Nomad's clients spell them. The snake
 * case of volume specifications is accepted with a warning.
 * @throws ZodError
 */
export function parseBody(given: Readonly<Record<string, unknown>>): Result<HostVolumeBody> {
  const guesses: Guesses = { warnings: [], faults: [] };
  const respelled = respelt(given, bodySpelling, "", guesses);
  if (guesses.faults.length > 0) return refuse("invalid", guesses.faults.join("; "));
  if (!isPlainObject(respelled) || respelled["Volume"] === undefined)
    return refuse("invalid", "missing volume definition");
  const body = HostVolumeRequestBody.parse(respelled);
  return ok({
    volume: body.Volume as VolumeFields,
    policyOverride: body.PolicyOverride,
    namespace: body.Namespace,
    idempotencyToken: body.IdempotencyToken,
    warnings: guesses.warnings,
  });
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const quoted = JSON.stringify;

/** Validates a volume's values (docs/internals/wire/volumes.md). @returns the request, or all faults */
export function requestOf(
  volume: VolumeFields,
  namespace: string,
  intent: "create" | "register",
): Result<HostVolumeRequest> {
  const request: HostVolumeRequest = {
    id: volume.ID ? volume.ID.toLowerCase() : null,
    namespace,
    name: volume.Name ?? "",
    nodeId: (volume.NodeID ?? "").toLowerCase(),
    nodePool: volume.NodePool ?? "",
    pluginId: volume.PluginID ?? "",
    parameters: volume.Parameters ?? {},
    constraints: volume.Constraints ?? [],
    capabilities: volume.RequestedCapabilities ?? [],
    capacityMin: volume.RequestedCapacityMinBytes ?? 0,
    capacityMax: volume.RequestedCapacityMaxBytes ?? 0,
    hostPath: intent === "register" ? (volume.HostPath ?? "") : "",
    capacityBytes: intent === "register" ? (volume.CapacityBytes ?? 0) : 0,
  };
  if (intent === "register") {
    if (request.nodeId === "") return refuse("invalid", "cannot register volume: node ID is required");
    if (request.hostPath === "") return refuse("invalid", "cannot register volume: host path is required");
  }
  const faults = faultsOf(request, intent);
  return faults.length === 0 ? ok(request) : refuse("invalid", `volume validation failed: ${oneOrJoined(faults)}`);
}

function faultsOf(request: HostVolumeRequest, intent: "create" | "register"): string[] {
  const { id, name, pluginId, capacityMin, capacityMax, capabilities, constraints } = request;
  const faults: string[] = [];
  if (id !== null && !UUID.test(id)) faults.push(`invalid ID ${quoted(id)}`);
  if (name === "") faults.push("missing name");
  if (intent === "create" && id === null && pluginId === "") faults.push("plugin_id is required (builtin: mkdir)");
  if (capacityMax > 0 && capacityMax < capacityMin)
    faults.push(`capacity_max (${capacityMax}) must be larger than capacity_min (${capacityMin})`);
  for (const capability of capabilities) faults.push(...capabilityFault(capability));
  if (hasTooManyPatterns(constraints)) faults.push(TOO_MANY_PATTERNS);
  for (const constraint of constraints) faults.push(...faultOf(constraint));
  return faults;
}

/** Reports the first fault of a capability only. */
function capabilityFault({ AccessMode, AttachmentMode }: Capability): string[] {
  if (!ATTACHMENT_MODES.some((mode) => mode === AttachmentMode))
    return [`invalid attachment mode: ${quoted(AttachmentMode)}`];
  if (!ACCESS_MODES.some((mode) => mode === AccessMode)) return [`invalid access mode: ${quoted(AccessMode)}`];
  return [];
}

function faultOf(constraint: Constraint): string[] {
  if (isBetweenAllocations(constraint))
    return [`invalid constraint ${constraint.Operand}: host volumes of the same name are always on distinct hosts`];
  const faults = constraintFaults(constraint);
  return faults.length === 0 ? [] : [`invalid constraint: ${joinedErrors(faults)}`];
}
