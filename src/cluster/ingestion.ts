import type { NewEvent } from "../events/event.ts";
import type { Journal, Origin } from "../events/journal.ts";
import { ok, type Result, refuse } from "../result.ts";
import type { Told } from "./node/told.ts";
import type { Nodes } from "./nodes.ts";
import { Refused } from "./refused.ts";
import type { ObjectReport, Report, ReportedTopic } from "./report.ts";
import type { Kept, Reported } from "./reported.ts";
import type { Stamp, Stamped } from "./stamp.ts";

/** Which of a source's reports this is. */
export interface SourceLine {
  readonly name: string;
  readonly index: number;
  /** Tells lines of one index apart; empty when a source gives every report an index of its own. */
  readonly line: string;
}

export interface Ingested {
  /** The line's index; null when the stream could not take it yet, which it will. */
  readonly index: number | null;
  /** False when the source had told this before. */
  readonly applied: boolean;
}

/**
 * Sees every change of an object of a topic, inside its transaction: `before` is null for a new one, `after` for one that is
 * gone. What it tells joins the line. @throws Refused, which undoes the whole request
 */
export type Taker = (before: Kept | null, after: Kept | null, line: number, report: ObjectReport) => Told;
export type Takers = Readonly<Partial<Record<ReportedTopic, readonly Taker[]>>>;

/** A row and an outbox row hold 2 MB at most, and so does a line of the stream, here already with quotes escaped. */
const MAX_LINE_BYTES = 1_850_000;

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
  readonly journal: Journal<Stamp>;
  readonly reported: Reported;
  readonly nodes: Pick<Nodes, "refuseReport" | "report">;
  /** Asked in this order. */
  readonly takers: Takers;
}

/** How what schedulers report is taken in. */
export class Ingestion implements Stamped {
  readonly #sql: SqlStorage;
  readonly #journal: Journal<Stamp>;
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
   * Takes reports in, as one transaction and one line of the stream. Idempotent by source and index: what is not newer than
   * the source's last is answered with that one's line and changes nothing.
   */
  async take(source: SourceLine | null, reports: readonly Report[]): Promise<Result<Ingested>> {
    let line: number | null;
    try {
      line = this.#journal.commit(() => {
        if (source && !this.#isNew(source)) return null;
        return this.#journal.emitNoted((number) => this.#tell(source, reports, number));
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
  stamp({ row: [source = "", line = "", sourceIndex = ""] }: Stamp, index: number): void {
    this.#sql.exec(
      "UPDATE report_sources SET idx = ? WHERE source = ? AND line = ? AND source_index = ?",
      ...[index, source, line, Number(sourceIndex)],
    );
  }

  #tell(source: SourceLine | null, reports: readonly Report[], line: number) {
    const events: NewEvent[] = [];
    const origins: Origin[] = [];
    const stamps = new Map<string, Stamp>();
    let bytes = 0;
    const count = (what: NewEvent | Stamp): void => {
      bytes += Buffer.byteLength(JSON.stringify(what));
      if (bytes > MAX_LINE_BYTES) throw new Refused(refuse("too-large", TOO_LARGE));
    };
    const add = (told: Told) => {
      for (const [event, cut, origin] of told.origins ?? []) origins.push([events.length + event, cut, origin]);
      for (const event of told.events) {
        count(event);
        events.push(event);
      }
      for (const stamp of told.stamps) {
        const key = JSON.stringify(stamp);
        if (!stamps.has(key)) count(stamp);
        stamps.set(key, stamp);
      }
    };
    for (const [at, report] of reports.entries()) {
      if (report.topic === "Node") {
        const refusal = this.#nodes.refuseReport(report);
        if (refusal) throw new Refused({ ...refusal, message: `event ${at + 1}: ${refusal.message}` });
        add(this.#nodes.report(report, line));
        continue;
      }
      const { event, origin, stamp, before, after } = this.#reported.takeAs(report, line);
      if (origin !== null) origins.push([events.length, 0, origin]);
      add({ events: [event], stamps: [stamp] });
      for (const taker of this.#takers[report.topic] ?? []) add(taker(before, after, line, report));
    }
    if (source) {
      const row = [source.name, source.line, String(source.index)];
      add({ events: [], stamps: [{ table: "report_sources", row }] });
    }
    return { events, stamps: [...stamps.values()], origins };
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

const TOO_LARGE = `request body: what it tells takes more than ${MAX_LINE_BYTES} bytes as one line of the stream; send fewer events at a time`;
