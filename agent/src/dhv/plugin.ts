import type { HostVolumeCreate } from "@sallyport/agent-protocol";
import type { Outcome } from "./outcome.ts";

export interface CreatedVolume {
  /** Absolute path on this node. */
  readonly path: string;
  /** 0 when the plugin does not say. */
  readonly bytes: number;
}

/**
 * Makes and removes volumes. Every operation may be repeated: creating what is there and deleting what is gone succeed.
 * A failure with the outcome `failed` says that nothing is left of a creation, or that a deletion was refused.
 */
export interface HostVolumePlugin {
  fingerprint(): Promise<Outcome<{ readonly version: string }>>;
  create(volume: HostVolumeCreate): Promise<Outcome<CreatedVolume>>;
  delete(volume: HostVolumeCreate, path: string): Promise<Outcome>;
}

/** How long a plugin may run (ms), and how much it may say (bytes). */
export interface PluginLimits {
  readonly fingerprintMs: number;
  /** Of one create or delete. */
  readonly operationMs: number;
  /** Between the polite signal and the one that cannot be ignored. */
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

/** Called after each step that a crash could come after; tests crash there. */
export type Step = (name: string) => void | Promise<void>;
