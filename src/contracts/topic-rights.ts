import {
  allowsNamespace,
  allowsNode,
  allowsOperator,
  allowsVariable,
  type ClusterRights,
  hasVariableRules,
  type NamespaceRight,
} from "./cluster-rights.ts";
import type { Labels } from "./event-headers.ts";

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

/** Each variable is a right of its own: to list it. */
const VARIABLE = "Variable";
/** Whether to read the topic in a namespace, its events have to be judged one by one. */
export const isJudgedByEvent = (topic: string): boolean => topic === VARIABLE;

/**
 * Whether a token may read a topic in all the namespaces given. What no rule can open is for management: `*`, `ACLToken`,
 * `ACLPolicy`, `ACLRole`, `ACLAuthMethod`, `ACLBindingRule`, `NodePool`, and any name that is no topic.
 */
export function mayReadTopic(rights: ClusterRights, topic: string, namespaces: readonly string[]): boolean {
  if (rights.management) return true;
  if (topic === "Node" || topic === "NodeDrain") return allowsNode(rights, "read");
  if (topic === "Operator") return allowsOperator(rights, "read");
  if (topic === VARIABLE) return namespaces.every((namespace) => hasVariableRules(rights, namespace));
  const capability = namespaced.get(topic);
  return capability !== undefined && namespaces.every((namespace) => allowsNamespace(rights, namespace, capability));
}

/** Whether an event is for a token that may read its topic, as far as its namespace and its key decide it. */
export function mayReadEvent(
  rights: ClusterRights,
  { Topic, Namespace, Key }: Pick<Labels, "Topic" | "Namespace" | "Key">,
): boolean {
  if (Namespace === "") return true;
  return Topic === VARIABLE ? allowsVariable(rights, Namespace, Key, "list") : mayReadTopic(rights, Topic, [Namespace]);
}
