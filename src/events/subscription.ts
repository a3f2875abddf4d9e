import type { StreamEvent } from "./event.ts";

/** What one reader asked for and may see. Plain data: it travels to the log, and readers with equal ones share their bytes. */
export interface Subscription {
  /** Per topic the keys wanted; `*` as topic or key means any. */
  readonly topics: Readonly<Record<string, readonly string[]>>;
  /** Namespaces whose events are wanted; null = all. Events without a namespace always pass. */
  readonly namespaces: readonly string[] | null;
  /** First index wanted; negative = only what comes from now on. */
  readonly from: number;
  /** How "nothing new" looks: upstream clients expect an empty object, and one before anything else. */
  readonly heartbeat: "indexed" | "empty";
  /** Whether a reader that fell out of the buffer is told so in a last line. */
  readonly errors: boolean;
}

export type Filter = Pick<Subscription, "topics" | "namespaces">;

/** A filter made ready to be asked for every event of the stream. */
export interface Matcher {
  /** Nothing needs to be looked at: every event is wanted. */
  readonly everything: boolean;
  readonly wants: (event: Pick<StreamEvent, "Topic" | "Key" | "Namespace" | "FilterKeys">) => boolean;
}

const ANY = "*";
/** Topics that a topic subscription also covers: drain events are node events with a topic of their own (design 2.3). */
const ALSO: ReadonlyMap<string, string> = new Map([["NodeDrain", "Node"]]);

/** Which events belong into a reader's stream (contract: events-and-volumes 1.2, without its quirks). */
export function matcher({ topics, namespaces }: Filter): Matcher {
  const keysOf = new Map(Object.entries(topics).map(([topic, keys]) => [topic, new Set(keys)]));
  const allowed = namespaces && new Set(namespaces);
  const keyed = (topic: string | undefined, { Key, FilterKeys }: Pick<StreamEvent, "Key" | "FilterKeys">): boolean => {
    const keys = topic === undefined ? undefined : keysOf.get(topic);
    if (!keys) return false;
    return keys.has(ANY) || keys.has(Key) || (FilterKeys?.some((key) => keys.has(key)) ?? false);
  };
  return {
    everything: allowed === null && (keysOf.get(ANY)?.has(ANY) ?? false),
    wants: (event) =>
      (allowed === null || event.Namespace === "" || allowed.has(event.Namespace)) &&
      (keyed(event.Topic, event) || keyed(ANY, event) || keyed(ALSO.get(event.Topic), event)),
  };
}

const MAX_REPEATED = 200;

/** Reads the repeated `topic` parameter: `Topic`, `Topic:key`, `Topic:*`; none = everything. */
export function parseTopics(
  values: readonly string[],
): { ok: true; topics: Record<string, string[]> } | { ok: false; message: string } {
  const topics = new Map<string, Set<string>>();
  for (const value of values.length === 0 ? [`${ANY}:${ANY}`] : values) {
    const [topic = "", key = ANY, ...more] = value.split(":");
    if (more.length > 0) {
      const shown = value.slice(0, MAX_REPEATED);
      return {
        ok: false,
        message: `Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: ${shown}`,
      };
    }
    topics.set(topic, (topics.get(topic) ?? new Set()).add(key));
  }
  return { ok: true, topics: Object.fromEntries([...topics].map(([topic, keys]) => [topic, [...keys]])) };
}
