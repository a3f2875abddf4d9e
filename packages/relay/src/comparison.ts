import type { Cluster, Listed } from "./nomad.ts";
import type { Reporter } from "./reporter.ts";
import { nameKey, type ObjectName, removalEvent, TOPICS, type Topic, upsertEvent } from "./topics.ts";
import { mapLimit } from "./wait.ts";

/** Objects read at once; each is one request. */
const READS_AT_ONCE = 8;
const OBJECTS_PER_REPORT = 500;

export interface ComparisonDependencies {
  readonly cluster: Pick<Cluster, "list" | "read">;
  /** The mirror: reads of the service. */
  readonly mirror: Pick<Cluster, "list">;
  readonly reporter: Pick<Reporter, "changes">;
}

export interface ComparisonScope {
  readonly topics: readonly Topic[];
  /** Namespaces to compare, those that were deleted included. */
  readonly namespaces: ReadonlySet<string>;
  /** Names of nodes and pools that this relay reported. */
  readonly global: ReadonlySet<string>;
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

  /**
   * Reports objects that changed after an index, and unknown ones.
   * @returns the modification indexes of the reported objects
   */
  async update(topic: Topic, since: number): Promise<Map<string, number>> {
    const known = await this.#mirrored(topic);
    const changed: (Listed & ObjectName)[] = [];
    for await (const each of this.#deps.cluster.list(topic)) {
      const named = { ...each, topic };
      if (this.#covers(named) && (each.modifyIndex > since || !known.has(nameKey(named)))) changed.push(named);
    }
    changed.sort((a, b) => a.modifyIndex - b.modifyIndex);
    const reported = new Map<string, number>();
    for (let at = 0; at < changed.length; at += OBJECTS_PER_REPORT) {
      const some = changed.slice(at, at + OBJECTS_PER_REPORT);
      const texts = await mapLimit(
        some,
        READS_AT_ONCE,
        async (each) => each.text ?? this.#deps.cluster.read(topic, each),
      );
      const events = texts.flatMap((text, nth) => {
        const name = some[nth];
        if (text === null || name === undefined) return [];
        // It may have changed since it was listed.
        const { ModifyIndex } = JSON.parse(text) as { ModifyIndex?: number };
        reported.set(nameKey(name), ModifyIndex ?? name.modifyIndex);
        return [upsertEvent(name, text)];
      });
      await this.#deps.reporter.changes(events);
    }
    return reported;
  }

  /** Reports mirrored objects that the cluster has no more as deleted. @returns their names */
  async remove(topic: Topic): Promise<ObjectName[]> {
    const gone = await this.#mirrored(topic);
    for await (const each of this.#deps.cluster.list(topic)) gone.delete(nameKey({ ...each, topic }));
    const names = [...gone.values()];
    for (let at = 0; at < names.length; at += OBJECTS_PER_REPORT)
      await this.#deps.reporter.changes(names.slice(at, at + OBJECTS_PER_REPORT).map(removalEvent));
    return names;
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
