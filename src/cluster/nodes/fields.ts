import * as z from "zod";
import { ELIGIBILITIES, STATUSES } from "../../wire/node-words.ts";
import { integer } from "../reports/topics/fields.ts";

/**
 * Schema of a reported node, from its agent or a scheduler. Every field is optional; unknown fields are kept
 * (docs/internals/wire/nomad.md).
 */

const name = z.string().max(256);
const text = z.string().nullish();
const flag = z.boolean().nullish();
const int = z.int().nullish();
const texts = z.record(z.string(), z.string()).nullish();
const list = z.array(z.unknown()).nullish();
const map = z.record(z.string(), z.unknown()).nullish();

const network = z.looseObject({
  Mode: text,
  Device: text,
  CIDR: text,
  IP: text,
  MBits: int,
  DNS: map,
  ReservedPorts: list,
  DynamicPorts: list,
});

const address = z.looseObject({ Family: text, Alias: text, Address: text, ReservedPorts: text, Gateway: text });
const nodeNetwork = z.looseObject({
  Mode: text,
  Device: text,
  MacAddress: text,
  Speed: int,
  Addresses: z.array(address).nullish(),
});

const memory = z.looseObject({ MemoryMB: int }).nullish();
const disk = z.looseObject({ DiskMB: int }).nullish();

const nodeResources = z.looseObject({
  Cpu: z.looseObject({ CpuShares: int, TotalCpuCores: int, ReservableCpuCores: z.array(z.int()).nullish() }).nullish(),
  Memory: memory,
  Disk: disk,
  Networks: z.array(network).nullish(),
  NodeNetworks: z.array(nodeNetwork).nullish(),
  Devices: list,
  MinDynamicPort: int,
  MaxDynamicPort: int,
  Processors: z.looseObject({ Topology: map }).nullish(),
});

const reservedResources = z.looseObject({
  Cpu: z.looseObject({ CpuShares: int, ReservedCpuCores: z.array(z.int()).nullish() }).nullish(),
  Memory: memory,
  Disk: disk,
  Networks: z.looseObject({ ReservedHostPorts: text }).nullish(),
});

const legacyResources = z.looseObject({
  CPU: int,
  MemoryMB: int,
  DiskMB: int,
  IOPS: int,
  Networks: z.array(network).nullish(),
  Devices: list,
});

/** Timestamps as reported, with offset; null and the zero time mean none. */
const time = z.iso.datetime({ offset: true }).nullish();

const driver = z.looseObject({
  Attributes: texts,
  Detected: flag,
  Healthy: flag,
  HealthDescription: text,
  UpdateTime: time,
});

const event = z.looseObject({
  Message: text,
  Subsystem: text,
  Details: texts,
  Timestamp: time,
  CreateIndex: z.int().nonnegative().nullish(),
});

/** Nanoseconds can exceed 2^53; such numbers are kept as written. */
const nanoseconds = (integer as z.ZodType<number | { rawJSON: string }>).nullish();

const drainStrategy = z.looseObject({
  Deadline: nanoseconds,
  IgnoreSystemJobs: flag,
  ForceDeadline: time,
  StartedAt: time,
});
const lastDrain = z.looseObject({ AccessorID: text, Meta: texts, StartedAt: time, Status: text, UpdatedAt: time });

/**
 * 128 bits in the form of a UUID, since node ids often carry no version. Lower case, because ids are compared as
 * text.
 */
const NODE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const nodeId = z.string().regex(NODE_ID, "must be a UUID in lower case");

export const POOL_NAME = /^[a-zA-Z0-9-_]{1,128}$/;

const pool = z
  .string()
  .regex(POOL_NAME, "must be 1 to 128 letters, digits, - or _")
  .refine((value) => value !== "all", 'node is not allowed to register in node pool "all"')
  .or(z.literal(""));

export const givenNode = z.looseObject({
  Name: name.nullish(),
  Datacenter: name.nullish(),
  NodeClass: name.nullish(),
  NodePool: pool.nullish(),
  HTTPAddr: text,
  ComputedClass: text,
  StatusDescription: text,
  CgroupParent: text,
  IdentitySigningKeyID: text,
  TLSEnabled: flag,
  Drain: flag,
  GCVolumesOnNodeGC: flag,
  Attributes: texts,
  Meta: texts,
  Links: texts,
  NodeResources: nodeResources.nullish(),
  ReservedResources: reservedResources.nullish(),
  Resources: legacyResources.nullish(),
  Reserved: legacyResources.nullish(),
  DrainStrategy: drainStrategy.nullish(),
  LastDrain: lastDrain.nullish(),
  CSIControllerPlugins: z.record(z.string(), z.looseObject({})).nullish(),
  CSINodePlugins: z.record(z.string(), z.looseObject({})).nullish(),
  HostNetworks: z.record(z.string(), z.looseObject({})).nullish(),
  HostVolumes: z.record(z.string(), z.looseObject({ ID: text, Name: text, Path: text, ReadOnly: flag })).nullish(),
  SchedulingEligibility: z.enum(ELIGIBILITIES).nullish(),
  Status: z.enum(STATUSES).nullish(),
  StatusUpdatedAt: z.int().nonnegative().nullish(),
  Events: z.array(event).nullish(),
  Drivers: z.record(z.string(), driver).nullish(),
  LastAllocUpdateIndex: int,
  LastMissedHeartbeatIndex: int,
  NodeMaxAllocs: int,
});

/** A validated partial node record. */
export type GivenNode = z.infer<typeof givenNode>;
export type GivenNetwork = z.infer<typeof network>;
export type GivenNodeNetwork = z.infer<typeof nodeNetwork>;
export type GivenLegacy = z.infer<typeof legacyResources>;
