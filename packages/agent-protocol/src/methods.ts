import * as z from "zod";
import { amount, mapOf, text, uuid } from "./bounds.ts";
import { CSI_METHODS } from "./csi.ts";
import { report } from "./report.ts";

/** Operations of the service on a node. They never name executables, sockets or directories of the node. */

const namedVolume = { id: uuid, name: text(256, 1), namespace: text(128, 1) };

export const hostVolumeCreate = z.object({
  ...namedVolume,
  pluginId: text(128, 1),
  parameters: mapOf(text(4096), 128),
  /** In bytes; 0 means unset. */
  capacityMin: amount,
  capacityMax: amount,
});
export type HostVolumeCreate = z.infer<typeof hostVolumeCreate>;

export const hostVolumeRegister = z.object({ ...namedVolume, hostPath: text(4096, 1) });
export type HostVolumeRegister = z.infer<typeof hostVolumeRegister>;

/** The agent has the other fields on disk; an unknown volume counts as deleted. */
export const hostVolumeDelete = z.object({
  id: uuid,
  /**
   * Also removes the record when the plugin is unavailable or its outcome unknown. Agents of the first release ignore
   * it.
   */
  force: z.boolean().optional(),
});
export type HostVolumeDelete = z.infer<typeof hostVolumeDelete>;

/** Explicitly typed: the inferred type would reject even an empty object once it is marked as a result. */
const nothing: z.ZodType<object> = z.object({});

/**
 * Every method: its parameters, its result, and its time limit (ms). A read-only method is not journaled: it may run
 * again, and its result is not stored.
 */
export const METHODS = {
  "dhv.create": {
    params: hostVolumeCreate,
    /** `bytes` is 0 when unknown. */
    result: z.object({ path: text(4096, 1), bytes: amount }),
    deadlineMs: 60_000,
    reads: false,
  },
  "dhv.register": { params: hostVolumeRegister, result: nothing, deadlineMs: 10_000, reads: false },
  "dhv.delete": { params: hostVolumeDelete, result: nothing, deadlineMs: 60_000, reads: false },
  ...CSI_METHODS,
  /** Inspects the whole node. */
  "agent.fingerprint": { params: nothing, result: report, deadlineMs: 30_000, reads: true },
} as const;

export type Method = keyof typeof METHODS;
export type ParamsOf<M extends Method> = z.infer<(typeof METHODS)[M]["params"]>;
export type ResultOf<M extends Method> = z.infer<(typeof METHODS)[M]["result"]>;

export const isMethod = (name: string): name is Method => Object.hasOwn(METHODS, name);

/** Serialization key of a host volume's operations; the agent runs them in sequence and fences them by `gen`. */
export const hostVolumeKey = (id: string) => `dhv:${id}`;

/** Kinds of operation failures. */
export const ERROR_KINDS = [
  /** Wrong parameters; a repetition fails again. */
  "invalid",
  /** A required path or plugin does not exist. */
  "missing",
  /** Contradicts existing state: the name is taken, the volume is in use. */
  "conflict",
  /** No space or capacity. */
  "exhausted",
  /** Not permitted by the node's configuration. */
  "forbidden",
  /** Not supported by the agent or the plugin. */
  "unsupported",
  /** The plugin is unavailable or the agent is stopping; a later attempt may succeed. */
  "unavailable",
  /** The deadline passed. */
  "timeout",
  /** The service stopped waiting. */
  "cancelled",
  /** A newer operation of the same key was accepted; it handles the remains of this one. */
  "stale",
  /** The agent's limit of operations is reached. */
  "busy",
  /** The plugin failed or returned an invalid response. */
  "plugin",
  /** A defect or a disk failure: see the node's log. */
  "internal",
] as const;

export const operationError = z.object({
  kind: z.enum(ERROR_KINDS),
  /** For the user. The agent removes secrets and control characters. */
  message: text(4096),
  /** `failed`: it did not happen and does not run. `unknown`: it may have happened, may run, or may be half done. */
  outcome: z.enum(["failed", "unknown"]),
  /** The failed call of a CSI plugin with its gRPC code; 0 for an invalid response. */
  call: z.object({ pluginId: text(128), rpc: text(64), code: amount }).optional(),
});
export type OperationError = z.infer<typeof operationError>;
export type ErrorKind = OperationError["kind"];
