import * as z from "zod";

/* Shapes shared by the answers of several operations. Objects are closed: they have no undocumented fields. */

export const time = z.string().describe("RFC 3339.");
/** An empty text means no time, as clients expect. */
export const timeOrEmpty = z.string().describe("RFC 3339; empty for never.");
export const timeOrNull = z.string().nullable().describe("RFC 3339; null for never.");
export const seconds = z.int().describe("Seconds.");
export const nanoseconds = z.int().describe("Nanoseconds since 1970.");
export const bytes = z.int().describe("Bytes; 0 is unset or unknown.");
export const index = z.int().describe("An index of the event stream.");
export const texts = z.record(z.string(), z.string());
export const anything = z.unknown();

export const createdAndModified = { CreateIndex: index, ModifyIndex: index };
export const timesInNanoseconds = { CreateTime: nanoseconds, ModifyTime: nanoseconds };

/** Answer of a LIST. */
export const keysOf = <More extends z.ZodRawShape>(more: More) =>
  z.object({ keys: z.array(z.string()).describe("Names; those of folders end with a slash."), ...more });
export const keys = keysOf({});

/** An object as reported by its scheduler, including further fields. */
export const reportedObject = <Shape extends z.ZodRawShape>(id: string, shape: Shape) =>
  z.looseObject({ ...shape, ...createdAndModified }).meta({ id });

/** Metadata in answers of volume writes and plugin lists. */
export const answerMeta = {
  Index: index,
  KnownLeader: z.literal(true),
  LastContact: z.literal(0),
  NextToken: z.string().describe("Where the next page begins; empty on the last one."),
};

export const AllocationStub = z
  .object({
    ID: z.string(),
    EvalID: z.string(),
    Name: z.string(),
    Namespace: z.string(),
    NodeID: z.string(),
    NodeName: z.string(),
    JobID: z.string(),
    JobType: z.string(),
    TaskGroup: z.string(),
    DesiredStatus: z.string(),
    DesiredDescription: z.string(),
    ClientStatus: z.string(),
    ClientDescription: z.string(),
    FollowupEvalID: z.string(),
    NextAllocation: z.string(),
    PreemptedByAllocation: z.string(),
    ...createdAndModified,
    JobVersion: z.int().nullable().describe("Null when it is unknown."),
    CreateTime: nanoseconds.nullable(),
    ModifyTime: nanoseconds.nullable(),
    DeploymentStatus: anything,
    PreemptedAllocations: z.array(z.string()).nullable(),
    RescheduleTracker: anything,
    DesiredTransition: anything,
    AllocatedResources: anything.optional().describe("With `resources=true` only."),
    TaskStates: anything,
  })
  .meta({ id: "AllocationStub", description: "An allocation as lists show it." });

export const Capabilities = z.array(z.object({ AccessMode: z.string(), AttachmentMode: z.string() }));
