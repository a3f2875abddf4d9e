import type { Journal } from "../events/journal.ts";
import { ok, type Result } from "../result.ts";
import type { Report } from "./report.ts";
import type { Reported } from "./reported.ts";
import type { Stamp, Stamped } from "./stamp.ts";

export interface Ingested {
  /** The line's index; null when the stream could not take it yet, which it will. */
  readonly index: number | null;
  /** False when the source had told this before. */
  readonly applied: boolean;
}

interface Source extends Record<string, SqlStorageValue> {
  source_index: number;
  idx: number | null;
}

/** How what schedulers report is taken in. */
export class Ingestion implements Stamped {
  readonly #sql: SqlStorage;
  readonly #journal: Journal<Stamp>;
  readonly #reported: Reported;

  constructor(sql: SqlStorage, journal: Journal<Stamp>, reported: Reported) {
    this.#sql = sql;
    this.#journal = journal;
    this.#reported = reported;
  }

  /**
   * Takes reports in, as one transaction and one line of the stream. Idempotent by (source, index): what is not newer than the
   * source's last is answered with that one's line and changes nothing.
   */
  async take(
    source: { readonly name: string; readonly index: number } | null,
    reports: readonly Report[],
  ): Promise<Result<Ingested>> {
    const line = this.#journal.commit(() => {
      if (source && !this.#isNew(source)) return null;
      const events = reports.map((report) => this.#reported.take(report));
      const stamps: Stamp[] = reports.map(({ topic, namespace, id }) => ({ table: topic, row: [namespace, id] }));
      if (source) stamps.push({ table: "report_sources", row: [source.name] });
      return this.#journal.emitLine(events, stamps);
    });
    if (line !== null) return ok({ index: await this.#journal.indexOf(line), applied: true });
    // Told again, perhaps because the first answer never came: by now it may have got its index.
    await this.#journal.published();
    return ok({ index: this.#source(source?.name ?? "")?.idx ?? null, applied: false });
  }

  /** Notes which line a source's last report became. */
  stamp({ row: [source = ""] }: Stamp, index: number): void {
    this.#sql.exec("UPDATE report_sources SET idx = ? WHERE source = ?", index, source);
  }

  #isNew({ name, index }: { readonly name: string; readonly index: number }): boolean {
    const known = this.#source(name);
    if (known && known.source_index >= index) return false;
    this.#sql.exec(
      `INSERT INTO report_sources VALUES (?, ?, NULL)
       ON CONFLICT (source) DO UPDATE SET source_index = excluded.source_index, idx = NULL`,
      name,
      index,
    );
    return true;
  }

  #source(name: string): Source | undefined {
    return this.#sql.exec<Source>("SELECT source_index, idx FROM report_sources WHERE source = ?", name).toArray()[0];
  }
}
