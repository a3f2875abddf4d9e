import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ControllerFlag } from "./plugin-views.ts";
import type { CsiPlugins } from "./plugins.ts";

/** Upper bound of controllers tried per plugin. */
const MOST = 20;

/** A controller capability, and the error message when it is missing. */
export interface Need {
  readonly flag: ControllerFlag;
  readonly lacking: string;
}

/** The controllers of a plugin to try, in order: healthy ones by node id, so that calls prefer the same controller. */
export function controllersFor(plugins: CsiPlugins, pluginId: string, need: Need | null): Result<readonly string[]> {
  const plugin = plugins.find(pluginId);
  if (!plugin) return refuse("missing", `no such plugin: ${JSON.stringify(pluginId)}`);
  if (plugin.controllersExpected === 0) return refuse("unsupported", "plugin has no controller");
  if (plugin.controllersHealthy === 0)
    return refuse("unavailable", `no healthy controllers for CSI plugin: ${pluginId}`);
  const healthy = plugins.controllers(pluginId, MOST);
  if (healthy.length === 0)
    return refuse("unavailable", `failed to find clients running controller plugin ${JSON.stringify(pluginId)}`);
  const able = healthy.filter(([, { ControllerInfo }]) => !need || ControllerInfo?.[need.flag] === true);
  if (able.length === 0) return refuse("unsupported", need?.lacking);
  return ok(able.map(([nodeId]) => nodeId));
}
