/** The topics that the relay mirrors: what its events and lists are called. */

export const TOPICS = {
  NodePool: { key: "Name", namespaced: false, upsert: "NodePoolUpserted", removal: "NodePoolDeleted" },
  Node: { key: "ID", namespaced: false, upsert: "NodeRegistration", removal: "NodeDeregistration" },
  Job: { key: "ID", namespaced: true, upsert: "JobRegistered", removal: "JobDeregistered" },
  Evaluation: { key: "ID", namespaced: true, upsert: "EvaluationUpdated", removal: "EvaluationUpdated" },
  Deployment: { key: "ID", namespaced: true, upsert: "DeploymentStatusUpdate", removal: "DeploymentStatusUpdate" },
  Allocation: { key: "ID", namespaced: true, upsert: "AllocationUpdated", removal: "AllocationUpdated" },
  Service: { key: "ID", namespaced: true, upsert: "ServiceRegistration", removal: "ServiceDeregistration" },
} as const;
export type Topic = keyof typeof TOPICS;
/** Event types that say by themselves that their object was deleted. */
const REMOVALS: ReadonlySet<string> = new Set(["NodePoolDeleted", "NodeDeregistration", "ServiceDeregistration"]);
/** In the order in which a list is reported: what others refer to comes first. */
export const TOPIC_NAMES = Object.keys(TOPICS) as readonly Topic[];

export interface ObjectName {
  readonly topic: Topic;
  /** Empty for topics without. */
  readonly namespace: string;
  readonly id: string;
}

/** Names contain no line feeds. */
export const nameKey = ({ topic, namespace, id }: ObjectName): string => `${topic}\n${namespace}\n${id}`;

/** The text of an event with an object's own text. */
export const upsertEvent = ({ topic, namespace }: ObjectName, object: string): string =>
  `{"Topic":"${topic}","Type":"${TOPICS[topic].upsert}","Namespace":${JSON.stringify(namespace)},"Payload":{"${topic}":${object}}}`;

export const removalEvent = ({ topic, namespace, id }: ObjectName): string =>
  JSON.stringify({
    Topic: topic,
    Type: TOPICS[topic].removal,
    Namespace: namespace,
    Payload: { [topic]: { [TOPICS[topic].key]: id }, Deleted: true },
  });

/** The object of an event from a stream. */
export interface EventObject extends ObjectName {
  /** Null when it was deleted. */
  readonly modifyIndex: number | null;
}

/** @returns null for another topic */
export function objectOf(event: string): EventObject | null {
  const { Topic: topic, Type, Namespace, Key, Payload } = JSON.parse(event) as StreamEvent;
  if (!Object.hasOwn(TOPICS, topic)) return null;
  const known = topic as Topic;
  const { namespaced } = TOPICS[known];
  const isGone = Payload?.["Deleted"] === true || REMOVALS.has(Type ?? "");
  const { ModifyIndex = 0 } = (Payload?.[known] ?? {}) as { ModifyIndex?: number };
  const name = { topic: known, namespace: namespaced ? (Namespace ?? "") : "", id: Key ?? "" };
  return { ...name, modifyIndex: isGone ? null : ModifyIndex };
}

interface StreamEvent {
  readonly Topic: string;
  readonly Type?: string;
  readonly Namespace?: string;
  readonly Key?: string;
  readonly Payload?: Readonly<Record<string, unknown>>;
}
