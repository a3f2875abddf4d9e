import type { CsiInfo, Topology } from "../../contracts/csi-volumes.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { ControllerFlag } from "./plugin-views.ts";
import type { CsiPlugins } from "./plugins.ts";

/** Upper bound of controllers tried per plugin. */
const MAX_CONTROLLERS = 20;

/** A controller capability, and the error message when it is missing. */
export interface Need {
  readonly flag: ControllerFlag;
  readonly lacking: string;
}

/** The place and the size of a volume, as far as they determine the controller. */
interface Target {
  /** Segments of the topologies from which the volume is accessible, or must be. */
  readonly topologies: readonly Topology["Segments"][];
  /** Whether the volume is in these topologies only; else they are preferred. */
  readonly strict: boolean;
  /** Bytes of a new volume; 0 for an existing one. */
  readonly bytes: number;
}

/** The target of an operation: a new volume's by its parameters, an existing volume's by its topologies. */
export function targetOf(params: Readonly<Record<string, unknown>>, topologies: readonly Topology[] = []): Target {
  const { capacityMin, topology } = params as {
    capacityMin?: number;
    topology?: { required: Target["topologies"]; preferred: Target["topologies"] } | null;
  };
  if (topology === undefined) return { topologies: topologies.map(({ Segments }) => Segments), strict: true, bytes: 0 };
  const { required = [], preferred = [] } = topology ?? {};
  const strict = required.length > 0;
  return { topologies: strict ? required : preferred, strict, bytes: capacityMin ?? 0 };
}

/**
 * The controllers of a plugin to try, in order. Controllers on a node of the target's topology come first, then those
 * with capacity, then by node id. A target on a single node that runs a controller has that controller only: another
 * node's controller does not know the volume of a node-local driver.
 */
export function controllersFor(
  plugins: CsiPlugins,
  pluginId: string,
  need: Need | null,
  { topologies, strict, bytes }: Target = { topologies: [], strict: false, bytes: 0 },
): Result<readonly [string, ...string[]]> {
  const plugin = plugins.find(pluginId);
  if (!plugin) return refuse("missing", `no such plugin: ${JSON.stringify(pluginId)}`);
  if (plugin.controllersExpected === 0) return refuse("unsupported", "plugin has no controller");
  if (plugin.controllersHealthy === 0)
    return refuse("unavailable", `no healthy controllers for CSI plugin: ${pluginId}`);
  const { places, all } = nodesIn(plugins, pluginId, topologies);
  const [only = ""] = places.size === 1 ? places : [];
  const isLocal = strict && all && only !== "" && plugins.runsController(pluginId, only);
  const healthy = plugins.controllers(pluginId, MAX_CONTROLLERS, isLocal ? only : null);
  if (healthy.length === 0)
    return refuse(
      "unavailable",
      isLocal
        ? `the controller of CSI plugin ${pluginId} on node ${only}, which has the volume, is not healthy`
        : `failed to find clients running controller plugin ${JSON.stringify(pluginId)}`,
    );
  const able = healthy.filter(([, { ControllerInfo }]) => !need || ControllerInfo?.[need.flag] === true);
  const rank = ([nodeId, { AvailableCapacity = bytes }]: readonly [string, CsiInfo]) =>
    (places.has(nodeId) ? 0 : 2) + (AvailableCapacity < bytes ? 1 : 0);
  const [first, ...others] = [...able].sort((a, b) => rank(a) - rank(b)).map(([nodeId]) => nodeId);
  return first === undefined ? refuse("unsupported", need?.lacking) : ok([first, ...others]);
}

/**
 * The nodes of a plugin with access to one of these topologies, among the first thousand of its nodes. `all`: it has no
 * more nodes than these.
 */
function nodesIn(plugins: CsiPlugins, pluginId: string, topologies: Target["topologies"]) {
  if (topologies.length === 0) return { places: new Set<string>(), all: true };
  const { instances, next } = plugins.instances(pluginId, "node", "", 1_000);
  const has = ({ NodeInfo }: CsiInfo) => {
    const { Segments = {} } = (NodeInfo?.["AccessibleTopology"] ?? {}) as Partial<Topology>;
    return topologies.some((wanted) => Object.entries(wanted).every(([key, value]) => Segments[key] === value));
  };
  return { places: new Set(instances.filter(([, info]) => has(info)).map(([nodeId]) => nodeId)), all: next === null };
}
