import type { ClusterRights, NamespaceRight } from "../contracts/cluster-rights.ts";
import type { Labels } from "../publishing/event-headers.ts";
import {
  ANY_CAPABILITY,
  allowsNamespace,
  allowsNode,
  allowsOperator,
  allowsVariable,
  hasVariableRules,
} from "./cluster-rights.ts";

/** Topics readable with a namespace capability (docs/guides/events.md). */
const namespaced = new Map<string, NamespaceRight | readonly NamespaceRight[]>([
  ["Job", "read-job"],
  ["Allocation", "read-job"],
  ["Deployment", "read-job"],
  ["Evaluation", "read-job"],
  ["Service", "read-job"],
  ["CSIPlugin", "read-job"],
  ["HostVolume", "host-volume-read"],
  ["CSIVolume", "csi-read-volume"],
  ["Namespace", ANY_CAPABILITY],
]);

/** Variable rules apply per path: `list` is required. */
const VARIABLE = "Variable";
/** Whether events of the topic are checked one by one. */
export const isJudgedByEvent = (topic: string): boolean => topic === VARIABLE;

/**
 * Whether a token may read a topic in all given namespaces. Other topics need a management token: `*`, `ACLToken`,
 * `ACLPolicy`, `ACLRole`, `ACLAuthMethod`, `ACLBindingRule`, `NodePool`, and unknown names.
 */
export function mayReadTopic(rights: ClusterRights, topic: string, namespaces: readonly string[]): boolean {
  if (rights.management) return true;
  if (topic === "Node" || topic === "NodeDrain") return allowsNode(rights, "read");
  if (topic === "Operator") return allowsOperator(rights, "read");
  if (topic === VARIABLE) return namespaces.every((namespace) => hasVariableRules(rights, namespace));
  const capability = namespaced.get(topic);
  return capability !== undefined && namespaces.every((namespace) => allowsNamespace(rights, namespace, capability));
}

/** Whether a token that may read the topic may also read an event, by its namespace and key. */
export function mayReadEvent(
  rights: ClusterRights,
  { Topic, Namespace, Key }: Pick<Labels, "Topic" | "Namespace" | "Key">,
): boolean {
  if (Namespace === "") return true;
  return Topic === VARIABLE ? allowsVariable(rights, Namespace, Key, "list") : mayReadTopic(rights, Topic, [Namespace]);
}
