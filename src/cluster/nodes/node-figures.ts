import { isDeepStrictEqual } from "node:util";
import type { CsiInfo } from "../../contracts/csi-volumes.ts";
import type { Node } from "../../contracts/node.ts";

/**
 * Figures of a node: values that change by themselves and decide no placement. A change of figures alone is stored
 * without an event of the node.
 */

type Driver = Node["Drivers"][string];

const CHECK_FIGURES = ["HealthDescription", "UpdateTime"] as const satisfies readonly (keyof Driver & keyof CsiInfo)[];
const PLUGIN_FIGURES = [
  ...CHECK_FIGURES,
  "AvailableCapacity",
  "VolumeProblems",
] as const satisfies readonly (keyof CsiInfo)[];

const without = (object: object, fields: readonly string[]): object =>
  Object.fromEntries(Object.entries(object).filter(([field]) => !fields.includes(field)));

const each = (map: Readonly<Record<string, object>> | null, figures: readonly string[]) =>
  map && Object.fromEntries(Object.entries(map).map(([key, value]) => [key, without(value, figures)]));

const links = (networks: readonly object[] | null, figure: string) =>
  networks?.map((network) => without(network, [figure]));

/** A node without its figures. */
const settled = ({ Resources, NodeResources, ...node }: Node): object => ({
  ...node,
  Resources: { ...Resources, Networks: links(Resources.Networks, "MBits") },
  NodeResources: {
    ...NodeResources,
    Networks: links(NodeResources.Networks, "MBits"),
    NodeNetworks: links(NodeResources.NodeNetworks, "Speed"),
  },
  Drivers: each(node.Drivers, CHECK_FIGURES),
  CSIControllerPlugins: each(node.CSIControllerPlugins, PLUGIN_FIGURES),
  CSINodePlugins: each(node.CSINodePlugins, PLUGIN_FIGURES),
});

/** Whether two records of a node differ by figures at most. */
export const sameButFigures = (one: Node, other: Node): boolean => isDeepStrictEqual(settled(one), settled(other));
