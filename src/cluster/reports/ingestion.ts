import type { NewEvent } from "../../contracts/event.ts";
import type {
  FullList,
  Ingested,
  Kept,
  ObjectReport,
  Report,
  ReportedTopic,
  ReportLine,
  ReportMode,
  SourceLine,
} from "../../contracts/reports.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { Refused } from "../../platform/durable/refused.ts";
import type { ChangeSet } from "../../publishing/change-set.ts";
import type { EventPublisher, Origin } from "../../publishing/event-publisher.ts";
import type { Nodes } from "../nodes/nodes.ts";
import type { Reported } from "./reported.ts";

/**
 * Observes a change of an object in its transaction. `before` is null for a new object, `after` for a deleted one.
 * Its result joins the event line.
 * @throws Refused, which rolls back the request
 */
type ReportObserver = (before: Kept | null, after: Kept | null, line: number, report: ObjectReport) => ChangeSet;
type ReportObservers = Readonly<Partial<Record<ReportedTopic, readonly ReportObserver[]>>>;

/** Upper bound of an event line: rows and outbox rows hold 2 MB, here with quotes escaped. */
const MAX_LINE_BYTES = 1_850_000;
/** A line of this size is completed; the rest is room for changes caused by its last event. */
const FULL_LINE_BYTES = 1_600_000;

interface Source extends Record<string, SqlStorageValue> {
  source_index: number;
  idx: number | null;
}

/** The nodes affected by a change of an allocation. */
export const nodesOf = (before: Kept | null, after: Kept | null): string[] => [
  ...new Set([before?.nodeId, after?.nodeId].filter((id) => typeof id === "string")),
];

/**
 * Applies scheduler reports to the registry and emits their event lines. Owns table `report_sources`. Called by the
 * report route; costs one transaction per request.
 */
export class Ingestion implements IndexedRows {
  /** @param observers called in this order */
  constructor(
    private readonly sql: SqlStorage,
    private readonly publisher: EventPublisher<IndexBackfill>,
    private readonly reported: Reported,
    private readonly nodes: Pick<Nodes, "refuseReport" | "report" | "changes">,
    private readonly observers: ReportObservers,
  ) {}

  /**
   * Applies reports as one transaction and one event line, or several lines when one would be too large. Idempotent
   * by source and index: an index not newer than the source's last one changes nothing and returns that line's index.
   */
  async apply(
    source: SourceLine | null,
    reports: readonly Report[],
    { full = null, onlyChanges = false }: ReportMode = {},
  ): Promise<Result<Ingested>> {
    const committed = this.#commit(source, reports, { full, onlyChanges });
    return committed.ok ? this.#answer(source, committed.value) : committed;
  }

  /**
   * Applies lines of a stream in order, each as one transaction and one event line, as `apply` does.
   * @returns the index of the last line; the first refusal, after the lines before it were applied
   */
  async applyLines(lines: readonly ReportLine[]): Promise<Result<Ingested>> {
    let [source, line]: [SourceLine | null, number | null] = [null, null];
    for (const [at, each] of lines.entries()) {
      const committed = this.#commit(each.source, each.reports, {});
      if (!committed.ok) {
        await this.publisher.published();
        return { ...committed, message: `line ${at + 1}: ${committed.message}` };
      }
      source = each.source;
      line = committed.value ?? line;
    }
    return this.#answer(source, line);
  }

  /** @returns the number of the last event line; null without one */
  #commit(
    source: SourceLine | null,
    reports: readonly Report[],
    { full = null, onlyChanges = false }: ReportMode,
  ): Result<number | null> {
    try {
      const line = this.publisher.commit(() => {
        if (source && !this.#isNew(source)) return null;
        const all = full ? this.#completed(reports, full) : reports;
        return this.#emitAll(source, this.#numbered(all, onlyChanges));
      });
      return ok(line);
    } catch (failure) {
      if (failure instanceof Refused) return failure.refusal;
      throw failure;
    }
  }

  async #answer(source: SourceLine | null, line: number | null): Promise<Result<Ingested>> {
    if (line !== null) return ok({ index: await this.publisher.indexOf(line), applied: true });
    // A retry, possibly because the first response was lost; the index may be assigned by now.
    await this.publisher.published();
    return ok({ index: source && this.#indexOf(source), applied: false });
  }

  /** Sets the index of a source's line. */
  setIndex({ row: [source = "", line = "", sourceIndex = ""] }: IndexBackfill, index: number): void {
    this.sql.exec(
      "UPDATE report_sources SET idx = ? WHERE source = ? AND line = ? AND source_index = ?",
      index,
      source,
      line,
      Number(sourceIndex),
    );
  }

  /** The reports, followed by removals of all unlisted objects of the topic and namespace. */
  *#completed(reports: readonly Report[], full: FullList): Generator<Report> {
    yield* reports;
    const listed = new Set(reports.map(({ id }) => id));
    for (const id of this.reported.ids(full)) {
      const removal = listed.has(id) ? null : this.reported.removal(full, id);
      if (removal) yield removal;
    }
  }

  /** Reports with their positions, from 1. Lazy: a report is compared after those before it were applied. */
  *#numbered(reports: Iterable<Report>, onlyChanges: boolean): Generator<readonly [position: number, Report]> {
    let position = 0;
    for (const report of reports) {
      position += 1;
      if (!onlyChanges || this.#changes(report)) yield [position, report];
    }
  }

  #changes(report: Report): boolean {
    return report.topic === "Node" ? this.nodes.changes(report) : this.reported.changes(report);
  }

  /** Emits lines until all reports are applied. @returns the last line's number; null when there are no reports */
  #emitAll(source: SourceLine | null, reports: Iterator<readonly [position: number, Report]>): number | null {
    let next = reports.next();
    if (next.done && !source) return null;
    let position = 0;
    for (;;) {
      const line = this.publisher.emitNumbered((number) => {
        const draft = new LineDraft();
        for (; !next.done && draft.hasRoomFor(this.#mostBytesOf(next.value[1])); next = reports.next()) {
          [position] = next.value;
          this.#addReport(draft, next.value[1], number, position);
        }
        if (source && next.done) {
          const row = [source.name, source.line, String(source.index)];
          draft.add({ events: [], backfills: [{ table: "report_sources", row }] }, position);
        }
        return draft.entry();
      });
      if (next.done) return line;
    }
  }

  /** The upper bound of a report's size in its line, including the stored object. */
  #mostBytesOf(report: Report): number {
    const stored = report.topic !== "Node" && report.deleted ? this.reported.bytesOf(report) : 0;
    // Quotes and backslashes are escaped in the line's text.
    return 2 * (Buffer.byteLength(report.body) + stored);
  }

  #addReport(draft: LineDraft, report: Report, line: number, position: number): void {
    if (report.topic === "Node") {
      const refusal = this.nodes.refuseReport(report);
      if (refusal) throw new Refused({ ...refusal, message: `event ${position}: ${refusal.message}` });
      draft.add(this.nodes.report(report, line), position);
      return;
    }
    const { event, origin, backfill, before, after } = this.reported.applyAs(report, line);
    draft.add({ events: [event], backfills: [backfill], origins: origin === null ? [] : [[0, 0, origin]] }, position);
    for (const observer of this.observers[report.topic] ?? [])
      draft.add(observer(before, after, line, report), position);
  }

  /** Records a source's line. @returns whether it is new */
  #isNew({ name, index, line }: SourceLine): boolean {
    const newest = this.#anyOf(name)?.source_index ?? -1;
    if (newest > index || (newest === index && (line === "" || this.#lineOf(name, line)))) return false;
    if (newest < index) this.sql.exec("DELETE FROM report_sources WHERE source = ?", name);
    this.sql.exec("INSERT INTO report_sources VALUES (?, ?, ?, NULL)", name, line, index);
    return true;
  }

  /** The index of the line, or the newest one of the source if the line is older. */
  #indexOf({ name, line }: SourceLine): number | null {
    return (this.#lineOf(name, line) ?? this.#anyOf(name))?.idx ?? null;
  }

  #lineOf(name: string, line: string): Source | undefined {
    return this.sql
      .exec<Source>("SELECT source_index, idx FROM report_sources WHERE source = ? AND line = ?", name, line)
      .toArray()[0];
  }

  /** Only the lines of a source's newest index are stored. */
  #anyOf(name: string): Source | undefined {
    return this.sql
      .exec<Source>("SELECT source_index, idx FROM report_sources WHERE source = ? LIMIT 1", name)
      .toArray()[0];
  }
}

/** An event line under construction. */
class LineDraft {
  readonly #events: NewEvent[] = [];
  readonly #origins: Origin[] = [];
  readonly #backfills = new Map<string, IndexBackfill>();
  #bytes = 0;

  /** Whether a report of this size fits; the first always does. */
  hasRoomFor(bytes: number): boolean {
    return this.#events.length === 0 || this.#bytes + bytes <= FULL_LINE_BYTES;
  }

  /**
   * @param position of the report in its request, from 1
   * @throws Refused when the line exceeds its upper bound
   */
  add({ events, backfills, origins = [] }: ChangeSet, position: number): void {
    for (const [event, cut, origin] of origins) this.#origins.push([this.#events.length + event, cut, origin]);
    for (const event of events) {
      this.#count(event, position);
      this.#events.push(event);
    }
    for (const backfill of backfills) {
      const key = JSON.stringify(backfill);
      if (!this.#backfills.has(key)) this.#count(backfill, position);
      this.#backfills.set(key, backfill);
    }
  }

  entry() {
    return { events: this.#events, backfills: [...this.#backfills.values()], origins: this.#origins };
  }

  #count(what: NewEvent | IndexBackfill, position: number): void {
    this.#bytes += Buffer.byteLength(JSON.stringify(what));
    if (this.#bytes <= MAX_LINE_BYTES) return;
    const rule = `what it tells takes more than ${MAX_LINE_BYTES} bytes as one line of the stream`;
    throw new Refused(refuse("too-large", `event ${position}: ${rule}`));
  }
}
