import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ControllerFlag } from "./plugin.ts";
import type { CsiPlugins } from "./plugins.ts";

/** More controllers of one plugin than these are not tried. */
const MOST = 20;

/** What a plugin must be able to do, and what callers read when it is not. */
export interface Need {
  readonly flag: ControllerFlag;
  readonly lacking: string;
}

/** Which of a plugin's controllers are asked, in order: the healthy ones by node id, so that the same one is preferred. */
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
