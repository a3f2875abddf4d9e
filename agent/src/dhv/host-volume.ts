import type { AllowedPlugin } from "./executable.ts";
import type { Outcome } from "./outcome.ts";
import type { PluginLimits, Step } from "./plugin.ts";

export interface HostVolumesOptions {
  /** Absolute paths. */
  readonly volumesDir: string;
  readonly pluginDir: string;
  readonly stateDir: string;
  readonly nodeId: string;
  readonly nodePool: string;
  /** The permitted executables of the plugin directory. `mkdir` is built in and always available. */
  readonly allowed: readonly AllowedPlugin[];
  /** Directories below which volumes may be registered and plugins may create volumes. */
  readonly registerRoots: readonly string[];
  readonly limits?: Partial<PluginLimits> | undefined;
  /** Receives lines for the node's log. */
  readonly log?: ((line: string) => void) | undefined;
  readonly step?: Step | undefined;
  /** Milliseconds since 1970. */
  readonly now?: (() => number) | undefined;
}

export interface HostVolume {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  /** Empty for a registered volume. */
  readonly pluginId: string;
  /** Empty while unknown. */
  readonly path: string;
  readonly bytes: number;
  /** Why it is unusable; undefined when it is usable. */
  readonly problem: string | undefined;
}

export type PluginStatus = { readonly name: string } & Outcome<{ readonly version: string }>;
