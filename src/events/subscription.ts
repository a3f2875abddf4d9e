import { type NamespaceRule, NO_CLUSTER_RULES } from "../contracts/cluster-rights.ts";
import type { Scope } from "../contracts/stream-rights.ts";
import { type Labels, traceOf } from "../publishing/event-headers.ts";
import { isServiceTopic, pathJudge } from "../rights/path-judge.ts";
import { isJudgedByEvent, mayReadEvent } from "../rights/topic-rights.ts";

/** The request of one reader. Plain data: it is sent to the object that serves the stream. */
export interface Subscription {
  /** Accessor of the reader's token; `AccessControl` checks its rights. */
  readonly accessor: string;
  /** Keys by topic; `*` as topic or key means any. */
  readonly topics: Readonly<Record<string, readonly string[]>>;
  /** Namespace filter; `*` = all. Events without a namespace always match. */
  readonly namespace: string;
  /** First index; negative = only new events. */
  readonly from: number;
  readonly dialect: "neutral" | "upstream";
  /** `feed` is for relays only. */
  readonly format: "lines" | "server-sent-events" | "feed";
  /** Whether a cut stream ends with an error line. */
  readonly errors: boolean;
}

export interface Filter extends Scope {
  readonly topics: Subscription["topics"];
}

/** A compiled filter. */
export interface Matcher {
  /** Every event matches. */
  readonly everything: boolean;
  /**
   * Each line with a matching event contains at least one of these texts in its stored headers; null = no such texts.
   */
  readonly traces: readonly string[] | null;
  readonly wants: (event: Omit<Labels, "Type">, index: number) => boolean;
}

const ANY = "*";
/**
 * Topics covered by another topic's subscription: drain events have their own topic but belong to the node
 * (docs/guides/events.md).
 */
const ALSO: ReadonlyMap<string, string> = new Map([["NodeDrain", "Node"]]);
/** Beyond this number, scanning for traces costs more than it saves. */
const MAX_TRACES = 20;

/** Compiles a stream's filter (https://developer.hashicorp.com/nomad/api-docs/events). */
export function matcher({ topics, namespaces, rules, since = 0, paths }: Filter): Matcher {
  const keysOf = new Map(Object.entries(topics).map(([topic, keys]) => [topic, new Set(keys)]));
  const allowed = namespaces && new Set(namespaces);
  const permitted = rules && judge(rules);
  const served = paths === undefined ? () => false : pathJudge(paths);
  const keyed = (topic: string | undefined, { Key, FilterKeys }: Pick<Labels, "Key" | "FilterKeys">): boolean => {
    const keys = topic === undefined ? undefined : keysOf.get(topic);
    if (!keys) return false;
    return keys.has(ANY) || keys.has(Key) || (FilterKeys?.some((key) => keys.has(key)) ?? false);
  };
  return {
    everything: allowed === null && permitted === null && paths === null && (keysOf.get(ANY)?.has(ANY) ?? false),
    traces: tracesOf(keysOf),
    wants: (event, index) =>
      (allowed === null || event.Namespace === "" || (allowed.has(event.Namespace) && index >= since)) &&
      (keyed(event.Topic, event) || keyed(ANY, event) || keyed(ALSO.get(event.Topic), event)) &&
      (isServiceTopic(event.Topic) ? served(event) : permitted === null || permitted(event)),
  };
}

function tracesOf(keysOf: ReadonlyMap<string, ReadonlySet<string>>): string[] | null {
  const traces = new Set<string>();
  for (const [topic, keys] of keysOf) {
    if (!keys.has(ANY)) for (const key of keys) traces.add(traceOf(key));
    else if (topic === ANY) return null;
    else {
      traces.add(traceOf(topic));
      for (const [other, covering] of ALSO) if (covering === topic) traces.add(traceOf(other));
    }
  }
  return traces.size > MAX_TRACES ? null : [...traces];
}

type Judge = (event: Pick<Labels, "Topic" | "Namespace" | "Key">) => boolean;
const MAX_REMEMBERED = 1_000;

/** Evaluates namespace rules; memoizes the result by topic and namespace, because finding the closest rule is slow. */
function judge(rules: readonly NamespaceRule[]): Judge {
  const rights = { ...NO_CLUSTER_RULES, management: false, namespaces: rules };
  const known = new Map<string, boolean>();
  return (event) => {
    if (isJudgedByEvent(event.Topic)) return mayReadEvent(rights, event);
    const about = `${event.Topic} ${event.Namespace}`;
    const answer = known.get(about) ?? mayReadEvent(rights, event);
    if (known.size >= MAX_REMEMBERED) known.clear();
    known.set(about, answer);
    return answer;
  };
}

const MAX_REPEATED = 200;

/** Parses the repeated `topic` parameter: `Topic`, `Topic:key`, `Topic:*`; none = everything. The result is sorted. */
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
  const sorted = [...topics].sort(([a], [b]) => (a < b ? -1 : 1));
  return { ok: true, topics: Object.fromEntries(sorted.map(([topic, keys]) => [topic, [...keys].sort()])) };
}
