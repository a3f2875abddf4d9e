import type { HostVolumeCreate } from "@sallyport/agent-protocol";
import type { Outcome } from "./outcome.ts";

export interface CreatedVolume {
  /** Absolute path on this node. */
  readonly path: string;
  /** 0 when unknown. */
  readonly bytes: number;
}

/**
 * Creates and deletes volumes. Operations are idempotent: creating an existing volume and deleting a missing one
 * succeed. A failure with outcome `failed` means that nothing remains of a creation, or that a deletion was refused.
 */
export interface HostVolumePlugin {
  fingerprint(): Promise<Outcome<{ readonly version: string }>>;
  create(volume: HostVolumeCreate): Promise<Outcome<CreatedVolume>>;
  delete(volume: HostVolumeCreate, path: string): Promise<Outcome>;
}

/** Time limits (ms) and output limits (bytes) of plugin runs. */
export interface PluginLimits {
  readonly fingerprintMs: number;
  /** Of one create or delete. */
  readonly operationMs: number;
  /** Between SIGTERM and SIGKILL. */
  readonly killGraceMs: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
}

export const PLUGIN_LIMITS: PluginLimits = {
  fingerprintMs: 5_000,
  operationMs: 60_000,
  killGraceMs: 2_000,
  stdoutBytes: 1024 * 1024,
  stderrBytes: 64 * 1024,
};

/** Called after each step that a crash can follow; tests crash there. */
export type Step = (name: string) => void | Promise<void>;
