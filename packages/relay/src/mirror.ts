import { Comparison, type Differences } from "./comparison.ts";
import { membersOf, type StreamLine, streamLine } from "./json-text.ts";
import { LineQueue } from "./line-queue.ts";
import { info, textOf, warn } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Cluster } from "./nomad.ts";
import type { StateDirectory } from "./position.ts";
import { type Reporter, Stopped } from "./reporter.ts";
import { nameKey, nameOf, type ObjectName, TOPICS, type Topic } from "./topics.ts";
import { backoffMs, sleep } from "./wait.ts";

/**
 * Mirrors one region of a cluster: one line of its stream after the other, each reported before the next.
 *
 *   open stream --> newest index --+-- position's line follows --> lines, in order
 *        ^                         +-- no position, or a gap ----> comparison, then lines after the newest index
 *        |                         +-- new namespaces -----------> comparison of these, then lines
 *        +---- stream ends, new namespace, back-off
 *
 * The stream is opened before the newest index is read: a change is either visible to the comparison or on the stream.
 */

/** Time for the first line of an open stream, which Nomad sends at once. */
const FIRST_LINE_MS = 5_000;
/** Time after which a lower index than the position counts as a restore, not as a server that starts. */
const RESTORE_MS = 2_000;
const IDLE_MS = 60_000;
/** An election takes seconds. */
const MAX_BACKOFF_MS = 5_000;

interface MirrorDependencies {
  readonly cluster: Cluster;
  /** The reads of the service. */
  readonly mirror: Pick<Cluster, "list">;
  readonly reporter: Reporter;
  readonly state: StateDirectory;
  readonly metrics: Metrics;
}

interface MirrorSettings {
  readonly source: string;
  readonly topics: readonly Topic[];
  /** Null for all. */
  readonly namespaces: ReadonlySet<string> | null;
  readonly reconcileMs: number;
  readonly firstLineMs?: number;
}

/** A stream must be opened again: there are other namespaces than those it was opened for. */
class NamespacesChanged extends Error {}

export class Mirror {
  readonly #deps: MirrorDependencies;
  readonly #settings: MirrorSettings;
  readonly #stop: AbortSignal;
  #reconcileAt: number;
  /** The state was lost, and the service may know later indexes of the source from another cluster. */
  #isFresh: boolean;

  constructor(deps: MirrorDependencies, settings: MirrorSettings, stop: AbortSignal) {
    this.#deps = deps;
    this.#settings = settings;
    this.#stop = stop;
    this.#reconcileAt = Date.now() + settings.reconcileMs;
    this.#isFresh = deps.state.position.index === null;
  }

  /** Runs until stopped. Failures of the cluster are retried. */
  async run(): Promise<void> {
    for (let attempt = 0; !this.#stop.aborted; attempt++) {
      const lines = this.#deps.metrics.of("lines_total");
      try {
        await this.#session();
      } catch (failure) {
        if (failure instanceof Stopped || this.#stop.aborted) return;
        if (failure instanceof NamespacesChanged) {
          attempt = -1;
          continue;
        }
        if (this.#deps.metrics.of("lines_total") > lines) attempt = 0;
        warn("stream closed", { because: textOf(failure), index: this.#deps.state.position.index });
      } finally {
        this.#deps.metrics.set("connected", 0);
      }
      await sleep(backoffMs(attempt, MAX_BACKOFF_MS), this.#stop);
    }
  }

  /** One stream, from its opening to its end, which rejects. */
  async #session(): Promise<void> {
    const { cluster, state, metrics } = this.#deps;
    const closing = new AbortController();
    const signal = AbortSignal.any([this.#stop, closing.signal]);
    try {
      const known = await cluster.namespaces();
      const queue = new LineQueue(await cluster.stream(this.#settings.topics, state.position.index, signal));
      this.#stop.addEventListener("abort", () => queue.wake(), { signal: closing.signal });
      metrics.add("connections_total");
      metrics.set("connected", 1);
      const held = await this.#begin(queue, this.#selected(known.names));
      const watch = new NamespaceWatch(cluster, known, () => queue.wake(), signal);
      if (held !== null) await this.#take(held);
      while (!this.#stop.aborted) {
        if (watch.changed) throw new NamespacesChanged();
        if (Date.now() >= this.#reconcileAt) await this.#reconcile(this.#selected(watch.names));
        const line = await this.#nextLine(queue, Math.min(IDLE_MS, Math.max(0, this.#reconcileAt - Date.now())));
        metrics.set("held_bytes", queue.bytes);
        if (line !== null) await this.#take(line);
      }
    } finally {
      closing.abort();
    }
  }

  /** The next line with events; null after the wait. */
  async #nextLine(queue: LineQueue, waitMs: number): Promise<StreamLine | null> {
    const text = await queue.next(waitMs);
    if (text === null || text === "") return null;
    const line = streamLine(text);
    if (line === null && membersOf(text).has("Error")) throw new Error(`the stream has ended: ${text.slice(0, 200)}`);
    return line;
  }

  /** Brings the mirror to a state from which the stream continues. @returns the first line, if it was read */
  async #begin(queue: LineQueue, namespaces: readonly string[]): Promise<StreamLine | null> {
    const { cluster, state, metrics } = this.#deps;
    const newest = await cluster.newestIndex(this.#settings.topics);
    metrics.set("newest_index", newest);
    const { index } = state.position;
    if (index === null) {
      await this.#compareAll(0, newest, namespaces, "start");
      return null;
    }
    if (newest < index && (await this.#isRestored(index))) {
      info("cluster restored", { index, newest });
      state.move({ index: null, whole: true, epoch: state.position.epoch + 1 });
      await this.#compareAll(0, await cluster.newestIndex(this.#settings.topics), namespaces, "restore");
      return null;
    }
    const first = newest > index ? await this.#firstLine(queue) : null;
    const isGap = newest > index && (first === null || first.index > index);
    if (isGap) {
      // Lines of the last index may be missing.
      await this.#compareAll(state.position.whole ? index : index - 1, newest, namespaces, "gap");
      return first;
    }
    const added = namespaces.filter((name) => !state.scope.namespaces.includes(name));
    if (added.length > 0) await this.#compareAdded(added, index, namespaces);
    else if (namespaces.length < state.scope.namespaces.length) this.#reconcileAt = 0;
    return first;
  }

  async #firstLine(queue: LineQueue): Promise<StreamLine | null> {
    const until = Date.now() + (this.#settings.firstLineMs ?? FIRST_LINE_MS);
    for (let left = until - Date.now(); left > 0 && !this.#stop.aborted; left = until - Date.now()) {
      const line = await this.#nextLine(queue, left);
      if (line !== null) return line;
    }
    return null;
  }

  async #isRestored(index: number): Promise<boolean> {
    await sleep(RESTORE_MS, this.#stop);
    return (await this.#deps.cluster.newestIndex(this.#settings.topics)) < index;
  }

  /** Compares all objects; lines up to the newest index are then mirrored. */
  async #compareAll(
    since: number,
    newest: number,
    namespaces: readonly string[],
    because: "start" | "gap" | "restore",
  ): Promise<void> {
    const { state, metrics } = this.#deps;
    info("comparing", { because, since, newest });
    const began = Date.now();
    const everywhere = [...new Set([...state.scope.namespaces, ...namespaces])];
    const comparison = this.#comparison(everywhere);
    const { reported, gone } = await this.#differences(comparison, since);
    const global = [...new Set([...state.scope.global, ...globalOf(reported)])];
    const removed = await this.#remove(comparison, gone, newest);
    state.keep({
      namespaces,
      global: global.filter((name) => !removed.has(name)),
      ahead: aheadOf([...reported, ...removed], newest),
    });
    state.move({ ...state.position, index: newest, whole: true });
    metrics.add("resyncs_total");
    metrics.set("index", newest);
    this.#reconcileAt = Date.now() + this.#settings.reconcileMs;
    info("compared", { reported: reported.size, removed: removed.size, seconds: (Date.now() - began) / 1000 });
  }

  /** Compares the objects of namespaces that the earlier stream left out. */
  async #compareAdded(added: readonly string[], index: number, namespaces: readonly string[]): Promise<void> {
    const { state } = this.#deps;
    info("namespaces found", { names: added.join(" ") });
    const { reported } = await this.#differences(this.#comparison(added), 0, isNamespaced);
    const ahead = { ...state.scope.ahead, ...aheadOf(reported, index) };
    state.keep({ ...state.scope, namespaces: [...new Set([...state.scope.namespaces, ...namespaces])], ahead });
  }

  /** Removes objects that the cluster deleted without an event. */
  async #reconcile(namespaces: readonly string[]): Promise<void> {
    const { cluster, state, metrics } = this.#deps;
    const newest = await cluster.newestIndex(this.#settings.topics);
    const comparison = this.#comparison([...state.scope.namespaces, ...namespaces]);
    const { gone } = await this.#differences(comparison, null);
    const removed = await this.#remove(comparison, gone, newest);
    state.keep({
      namespaces: state.scope.namespaces.filter((name) => namespaces.includes(name)),
      global: state.scope.global.filter((name) => !removed.has(name)),
      ahead: { ...state.scope.ahead, ...aheadOf(removed, state.position.index ?? 0) },
    });
    metrics.add("reconciliations_total");
    this.#reconcileAt = Date.now() + this.#settings.reconcileMs;
    if (removed.size > 0) info("reconciled", { removed: removed.size });
  }

  /** Mirrors a line, unless it is mirrored. */
  async #take({ index, events }: StreamLine): Promise<void> {
    const { reporter, state, metrics } = this.#deps;
    const { position } = state;
    metrics.set("newest_index", Math.max(index, metrics.of("newest_index")));
    if (position.index !== null && (index < position.index || (index === position.index && position.whole))) return;
    const line = { index, events: this.#wanted(index, events) };
    if (line.events.length > 0) {
      const { repeated, retried } = await reporter.line(this.#source(), line);
      const isForeign = this.#isFresh && repeated && !retried;
      this.#isFresh = false;
      if (isForeign) {
        // Another cluster had this source; its indexes were higher.
        state.move({ ...state.position, epoch: state.position.epoch + 1 });
        await reporter.line(this.#source(), line);
      }
    }
    this.#rememberGlobal(line.events);
    state.move({ ...state.position, index, whole: false });
    metrics.add("lines_total");
    metrics.set("index", index);
    const { ahead } = state.scope;
    if (Object.keys(ahead).length > 0 && Object.values(ahead).every((each) => each < index))
      state.keep({ ...state.scope, ahead: {} });
  }

  /** The events of mirrored topics and namespaces whose objects are not mirrored in a later state. */
  #wanted(index: number, events: readonly string[]): string[] {
    const { ahead } = this.#deps.state.scope;
    const { topics, namespaces } = this.#settings;
    return events.filter((event) => {
      const name = nameOf(event);
      if (name === null || !topics.includes(name.topic)) return false;
      if (TOPICS[name.topic].namespaced && namespaces !== null && !namespaces.has(name.namespace)) return false;
      return index > (ahead[nameKey(name)] ?? -1);
    });
  }

  /** Records nodes and pools that this relay has reported, so that it may delete them. */
  #rememberGlobal(events: readonly string[]): void {
    const { state } = this.#deps;
    const names = events.flatMap((event) => {
      const name = nameOf(event);
      return name !== null && !TOPICS[name.topic].namespaced ? [nameKey(name)] : [];
    });
    const added = names.filter((name) => !state.scope.global.includes(name));
    if (added.length > 0) state.keep({ ...state.scope, global: [...new Set([...state.scope.global, ...added])] });
  }

  async #differences(
    comparison: Comparison,
    since: number | null,
    wanted: (topic: Topic) => boolean = () => true,
  ): Promise<Differences> {
    const reported = new Map<string, number>();
    let gone: readonly ObjectName[] = [];
    for (const topic of this.#settings.topics.filter(wanted)) {
      const found = await comparison.differences(topic, since);
      for (const [name, index] of found.reported) reported.set(name, index);
      // Objects go after those that refer to them.
      gone = [...found.gone, ...gone];
    }
    return { reported, gone };
  }

  /** @returns the removed names, with the index up to which their events are settled */
  async #remove(comparison: Comparison, gone: readonly ObjectName[], newest: number): Promise<Map<string, number>> {
    await comparison.remove(gone);
    this.#deps.metrics.add("removed_total", gone.length);
    return new Map(gone.map((name) => [nameKey(name), newest]));
  }

  #comparison(namespaces: readonly string[]): Comparison {
    const { cluster, mirror, reporter, state } = this.#deps;
    const scope = { namespaces: new Set(namespaces), global: new Set(state.scope.global) };
    return new Comparison({ cluster, mirror, reporter }, { topics: this.#settings.topics, ...scope });
  }

  #selected(names: readonly string[]): string[] {
    const { namespaces } = this.#settings;
    return names.filter((name) => namespaces === null || namespaces.has(name));
  }

  #source(): string {
    const { epoch } = this.#deps.state.position;
    return epoch === 0 ? this.#settings.source : `${this.#settings.source}/${epoch}`;
  }
}

const isNamespaced = (topic: Topic): boolean => TOPICS[topic].namespaced;

const globalOf = (reported: ReadonlyMap<string, number>): string[] =>
  [...reported.keys()].filter((name) => !TOPICS[name.split("\n")[0] as Topic].namespaced);

/** The objects whose mirrored state is at or after an index. */
const aheadOf = (objects: Iterable<readonly [string, number]>, index: number): Record<string, number> =>
  Object.fromEntries([...objects].filter(([, modified]) => modified >= index));

/** Watches the namespaces by blocking queries. A stream of all namespaces has those of its opening only. */
class NamespaceWatch {
  names: readonly string[];
  changed = false;

  constructor(
    cluster: Pick<Cluster, "namespaces">,
    known: { readonly names: readonly string[]; readonly index: number },
    onChange: () => void,
    signal: AbortSignal,
  ) {
    this.names = known.names;
    void this.#watch(cluster, known.index, onChange, signal);
  }

  async #watch(
    cluster: Pick<Cluster, "namespaces">,
    from: number,
    onChange: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    for (let [since, attempt] = [from, 0]; !signal.aborted; ) {
      try {
        const { names, index } = await cluster.namespaces(Math.max(1, since), signal);
        attempt = 0;
        since = index < since ? 0 : index;
        if (names.length === this.names.length && names.every((name) => this.names.includes(name))) continue;
        this.names = names;
        this.changed = true;
        return onChange();
      } catch {
        await sleep(backoffMs(attempt++), signal);
      }
    }
  }
}
