import * as z from "zod";
import {
  amount,
  MAX_FRAME_BYTES,
  MAX_IN_FLIGHT,
  MAX_KEPT_OPERATIONS,
  MAX_VOLUMES,
  mapOf,
  text,
  uuid,
} from "./bounds.ts";
import { operationError } from "./methods.ts";
import { report, reportChange, volumesChange } from "./report.ts";

/** The id of an operation and its idempotency key: UUID version 7. */
const op = uuid;
const generation = z.int().positive();
const operations = z.array(op).max(MAX_KEPT_OPERATIONS);

export const hello = z.object({
  t: z.literal("hello"),
  /** The lowest and highest supported protocol version. */
  proto: z.tuple([z.int().positive(), z.int().positive()]),
  /** The agent's version. */
  agent: text(64, 1),
  /** The machine's boot id, and the number of agent starts on this state: an older clone has a lower epoch. */
  boot: text(64, 1),
  epoch: z.int().positive(),
  ...report.shape,
  /**
   * The ids of all volumes, when the report cannot contain each: the others follow in `vols` and are unchanged until
   * then.
   */
  held: z.array(uuid).max(MAX_VOLUMES).optional(),
  /** Operations in the agent's journal: unfinished ones, and ones with a stored result. */
  journal: z
    .array(z.object({ op, gen: generation, state: z.enum(["running", "finished"]) }))
    .max(MAX_KEPT_OPERATIONS + MAX_IN_FLIGHT),
  /** The supported methods. */
  features: z.array(text(64, 1)).max(128),
});
export type Hello = z.infer<typeof hello>;

export const ack = z.object({
  t: z.literal("ack"),
  op,
  /** `accepted`: on disk. `duplicate`: known. `rejected`: refused and not stored. A `res` follows each of them. */
  state: z.enum(["accepted", "duplicate", "rejected"]),
});

const outcome = { t: z.literal("res"), op, ms: amount };
export const res = z.discriminatedUnion("ok", [
  z.object({ ...outcome, ok: z.literal(true), result: z.record(z.string(), z.unknown()) }),
  z.object({ ...outcome, ok: z.literal(false), error: operationError }),
]);
export type Res = z.infer<typeof res>;

export const fp = z.object({ t: z.literal("fp"), seq: z.int().positive(), ...reportChange.shape });
export type Fp = z.infer<typeof fp>;

/** Replaces `fp` with whole maps of volumes, if the service supports it (`VOLUME_CHANGES`). */
export const vols = z.object({ t: z.literal("vols"), seq: z.int().positive(), ...volumesChange.shape });
export type Vols = z.infer<typeof vols>;

/** Feature name of services that accept `vols` and `held`. */
export const VOLUME_CHANGES = "volume-changes";
/** Feature name of services that need no `ack` of accepted operations: each costs them an event, and a `res` follows. */
export const NO_ACCEPTED = "no-accepted";

export const welcome = z.object({
  t: z.literal("welcome"),
  proto: z.int().positive(),
  session: text(128, 1),
  /** Unix time in milliseconds. */
  serverTime: amount,
  cfg: z.object({
    pingMs: z.int().min(100).max(60_000),
    /** Silence after which the agent closes the connection. */
    deadMs: z.int().min(300).max(300_000),
    fingerprintMs: z.int().min(100).max(3_600_000),
    maxInflight: z.int().min(1).max(MAX_IN_FLIGHT),
  }),
  /** Journaled operations whose result the service awaits: it is sent as soon as it exists. */
  resume: operations,
  /** Journaled operations that the service dropped: neither run again nor reported. */
  forget: operations,
  /** Reported volumes unknown to the service. The agent logs them for its operator and deletes nothing. */
  unknownVolumes: z.array(uuid).max(MAX_VOLUMES),
  /** Features beyond the first release of this protocol version. */
  features: z.array(text(64, 1)).max(128).optional(),
});
export type Welcome = z.infer<typeof welcome>;

export const req = z.object({
  t: z.literal("req"),
  op,
  method: text(64, 1),
  /** The serialization key: one operation at a time per key. */
  key: text(512, 1),
  /** Grows with each request for the key: the agent refuses a lower generation than the highest accepted one. */
  gen: generation,
  /** Time limit from the start of execution, in milliseconds. */
  deadlineMs: z.int().min(1).max(600_000),
  params: z.record(z.string(), z.unknown()),
  /** Never written to disk: an interrupted operation does not run again before they are sent again. */
  secrets: mapOf(text(65_536), 128).optional(),
});
export type Req = z.infer<typeof req>;

/** The service has stored the result: the agent may drop the operation. */
export const done = z.object({ t: z.literal("done"), op });
/** The service stopped waiting. A queued operation is dropped; a running one continues, and its result is sent. */
export const cancel = z.object({ t: z.literal("cancel"), op });

const fromAgent = { hello, ack, res, fp, vols };
const fromService = { welcome, req, done, cancel };

export type AgentFrame = z.infer<(typeof fromAgent)[keyof typeof fromAgent]>;
export type ServiceFrame = z.infer<(typeof fromService)[keyof typeof fromService]>;

/**
 * `unknown`: a frame type of a newer version, which is ignored. `op`: the operation of a malformed `req`, which the
 * agent rejects instead of closing the connection: the service would send it again after each `welcome`.
 */
export type Parsed<F> =
  | { ok: true; frame: F }
  | { ok: false; reason: "too-large" | "malformed" | "unknown"; message: string; op?: string };

const utf8 = new TextEncoder();

/** The size of a frame on the wire in bytes. */
export const frameBytes = (frame: string): number => utf8.encode(frame).length;

const typed = z.looseObject({ t: z.string() });

function parse(schemas: Record<string, z.ZodType>, frame: string): Parsed<unknown> {
  // UTF-8 has at least as many bytes as UTF-16 has units, so a huge text is refused without encoding it.
  if (frame.length > MAX_FRAME_BYTES || frameBytes(frame) > MAX_FRAME_BYTES)
    return { ok: false, reason: "too-large", message: `a frame has more than ${MAX_FRAME_BYTES} bytes` };
  let json: unknown;
  try {
    json = JSON.parse(frame);
  } catch {
    return { ok: false, reason: "malformed", message: "a frame is not JSON" };
  }
  const object = typed.safeParse(json);
  if (!object.success) return { ok: false, reason: "malformed", message: "a frame is not an object with a text t" };
  const kind = object.data.t;
  const schema = Object.hasOwn(schemas, kind) ? schemas[kind] : undefined;
  if (schema === undefined) return { ok: false, reason: "unknown", message: `there is no frame ${kind.slice(0, 64)}` };
  const parsed = schema.safeParse(json);
  if (parsed.success) return { ok: true, frame: parsed.data };
  const rejectable = kind === "req" ? op.safeParse(object.data["op"]).data : undefined;
  return {
    ok: false,
    reason: "malformed",
    message: `${kind}: ${describe(parsed.error)}`,
    ...(rejectable !== undefined && { op: rejectable }),
  };
}

/**
 * The first fault of a value: its path and the violated rule, never the value. An invalid key is part of a value: the
 * name of a secret may be a piece of one.
 */
export function describe(error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) return "is wrong";
  const path = issue.code === "invalid_key" ? issue.path.slice(0, -1) : issue.path;
  return `${path.join(".").slice(0, 256)}: ${issue.message}`;
}

/** Parses a frame received by the service. */
export const parseAgentFrame = (frame: string) => parse(fromAgent, frame) as Parsed<AgentFrame>;
/** Parses a frame received by the agent. */
export const parseServiceFrame = (frame: string) => parse(fromService, frame) as Parsed<ServiceFrame>;
