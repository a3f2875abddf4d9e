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

/** The id of an operation, and its idempotency key: UUID version 7. */
const op = uuid;
const generation = z.int().positive();
const operations = z.array(op).max(MAX_KEPT_OPERATIONS);

// From the agent.

export const hello = z.object({
  t: z.literal("hello"),
  /** The lowest and highest protocol version the agent speaks. */
  proto: z.tuple([z.int().positive(), z.int().positive()]),
  /** The agent's own version. */
  agent: text(64, 1),
  /** The boot of the machine, and how often the agent has started on this state: an older clone has a lower epoch. */
  boot: text(64, 1),
  epoch: z.int().positive(),
  ...report.shape,
  /** The ids of all volumes, when the report has not room for each: the others follow in `vols`, and stay as they were until then. */
  held: z.array(uuid).max(MAX_VOLUMES).optional(),
  /** Operations the agent still knows: those it has not finished, and those whose result it keeps. */
  journal: z
    .array(z.object({ op, gen: generation, state: z.enum(["running", "finished"]) }))
    .max(MAX_KEPT_OPERATIONS + MAX_IN_FLIGHT),
  /** The methods it takes. */
  features: z.array(text(64, 1)).max(128),
});
export type Hello = z.infer<typeof hello>;

export const ack = z.object({
  t: z.literal("ack"),
  op,
  /** `accepted`: on disk. `duplicate`: known already. `rejected`: refused and not kept. Each time a `res` follows. */
  state: z.enum(["accepted", "duplicate", "rejected"]),
});
export type Ack = z.infer<typeof ack>;

const outcome = { t: z.literal("res"), op, ms: amount };
export const res = z.discriminatedUnion("ok", [
  z.object({ ...outcome, ok: z.literal(true), result: z.record(z.string(), z.unknown()) }),
  z.object({ ...outcome, ok: z.literal(false), error: operationError }),
]);
export type Res = z.infer<typeof res>;

export const fp = z.object({ t: z.literal("fp"), seq: z.int().positive(), ...reportChange.shape });
export type Fp = z.infer<typeof fp>;

/** Takes the place of `fp` with whole maps of volumes, once the service has said that it takes it (`VOLUME_CHANGES`). */
export const vols = z.object({ t: z.literal("vols"), seq: z.int().positive(), ...volumesChange.shape });
export type Vols = z.infer<typeof vols>;

// From the service.

/** The feature of a service that takes `vols` and `held`. */
export const VOLUME_CHANGES = "volume-changes";

export const welcome = z.object({
  t: z.literal("welcome"),
  proto: z.int().positive(),
  session: text(128, 1),
  /** Unix time in milliseconds. */
  serverTime: amount,
  cfg: z.object({
    pingMs: z.int().min(100).max(60_000),
    /** Silence after which the agent gives the connection up. */
    deadMs: z.int().min(300).max(300_000),
    fingerprintMs: z.int().min(100).max(3_600_000),
    maxInflight: z.int().min(1).max(MAX_IN_FLIGHT),
  }),
  /** Operations of the journal whose result the service still waits for: it is sent as soon as there is one. */
  resume: operations,
  /** Operations of the journal that concern the service no longer: neither run again nor reported. */
  forget: operations,
  /** Volumes of the report that the service does not know. The agent tells its operator; it removes nothing. */
  unknownVolumes: z.array(uuid).max(MAX_VOLUMES),
  /** What the service takes beyond the first release of this protocol version. */
  features: z.array(text(64, 1)).max(128).optional(),
});
export type Welcome = z.infer<typeof welcome>;

export const req = z.object({
  t: z.literal("req"),
  op,
  method: text(64, 1),
  /** What the operation is about: one at a time for a key. */
  key: text(512, 1),
  /** Grows with each intent for the key: the agent refuses a lower one than it has seen. */
  gen: generation,
  /** Time to work from the moment it starts, in milliseconds. */
  deadlineMs: z.int().min(1).max(600_000),
  params: z.record(z.string(), z.unknown()),
  /** Never written to disk: an operation that was cut off is not run again before they are sent again. */
  secrets: mapOf(text(65_536), 128).optional(),
});
export type Req = z.infer<typeof req>;

/** The service has stored the result: the agent may forget the operation. */
export const done = z.object({ t: z.literal("done"), op });
/** The service stopped waiting. What has not begun is not begun; what runs goes on, and its result is sent. */
export const cancel = z.object({ t: z.literal("cancel"), op });

const fromAgent = { hello, ack, res, fp, vols };
const fromService = { welcome, req, done, cancel };

export type AgentFrame = z.infer<(typeof fromAgent)[keyof typeof fromAgent]>;
export type ServiceFrame = z.infer<(typeof fromService)[keyof typeof fromService]>;

/** `unknown` is a kind of frame that this version does not have: a newer peer may send it, and it is ignored. */
export type Parsed<F> =
  | { ok: true; frame: F }
  | { ok: false; reason: "too-large" | "malformed" | "unknown"; message: string };

const utf8 = new TextEncoder();

/** How many bytes a text has on the wire. */
export const frameBytes = (frame: string): number => utf8.encode(frame).length;

const typed = z.looseObject({ t: z.string() });

function parse(schemas: Record<string, z.ZodType>, frame: string): Parsed<unknown> {
  // A text has at least as many bytes as UTF-16 units, so a huge one is refused without encoding it.
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
  return { ok: false, reason: "malformed", message: `${kind}: ${describe(parsed.error)}` };
}

/** The first fault of a value: where, and which rule it breaks. It never quotes the value. */
export function describe(error: z.ZodError): string {
  const issue = error.issues[0];
  return issue === undefined ? "is wrong" : `${issue.path.join(".").slice(0, 256)}: ${issue.message}`;
}

/** What the service reads. */
export const parseAgentFrame = (frame: string) => parse(fromAgent, frame) as Parsed<AgentFrame>;
/** What the agent reads. */
export const parseServiceFrame = (frame: string) => parse(fromService, frame) as Parsed<ServiceFrame>;
