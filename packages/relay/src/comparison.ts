import type { Cluster, Listed } from "./nomad.ts";
import type { ReportedIndexes } from "./reported-indexes.ts";
import type { Reporter } from "./reporter.ts";
import { nameKey, type ObjectName, removalEvent, TOPICS, type Topic, upsertEvent } from "./topics.ts";
import { mapLimit } from "./wait.ts";

/** Objects read at once; each is one request. */
const MAX_CONCURRENT_READS = 8;
const OBJECTS_PER_REPORT = 500;

interface ComparisonDependencies {
  readonly cluster: Pick<Cluster, "list" | "read">;
  /** The mirror: reads of the service. */
  readonly mirror: Pick<Cluster, "list">;
  readonly reporter: Pick<Reporter, "changes">;
  readonly reported: Pick<ReportedIndexes, "of" | "record">;
}

interface ComparisonScope {
  readonly topics: readonly Topic[];
  /** Namespaces to compare, those that were deleted included. */
  readonly namespaces: ReadonlySet<string>;
  /** Names of nodes and pools that this relay reported. */
  readonly global: ReadonlySet<string>;
}

/** An object of the cluster in a state that was not reported. */
export interface StaleObject extends Listed, ObjectName {}

export interface Differences {
  /** Least recently changed first. */
  readonly stale: readonly StaleObject[];
  /** Mirrored objects that the cluster no longer has. */
  readonly gone: readonly ObjectName[];
}

/**
 * Compares the objects of a cluster with the mirrored ones and reports differences. Objects are compared by their
 * modification indexes, so that only changed ones are read whole; the service leaves out those that are equal.
 */
export class Comparison {
  readonly #deps: ComparisonDependencies;
  readonly #scope: ComparisonScope;

  constructor(deps: ComparisonDependencies, scope: ComparisonScope) {
    this.#deps = deps;
    this.#scope = scope;
  }

  /** Lists a topic. An object is stale when it changed after its last reported state, or is not mirrored. */
  async differences(topic: Topic): Promise<Differences> {
    const known = await this.#mirrored(topic);
    const gone = new Map(known);
    const stale: StaleObject[] = [];
    for await (const each of this.#deps.cluster.list(topic)) {
      const named = { ...each, topic };
      const reported = this.#deps.reported.of(nameKey(named));
      // Nodes of the service's own agents are refused each time, so a missing one is reported once.
      const isMissing = TOPICS[topic].namespaced && !known.has(nameKey(named));
      const isStale = each.modifyIndex > reported || isMissing;
      if (isStale && this.#covers(named)) stale.push(named);
      gone.delete(nameKey(named));
    }
    stale.sort((a, b) => a.modifyIndex - b.modifyIndex);
    return { stale, gone: [...gone.values()] };
  }

  /** Reports objects that the cluster no longer has as deleted. */
  async remove(gone: readonly ObjectName[]): Promise<void> {
    for (let at = 0; at < gone.length; at += OBJECTS_PER_REPORT)
      await this.#deps.reporter.changes(gone.slice(at, at + OBJECTS_PER_REPORT).map(removalEvent));
    this.#deps.reported.record(gone.map((name) => [nameKey(name), null]));
  }

  /** Reports objects in their present state. @returns their modification indexes by `nameKey` */
  async report(stale: readonly StaleObject[]): Promise<Map<string, number>> {
    const indexes = new Map<string, number>();
    for (let at = 0; at < stale.length; at += OBJECTS_PER_REPORT) {
      const some = stale.slice(at, at + OBJECTS_PER_REPORT);
      const texts = await mapLimit(
        some,
        MAX_CONCURRENT_READS,
        async (each) => each.text ?? this.#deps.cluster.read(each.topic, each),
      );
      const events = texts.flatMap((text, nth) => {
        const name = some[nth];
        if (text === null || name === undefined) return [];
        // It may have changed since it was listed.
        const { ModifyIndex } = JSON.parse(text) as { ModifyIndex?: number };
        indexes.set(nameKey(name), ModifyIndex ?? name.modifyIndex);
        return [upsertEvent(name, text)];
      });
      await this.#deps.reporter.changes(events);
      this.#deps.reported.record(indexes);
    }
    return indexes;
  }

  /** The mirrored objects within the scope. Nodes and pools of others are not this relay's. */
  async #mirrored(topic: Topic): Promise<Map<string, ObjectName>> {
    const names = new Map<string, ObjectName>();
    for await (const { namespace, id } of this.#deps.mirror.list(topic)) {
      const name = { topic, namespace, id };
      if (this.#covers(name) && (TOPICS[topic].namespaced || this.#scope.global.has(nameKey(name))))
        names.set(nameKey(name), name);
    }
    return names;
  }

  #covers({ topic, namespace }: ObjectName): boolean {
    return !TOPICS[topic].namespaced || this.#scope.namespaces.has(namespace);
  }
}
