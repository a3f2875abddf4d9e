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

/**
 * Whether a token may read a topic in all the namespaces given.
 * @param everywhere the request asked for all namespaces, which also needs a rule that says so
 */
export function mayReadTopic(
  rights: ClusterRights,
  topic: string,
  namespaces: readonly string[],
  everywhere: boolean,
): boolean {
  if (rights.management) return true;
  const capability = namespaced.get(topic);
  if (capability !== undefined) {
    const explicit = !everywhere || rights.namespaces.some((rule) => rule.name === "*");
    return explicit && namespaces.every((namespace) => allowsNamespace(rights, namespace, capability));
  }
  if (topic === "Node" || topic === "NodeDrain") return allowsNode(rights, "read");
  if (topic === "Operator") return allowsOperator(rights, "read");
  return false;
}
