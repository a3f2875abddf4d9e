import type { CsiInfo, CsiPlugin, Role } from "../../contracts/csi-volumes.ts";
import { isPlainObject } from "../../lib/json.ts";

/** CSI plugins: the instances nodes report, and their form in responses and events (docs/internals/wire/nomad.md). */

const CONTROLLER_FLAGS = [
  "SupportsAttachDetach",
  "SupportsClone",
  "SupportsCondition",
  "SupportsCreateDelete",
  "SupportsCreateDeleteSnapshot",
  "SupportsExpand",
  "SupportsGet",
  "SupportsGetCapacity",
  "SupportsListSnapshots",
  "SupportsListVolumes",
  "SupportsListVolumesAttachedNodes",
  "SupportsModify",
  "SupportsReadOnlyAttach",
] as const;
const NODE_FLAGS = ["RequiresNodeStageVolume", "SupportsCondition", "SupportsExpand", "SupportsStats"] as const;

/** Controller capabilities that operations require. */
export type ControllerFlag =
  | "SupportsAttachDetach"
  | "SupportsCreateDelete"
  | "SupportsCreateDeleteSnapshot"
  | "SupportsExpand"
  | "SupportsListSnapshots"
  | "SupportsListVolumes"
  | "SupportsModify";

type Given = Readonly<Record<string, unknown>>;
const textIn = (given: Given, name: string): string => {
  const value = given[name];
  return typeof value === "string" ? value : "";
};
const flags = (given: Given, names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, given[name] === true]));

/** A complete instance record from a node's report. Unknown fields are dropped. */
export function csiInfo(pluginId: string, role: Role, given: object, reachable: boolean): CsiInfo {
  const fields = given as Given;
  const own = fields[role === "controller" ? "ControllerInfo" : "NodeInfo"];
  const said = isPlainObject(own) ? own : {};
  const { AvailableCapacity: bytes, VolumeProblems: problems } = fields;
  return {
    AllocID: textIn(fields, "AllocID"),
    ...(role === "controller" && { ControllerInfo: flags(said, CONTROLLER_FLAGS) }),
    ...(role === "controller" && Number.isSafeInteger(bytes) && { AvailableCapacity: bytes as number }),
    HealthDescription: textIn(fields, "HealthDescription"),
    Healthy: fields["Healthy"] === true && reachable,
    ...(role === "node" && { NodeInfo: nodeInfo(said) }),
    ...(role === "node" && Array.isArray(problems) && { VolumeProblems: problems.filter(isPlainObject) as never }),
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

/** A plugin as lists show it. */
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

/** Instances by node id. */
type Instances = Readonly<Record<Role, Readonly<Record<string, CsiInfo>>>>;

/**
 * A plugin as reads and events show it. Expected counts are those that nodes declare, since plugin jobs are unknown
 * here.
 */
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
