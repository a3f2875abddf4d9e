import {
  allowsNamespace,
  allowsNode,
  allowsOperator,
  type ClusterRights,
  type NamespaceRight,
} from "../access/cluster-rights.ts";

/** Topics that a namespace capability opens (interface document, Authentication 4; contract: events-and-volumes 1.7). */
const namespaced: ReadonlyMap<string, NamespaceRight> = new Map([
  ["Job", "read-job"],
  ["Allocation", "read-job"],
  ["Deployment", "read-job"],
  ["Evaluation", "read-job"],
  ["Service", "read-job"],
  ["CSIPlugin", "read-job"],
  ["HostVolume", "host-volume-read"],
  ["CSIVolume", "csi-read-volume"],
]);

/** Whether a token may read a topic in all the namespaces given. A topic that nothing opens is for management. */
export function mayReadTopic(rights: ClusterRights, topic: string, namespaces: readonly string[]): boolean {
  if (rights.management) return true;
  const capability = namespaced.get(topic);
  if (capability) return namespaces.every((namespace) => allowsNamespace(rights, namespace, capability));
  if (topic === "Node" || topic === "NodeDrain") return allowsNode(rights, "read");
  if (topic === "Operator") return allowsOperator(rights, "read");
  return false;
}
