import type { Told } from "../../contracts/change-set.ts";
import type { NewEvent } from "../../contracts/event.ts";
import type { Journal, Origin } from "../../contracts/event-publisher.ts";
import type {
  FullList,
  Ingested,
  Kept,
  ObjectReport,
  Report,
  ReportedTopic,
  SourceLine,
} from "../../contracts/reports.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import { Refused } from "../../platform/durable/refused.ts";
import type { Nodes } from "../nodes/nodes.ts";
import type { Reported } from "./reported.ts";

/**
 * Sees every change of an object of a topic, inside its transaction: `before` is null for a new one, `after` for one that is
 * gone. What it tells joins the line. @throws Refused, which undoes the whole request
 */
export type Taker = (before: Kept | null, after: Kept | null, line: number, report: ObjectReport) => Told;
export type Takers = Readonly<Partial<Record<ReportedTopic, readonly Taker[]>>>;

/** A row and an outbox row hold 2 MB at most, and so does a line of the stream, here already with quotes escaped. */
const MAX_LINE_BYTES = 1_850_000;
/** A line that holds this much is followed by another: the rest is room for what the last event causes. */
const FULL_LINE_BYTES = 1_600_000;

interface Source extends Record<string, SqlStorageValue> {
  source_index: number;
  idx: number | null;
}

/** The nodes that a change of an allocation concerns. */
export const nodesOf = (before: Kept | null, after: Kept | null): string[] => [
  ...new Set([before?.nodeId, after?.nodeId].filter((id) => typeof id === "string")),
];

export interface IngestionHost {
  readonly sql: SqlStorage;
  readonly journal: Journal<IndexBackfill>;
  readonly reported: Reported;
  readonly nodes: Pick<Nodes, "refuseReport" | "report">;
  /** Asked in this order. */
  readonly takers: Takers;
}

/** How what schedulers report is taken in. */
export class Ingestion implements IndexedRows {
  readonly #sql: SqlStorage;
  readonly #journal: Journal<IndexBackfill>;
  readonly #reported: Reported;
  readonly #nodes: Pick<Nodes, "refuseReport" | "report">;
  readonly #takers: Takers;

  constructor({ sql, journal, reported, nodes, takers }: IngestionHost) {
    this.#sql = sql;
    this.#journal = journal;
    this.#reported = reported;
    this.#nodes = nodes;
    this.#takers = takers;
  }

  /**
   * Takes reports in, as one transaction, told by one line of the stream, or several in a row when one would be too large.
   * Idempotent by source and index: what is not newer than the source's last is answered with that one's line and changes
   * nothing.
   * @param full what the reports list completely
   */
  async take(
    source: SourceLine | null,
    reports: readonly Report[],
    full: FullList | null = null,
  ): Promise<Result<Ingested>> {
    let line: number | null;
    try {
      line = this.#journal.commit(() => {
        if (source && !this.#isNew(source)) return null;
        return this.#tellAll(source, full ? this.#completed(reports, full) : reports.values());
      });
    } catch (failure) {
      if (failure instanceof Refused) return failure.refusal;
      throw failure;
    }
    if (line !== null) return ok({ index: await this.#journal.indexOf(line), applied: true });
    // Told again, perhaps because the first answer never came: by now it may have got its index.
    await this.#journal.published();
    return ok({ index: source && this.#indexOf(source), applied: false });
  }

  /** Notes which line a source's report became. */
  setIndex({ row: [source = "", line = "", sourceIndex = ""] }: IndexBackfill, index: number): void {
    this.#sql.exec(
      "UPDATE report_sources SET idx = ? WHERE source = ? AND line = ? AND source_index = ?",
      ...[index, source, line, Number(sourceIndex)],
    );
  }

  /** The reports, and then that everything else of the topic and namespace is gone. */
  *#completed(reports: readonly Report[], full: FullList): Generator<Report> {
    yield* reports;
    const listed = new Set(reports.map(({ id }) => id));
    for (const id of this.#reported.ids(full)) {
      const removal = listed.has(id) ? null : this.#reported.removal(full, id);
      if (removal) yield removal;
    }
  }

  /** Promises lines until all is told. @returns the last one's number */
  #tellAll(source: SourceLine | null, reports: Iterator<Report>): number {
    let next = reports.next();
    let position = 0;
    for (;;) {
      const line = this.#journal.emitNoted((number) => {
        const draft = new LineDraft();
        for (; !next.done && draft.hasRoomFor(this.#mostBytesOf(next.value)); next = reports.next()) {
          position += 1;
          this.#tell(draft, next.value, number, position);
        }
        if (source && next.done) {
          const row = [source.name, source.line, String(source.index)];
          draft.add({ events: [], stamps: [{ table: "report_sources", row }] }, position);
        }
        return draft.entry();
      });
      if (next.done) return line;
    }
  }

  /** What a report and what is stored of its object can take of a line. */
  #mostBytesOf(report: Report): number {
    const stored = report.topic !== "Node" && report.deleted ? this.#reported.bytesOf(report) : 0;
    // Within the line's text each quote and each backslash is escaped.
    return 2 * (Buffer.byteLength(report.body) + stored);
  }

  #tell(draft: LineDraft, report: Report, line: number, position: number): void {
    if (report.topic === "Node") {
      const refusal = this.#nodes.refuseReport(report);
      if (refusal) throw new Refused({ ...refusal, message: `event ${position}: ${refusal.message}` });
      draft.add(this.#nodes.report(report, line), position);
      return;
    }
    const { event, origin, stamp, before, after } = this.#reported.takeAs(report, line);
    draft.add({ events: [event], stamps: [stamp], origins: origin === null ? [] : [[0, 0, origin]] }, position);
    for (const taker of this.#takers[report.topic] ?? []) draft.add(taker(before, after, line, report), position);
  }

  /** Whether a source has not told this yet; if so, notes that it has. */
  #isNew({ name, index, line }: SourceLine): boolean {
    const newest = this.#anyOf(name)?.source_index ?? -1;
    if (newest > index || (newest === index && (line === "" || this.#lineOf(name, line)))) return false;
    if (newest < index) this.#sql.exec("DELETE FROM report_sources WHERE source = ?", name);
    this.#sql.exec("INSERT INTO report_sources VALUES (?, ?, ?, NULL)", name, line, index);
    return true;
  }

  /** What the line became, or one of the source's newest index when the line is older. */
  #indexOf({ name, line }: SourceLine): number | null {
    return (this.#lineOf(name, line) ?? this.#anyOf(name))?.idx ?? null;
  }

  #lineOf(name: string, line: string): Source | undefined {
    return this.#sql
      .exec<Source>("SELECT source_index, idx FROM report_sources WHERE source = ? AND line = ?", name, line)
      .toArray()[0];
  }

  /** Lines are kept of a source's newest index only. */
  #anyOf(name: string): Source | undefined {
    return this.#sql
      .exec<Source>("SELECT source_index, idx FROM report_sources WHERE source = ? LIMIT 1", name)
      .toArray()[0];
  }
}

/** What one line tells, as it grows. */
class LineDraft {
  readonly #events: NewEvent[] = [];
  readonly #origins: Origin[] = [];
  readonly #stamps = new Map<string, IndexBackfill>();
  #bytes = 0;

  /** Whether something of this size may join; anything may be the first. */
  hasRoomFor(bytes: number): boolean {
    return this.#events.length === 0 || this.#bytes + bytes <= FULL_LINE_BYTES;
  }

  /**
   * @param position of the report within its request, from 1
   * @throws Refused when the line cannot hold it
   */
  add({ events, stamps, origins = [] }: Told, position: number): void {
    for (const [event, cut, origin] of origins) this.#origins.push([this.#events.length + event, cut, origin]);
    for (const event of events) {
      this.#count(event, position);
      this.#events.push(event);
    }
    for (const stamp of stamps) {
      const key = JSON.stringify(stamp);
      if (!this.#stamps.has(key)) this.#count(stamp, position);
      this.#stamps.set(key, stamp);
    }
  }

  entry() {
    return { events: this.#events, stamps: [...this.#stamps.values()], origins: this.#origins };
  }

  #count(what: NewEvent | IndexBackfill, position: number): void {
    this.#bytes += Buffer.byteLength(JSON.stringify(what));
    if (this.#bytes <= MAX_LINE_BYTES) return;
    const rule = `what it tells takes more than ${MAX_LINE_BYTES} bytes as one line of the stream`;
    throw new Refused(refuse("too-large", `event ${position}: ${rule}`));
  }
}
