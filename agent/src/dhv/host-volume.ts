import type { AllowedPlugin } from "./executable.ts";
import type { Outcome } from "./outcome.ts";
import type { PluginLimits, Step } from "./plugin.ts";

export interface HostVolumesOptions {
  /** Directories as absolute paths. */
  readonly volumesDir: string;
  readonly pluginDir: string;
  readonly stateDir: string;
  readonly nodeId: string;
  readonly nodePool: string;
  /** The executables of the plugin directory that may run. `mkdir` is built in and always there. */
  readonly allowed: readonly AllowedPlugin[];
  /** Only below these may a directory be registered; a plugin may also create volumes there. */
  readonly registerRoots: readonly string[];
  readonly limits?: Partial<PluginLimits> | undefined;
  /** Takes lines of the node's own log. */
  readonly log?: ((line: string) => void) | undefined;
  readonly step?: Step | undefined;
  /** Milliseconds since 1970. */
  readonly now?: (() => number) | undefined;
}

export interface HostVolume {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  /** Empty for a volume that was registered. */
  readonly pluginId: string;
  /** Empty while it is not known. */
  readonly path: string;
  readonly bytes: number;
  /** Why it cannot be used now; undefined when it can. */
  readonly problem: string | undefined;
}

export type PluginStatus = { readonly name: string } & Outcome<{ readonly version: string }>;
