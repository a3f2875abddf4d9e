import * as z from "zod";
import { amount, mapOf, text, uuid } from "./bounds.ts";
import { CSI_METHODS } from "./csi.ts";
import { report } from "./report.ts";

/** High-level operations. The service never names an executable, a socket or a directory of the node. */

const namedVolume = { id: uuid, name: text(256, 1), namespace: text(128, 1) };

export const hostVolumeCreate = z.object({
  ...namedVolume,
  pluginId: text(128, 1),
  parameters: mapOf(text(4096), 128),
  /** In bytes; 0 is unset. */
  capacityMin: amount,
  capacityMax: amount,
});
export type HostVolumeCreate = z.infer<typeof hostVolumeCreate>;

export const hostVolumeRegister = z.object({ ...namedVolume, hostPath: text(4096, 1) });
export type HostVolumeRegister = z.infer<typeof hostVolumeRegister>;

/** The agent knows the rest; a volume it does not know is gone already. */
export const hostVolumeDelete = z.object({
  id: uuid,
  /** Forgets the volume also when its plugin is not there, or leaves unknown what is left of it. An agent of the first release does not. */
  force: z.boolean().optional(),
});
export type HostVolumeDelete = z.infer<typeof hostVolumeDelete>;

/** Typed by hand: zod would infer a type that not even an empty object has once it is marked as a result. */
const nothing: z.ZodType<object> = z.object({});

/**
 * Every method: what it takes, what it answers, and for how long the agent works on it at most (ms).
 * A method that only reads is not journalled: it may run again, and its answer is not kept.
 */
export const METHODS = {
  "dhv.create": {
    params: hostVolumeCreate,
    /** `bytes` is 0 when the plugin does not say. */
    result: z.object({ path: text(4096, 1), bytes: amount }),
    deadlineMs: 60_000,
    reads: false,
  },
  "dhv.register": { params: hostVolumeRegister, result: nothing, deadlineMs: 10_000, reads: false },
  "dhv.delete": { params: hostVolumeDelete, result: nothing, deadlineMs: 60_000, reads: false },
  ...CSI_METHODS,
  /** Looks at everything anew. */
  "agent.fingerprint": { params: nothing, result: report, deadlineMs: 30_000, reads: true },
} as const;

export type Method = keyof typeof METHODS;
export type ParamsOf<M extends Method> = z.infer<(typeof METHODS)[M]["params"]>;
export type ResultOf<M extends Method> = z.infer<(typeof METHODS)[M]["result"]>;

export const isMethod = (name: string): name is Method => Object.hasOwn(METHODS, name);

/** What operations of one volume share: the agent runs one of them at a time and fences them by `gen`. */
export const hostVolumeKey = (id: string) => `dhv:${id}`;

/** Why an operation failed, apart from its text. */
export const ERROR_KINDS = [
  /** The parameters are wrong; the same again fails again. */
  "invalid",
  /** Something it needs is not there: a path, a plugin. */
  "missing",
  /** It contradicts what is there: the name is taken, the volume is in use. */
  "conflict",
  /** No room, no capacity. */
  "exhausted",
  /** The node's own configuration does not allow it. */
  "forbidden",
  /** The agent or the plugin cannot do this. */
  "unsupported",
  /** The plugin is not there now, or the agent is stopping; later it may be. */
  "unavailable",
  /** The deadline passed. */
  "timeout",
  /** The service stopped waiting. */
  "cancelled",
  /** A newer operation of the same key was accepted; it deals with what this one may have left. */
  "stale",
  /** The agent has as many operations in flight as it takes. */
  "busy",
  /** The plugin failed or answered something it must not. */
  "plugin",
  /** A defect or a broken disk: the node's log has it. */
  "internal",
] as const;

export const operationError = z.object({
  kind: z.enum(ERROR_KINDS),
  /** For the person who asked. The agent removes secrets and control characters. */
  message: text(4096),
  /**
   * `failed`: it has not happened, and nothing goes on. `unknown`: it may have happened, may be happening, or may be half done.
   */
  outcome: z.enum(["failed", "unknown"]),
  /** The call of a CSI plugin that failed, and gRPC's code; 0 when what it answered is no answer. */
  call: z.object({ pluginId: text(128), rpc: text(64), code: amount }).optional(),
});
export type OperationError = z.infer<typeof operationError>;
export type ErrorKind = OperationError["kind"];
