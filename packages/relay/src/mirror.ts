import { Comparison, type Differences, type StaleObject } from "./comparison.ts";
import { FoundChanges } from "./found-changes.ts";
import { membersOf, type StreamLine, streamLine } from "./json-text.ts";
import { LineQueue } from "./line-queue.ts";
import { info, textOf, warn } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Cluster } from "./nomad.ts";
import type { StateDirectory } from "./position.ts";
import { type Reporter, Stopped } from "./reporter.ts";
import { type EventObject, nameKey, type ObjectName, objectOf, TOPICS, type Topic } from "./topics.ts";
import { backoffMs, sleep } from "./wait.ts";

/**
 * Mirrors one region of a cluster: the lines of its stream in order. Each is reported before the next; those that wait
 * together are one request.
 *
 *   open stream --> newest index --+-- position's line follows --> lines, in order
 *        ^                         +-- no position, or a gap ----> comparison, then lines after the newest index
 *        |                         +-- now and then -------------> comparison of indexes, for changes without a line
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
/** Upper bound of the lines in one request. */
const BATCH_BYTES = 1024 * 1024;
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
  readonly #found = new FoundChanges();
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
      if (held !== null) await this.#take([held]);
      while (!this.#stop.aborted) {
        if (watch.changed) throw new NamespacesChanged();
        // A comparison would find pending changes again, and put off their report.
        const wakeAt = this.#found.isPending ? this.#found.quietAt : this.#reconcileAt;
        if (!this.#found.isPending && Date.now() >= wakeAt) await this.#reconcile(this.#selected(watch.names));
        const line = await this.#nextLine(queue, Math.min(IDLE_MS, Math.max(0, wakeAt - Date.now())));
        const ready = this.#isFresh ? [] : queue.ready(BATCH_BYTES).map(lineOf);
        metrics.set("held_bytes", queue.bytes);
        await this.#take([line, ...ready].filter((each) => each !== null));
        if (this.#found.isPending) await this.#reportMissed(queue.bytes === 0);
      }
    } finally {
      closing.abort();
    }
  }

  /** The next line with events; null after the wait. */
  async #nextLine(queue: LineQueue, waitMs: number): Promise<StreamLine | null> {
    const text = await queue.next(waitMs);
    return text === null ? null : lineOf(text);
  }

  /** Brings the mirror to a state from which the stream continues. @returns the first line, if it was read */
  async #begin(queue: LineQueue, namespaces: readonly string[]): Promise<StreamLine | null> {
    const { cluster, state, metrics } = this.#deps;
    const newest = await cluster.newestIndex(this.#settings.topics);
    metrics.set("newest_index", newest);
    const { index } = state.position;
    if (index === null) {
      state.reported.clear();
      await this.#compareAll(newest, namespaces, "start");
      return null;
    }
    if (newest < index && (await this.#isRestored(index))) {
      info("cluster restored", { index, newest });
      state.move({ index: null, whole: true, epoch: state.position.epoch + 1 });
      state.reported.clear();
      await this.#compareAll(await cluster.newestIndex(this.#settings.topics), namespaces, "restore");
      return null;
    }
    const first = newest > index ? await this.#firstLine(queue) : null;
    const isGap = newest > index && (first === null || first.index > index);
    if (isGap) {
      await this.#compareAll(newest, namespaces, "gap");
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
    newest: number,
    namespaces: readonly string[],
    because: "start" | "gap" | "restore",
  ): Promise<void> {
    const { state, metrics } = this.#deps;
    info("comparing", { because, index: state.position.index, newest });
    const began = Date.now();
    const everywhere = [...new Set([...state.scope.namespaces, ...namespaces])];
    const comparison = this.#comparison(everywhere);
    const { stale, gone } = await this.#differences(comparison);
    const reported = await comparison.report(stale);
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
    const comparison = this.#comparison(added);
    const { stale } = await this.#differences(comparison, isNamespaced);
    const reported = await comparison.report(stale);
    const ahead = { ...state.scope.ahead, ...aheadOf(reported, index) };
    state.keep({ ...state.scope, namespaces: [...new Set([...state.scope.namespaces, ...namespaces])], ahead });
  }

  /** Removes objects that the cluster deleted without an event, and finds those that it changed without one. */
  async #reconcile(namespaces: readonly string[]): Promise<void> {
    const { cluster, state, metrics } = this.#deps;
    const newest = await cluster.newestIndex(this.#settings.topics);
    const comparison = this.#comparison([...state.scope.namespaces, ...namespaces]);
    const { stale, gone } = await this.#differences(comparison);
    this.#found.add(stale);
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

  /** Reports the found changes for which the stream had no line. */
  async #reportMissed(isQuiet: boolean): Promise<void> {
    const { state, metrics } = this.#deps;
    const settled = this.#found.settled(state.position.index ?? 0, isQuiet);
    const missed = settled.filter((each) => each.modifyIndex > state.reported.of(nameKey(each)));
    if (missed.length === 0) return;
    const comparison = this.#comparison([...state.scope.namespaces]);
    const reported = await comparison.report(missed);
    const ahead = { ...state.scope.ahead, ...aheadOf(reported, state.position.index ?? 0) };
    const global = [...new Set([...state.scope.global, ...globalOf(reported)])];
    state.keep({ ...state.scope, global, ahead });
    metrics.add("missed_total", reported.size);
    info("changes without an event", { reported: reported.size });
  }

  /** Mirrors lines, except those that are mirrored. */
  async #take(lines: readonly StreamLine[]): Promise<void> {
    const { reporter, state, metrics } = this.#deps;
    const { index: at, whole } = state.position;
    const unknown = lines.filter(({ index }) => at === null || index > at || (index === at && !whole));
    const last = unknown.at(-1);
    if (last === undefined) return;
    metrics.set("newest_index", Math.max(last.index, metrics.of("newest_index")));
    const wanted = unknown.map((line) => this.#wanted(line)).filter(({ events }) => events.length > 0);
    const [first] = wanted;
    if (first !== undefined && this.#isFresh) await this.#takeFirst(first);
    else await reporter.lines(this.#source(), wanted);
    const objects = wanted.flatMap((line) => line.objects);
    state.reported.record(objects.map((object) => [nameKey(object), object.modifyIndex]));
    this.#rememberGlobal(objects);
    state.move({ ...state.position, index: last.index, whole: false });
    metrics.add("lines_total", unknown.length);
    metrics.set("index", last.index);
    const { ahead } = state.scope;
    if (Object.keys(ahead).length > 0 && Object.values(ahead).every((each) => each < last.index))
      state.keep({ ...state.scope, ahead: {} });
  }

  /** Mirrors the first line of a relay without state. */
  async #takeFirst(line: StreamLine): Promise<void> {
    const { reporter, state } = this.#deps;
    const { repeated, retried } = await reporter.line(this.#source(), line);
    this.#isFresh = false;
    if (!repeated || retried) return;
    // Another cluster had this source; its indexes were higher.
    state.move({ ...state.position, epoch: state.position.epoch + 1 });
    await reporter.line(this.#source(), line);
  }

  /** The events of mirrored topics and namespaces whose objects are not mirrored in a later state. */
  #wanted({ index, events }: StreamLine): StreamLine & { readonly objects: readonly EventObject[] } {
    const { ahead } = this.#deps.state.scope;
    const { topics, namespaces } = this.#settings;
    const wanted = events.flatMap((event) => {
      const object = objectOf(event);
      if (object === null || !topics.includes(object.topic)) return [];
      if (TOPICS[object.topic].namespaced && namespaces !== null && !namespaces.has(object.namespace)) return [];
      return index > (ahead[nameKey(object)] ?? -1) ? [{ event, object }] : [];
    });
    return { index, events: wanted.map(({ event }) => event), objects: wanted.map(({ object }) => object) };
  }

  /** Records nodes and pools that this relay has reported, so that it may delete them. */
  #rememberGlobal(objects: readonly EventObject[]): void {
    const { state } = this.#deps;
    const names = objects.filter(({ topic }) => !TOPICS[topic].namespaced).map(nameKey);
    const added = names.filter((name) => !state.scope.global.includes(name));
    if (added.length > 0) state.keep({ ...state.scope, global: [...new Set([...state.scope.global, ...added])] });
  }

  async #differences(comparison: Comparison, wanted: (topic: Topic) => boolean = () => true): Promise<Differences> {
    const stale: StaleObject[] = [];
    let gone: readonly ObjectName[] = [];
    for (const topic of this.#settings.topics.filter(wanted)) {
      const found = await comparison.differences(topic);
      stale.push(...found.stale);
      // Objects go after those that refer to them.
      gone = [...found.gone, ...gone];
    }
    return { stale, gone };
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
    const { reported } = state;
    return new Comparison({ cluster, mirror, reporter, reported }, { topics: this.#settings.topics, ...scope });
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

/** @returns null for a heartbeat. @throws when the line says that the stream has ended */
function lineOf(text: string): StreamLine | null {
  if (text === "") return null;
  const line = streamLine(text);
  if (line === null && membersOf(text).has("Error")) throw new Error(`the stream has ended: ${text.slice(0, 200)}`);
  return line;
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
