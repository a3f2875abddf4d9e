import type { CsiInfo, CsiPlugin, Role } from "../../contracts/csi-volumes.ts";
import { isPlainObject } from "../../lib/json.ts";

/** CSI plugins as nodes tell of them and as answers and events show them (docs/internals/wire/nomad.md). */

const CONTROLLER_FLAGS = [
  ...["SupportsAttachDetach", "SupportsClone", "SupportsCondition", "SupportsCreateDelete"],
  ...["SupportsCreateDeleteSnapshot", "SupportsExpand", "SupportsGet", "SupportsGetCapacity", "SupportsListSnapshots"],
  ...["SupportsListVolumes", "SupportsListVolumesAttachedNodes", "SupportsReadOnlyAttach"],
] as const;
const NODE_FLAGS = ["RequiresNodeStageVolume", "SupportsCondition", "SupportsExpand", "SupportsStats"] as const;

/** What a plugin's controller can do. */
export type ControllerFlag =
  | "SupportsAttachDetach"
  | "SupportsCreateDelete"
  | "SupportsCreateDeleteSnapshot"
  | "SupportsExpand"
  | "SupportsListSnapshots"
  | "SupportsListVolumes";

type Given = Readonly<Record<string, unknown>>;
const textIn = (given: Given, name: string): string => {
  const value = given[name];
  return typeof value === "string" ? value : "";
};
const flags = (given: Given, names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, given[name] === true]));

/** An instance with all of its fields, of which a node tells those that it knows. Unknown ones are left out. */
export function csiInfo(pluginId: string, role: Role, given: object, reachable: boolean): CsiInfo {
  const fields = given as Given;
  const own = fields[role === "controller" ? "ControllerInfo" : "NodeInfo"];
  const said = isPlainObject(own) ? own : {};
  return {
    AllocID: textIn(fields, "AllocID"),
    ...(role === "controller" && { ControllerInfo: flags(said, CONTROLLER_FLAGS) }),
    HealthDescription: textIn(fields, "HealthDescription"),
    Healthy: fields["Healthy"] === true && reachable,
    ...(role === "node" && { NodeInfo: nodeInfo(said) }),
    PluginID: pluginId,
    Provider: textIn(fields, "Provider"),
    ProviderVersion: textIn(fields, "ProviderVersion"),
    RequiresControllerPlugin: fields["RequiresControllerPlugin"] === true,
    RequiresTopologies: fields["RequiresTopologies"] === true,
    UpdateTime: textIn(fields, "UpdateTime") || null,
  };
}

const nodeInfo = (given: Given) => ({
  AccessibleTopology: isPlainObject(given["AccessibleTopology"]) ? given["AccessibleTopology"] : null,
  ID: textIn(given, "ID"),
  MaxVolumes: Number.isSafeInteger(given["MaxVolumes"]) ? given["MaxVolumes"] : 0,
  ...flags(given, NODE_FLAGS),
});

/** As lists show a plugin. */
export const pluginStub = (plugin: CsiPlugin) => ({
  ControllerRequired: plugin.controllerRequired,
  ControllersExpected: plugin.controllersExpected,
  ControllersHealthy: plugin.controllersHealthy,
  CreateIndex: plugin.createIndex ?? 0,
  ID: plugin.id,
  ModifyIndex: plugin.modifyIndex ?? plugin.createIndex ?? 0,
  NodesExpected: plugin.nodesExpected,
  NodesHealthy: plugin.nodesHealthy,
  Provider: plugin.provider,
});

const nanoseconds = (ms: number): number => ms * 1_000_000;

/** Instances by the ids of their nodes. */
export type Instances = Readonly<Record<Role, Readonly<Record<string, CsiInfo>>>>;

/** As reads and events show a plugin. What is expected is what nodes declare: no scheduler of ours knows jobs of plugins. */
export const pluginJson = (plugin: CsiPlugin, { controller, node }: Instances) => ({
  ...pluginStub(plugin),
  Allocations: null as unknown,
  ControllerJobs: {},
  Controllers: controller,
  CreateTime: nanoseconds(plugin.createTime),
  ModifyTime: nanoseconds(plugin.modifyTime),
  NodeJobs: {},
  Nodes: node,
  Version: plugin.version,
});
