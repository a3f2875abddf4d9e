import type { StreamEvent } from "./event.ts";

/** What one reader asked for and may see. Plain data: it travels to the log, and equal ones share their encoded lines. */
export interface Subscription {
  /** Per topic the keys wanted; `*` as topic or key means any. */
  readonly topics: Readonly<Record<string, readonly string[]>>;
  /** Namespaces whose events are wanted; null = all. Events without a namespace always pass. */
  readonly namespaces: readonly string[] | null;
  /** First index wanted; -1 = only what comes from now on. */
  readonly from: number;
  /** How "nothing new" looks: upstream clients expect an empty object. */
  readonly heartbeat: "indexed" | "empty";
}

/** Topics that a topic subscription also covers: drain events are node events with a topic of their own (design 2.3). */
const ALSO: Readonly<Record<string, string>> = { NodeDrain: "Node" };

/** Whether `event` belongs into this reader's stream (contract: events-and-volumes 1.2, without its quirks). */
export function matches(subscription: Pick<Subscription, "topics" | "namespaces">, event: StreamEvent): boolean {
  const { topics, namespaces } = subscription;
  if (event.Namespace !== "" && namespaces !== null && !namespaces.includes(event.Namespace)) return false;
  const names = ["*", event.Topic, ALSO[event.Topic]];
  return names.some((name) => {
    const keys = name !== undefined && Object.hasOwn(topics, name) ? topics[name] : undefined;
    return keys?.some((key) => key === "*" || key === event.Key || (event.FilterKeys?.includes(key) ?? false)) ?? false;
  });
}

export type TopicsRefusal = { ok: false; message: string };

/** Reads the repeated `topic` parameter: `Topic`, `Topic:key`, `Topic:*`; none = everything. */
export function parseTopics(values: readonly string[]): { ok: true; topics: Record<string, string[]> } | TopicsRefusal {
  const topics: Record<string, string[]> = Object.create(null);
  for (const value of values.length === 0 ? ["*:*"] : values) {
    const [topic = "", key = "*", ...more] = value.split(":");
    if (more.length > 0) {
      return {
        ok: false,
        message: `Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: ${value}`,
      };
    }
    const keys = topics[topic] ?? [];
    topics[topic] = keys.includes(key) ? keys : [...keys, key];
  }
  return { ok: true, topics: { ...topics } };
}
