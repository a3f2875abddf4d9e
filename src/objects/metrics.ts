import type { MetricsApi } from "../contracts/metrics.ts";
import { scrapeObjects } from "../monitoring/scrape.ts";
import { NOTHING } from "../platform/durable/object-context.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { textOf, warn } from "../platform/observability/log.ts";
import { Counters, counterMigrations } from "../platform/observability/metrics/counters.ts";
import { type Key, keyOf } from "../platform/observability/metrics/isolate-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";
import { isExporting } from "../platform/observability/otlp/export.ts";
import { exportMetrics } from "../platform/observability/otlp/metrics.ts";

/** Scrapes within this time share one result, so that scraping cannot load the service. */
const CACHE_TTL_MS = 1_000;
/** Counts wait this long in memory before they are written. */
const WRITE_AFTER_MS = 60_000;
/** Interval of the exports to a collector while counts arrive. */
const EXPORT_EVERY_MS = 60_000;

const CRON_RUN = "sallyport_cron_last_run_timestamp_seconds";
const CRON_AWAITED = "sallyport_cron_awaited_since_timestamp_seconds";

/**
 * Sums the counts of all Workers and scrapes all other objects. One instance per deployment; a scrape costs one RPC per
 * object and second at most. Counts cost a few rows a minute and scrape.
 */
export class Metrics extends StoredObject implements MetricsApi {
  readonly #counters: Counters;
  #scraped: { readonly at: number; readonly series: readonly Series[] } | undefined;
  /** Keeps the object in memory, in contrast to an alarm, until its counts are written. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Runs from the first count after an export to the next one. Reads write the counts, and leave it as it is. */
  #exportTimer: ReturnType<typeof setTimeout> | undefined;
  #gathering: Promise<readonly Series[]> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { counters: counterMigrations }, {});
    this.#counters = new Counters(this.sql);
  }

  add(reporter: string, batch: number, increments: readonly (readonly [Key, number])[], now = false): void {
    this.#counters.add(reporter, batch, increments, Date.now());
    this.#awaitCron();
    if (now) {
      this.#write();
      return;
    }
    this.#timer ??= setTimeout(() => this.#write(), WRITE_AFTER_MS);
    if (isExporting(this.env)) this.#exportTimer ??= setTimeout(() => this.#export(), EXPORT_EVERY_MS);
  }

  #export(): void {
    this.#exportTimer = undefined;
    void exportMetrics(this.env, () => this.read());
  }

  /** Stores when the first run of the cron trigger began to be awaited. The local runtime has no triggers. */
  #awaitCron(): void {
    if (this.env.GATEWAY_KEY !== undefined || this.#counters.has(CRON_RUN) || this.#counters.has(CRON_AWAITED)) return;
    const now = Date.now();
    this.#counters.add(CRON_AWAITED, now, [[keyOf(CRON_AWAITED, []), Math.floor(now / 1000)]], now);
  }

  /** Writes all counts. Never throws: after a failure they stay in memory, and the next batch has them written. */
  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#counters.isUnwritten) return;
    try {
      this.commit(() => this.#counters.write(Date.now()), NOTHING);
      this.#counters.wrote();
    } catch (failure) {
      warn("counts-not-written", { because: textOf(failure) });
    }
  }

  /**
   * All current series; gauges are up to one second old. A counter that was shown is written before, so none decreases
   * when the object restarts: clients would take that for a reset and count its whole value again.
   */
  async read(): Promise<Series[]> {
    this.#awaitCron();
    this.#write();
    const hasRun = this.#counters.has(CRON_RUN);
    const counted = this.#counters.all().filter(({ name }) => !hasRun || name !== CRON_AWAITED);
    return [...counted, ...(await this.#gauges())];
  }

  async #gauges(): Promise<readonly Series[]> {
    if (this.#scraped && Math.abs(Date.now() - this.#scraped.at) < CACHE_TTL_MS) return this.#scraped.series;
    this.#gathering ??= this.#gather().finally(() => {
      this.#gathering = undefined;
    });
    return this.#gathering;
  }

  async #gather(): Promise<readonly Series[]> {
    const series = await scrapeObjects(this.env, this.vitals());
    this.#scraped = { at: Date.now(), series };
    return series;
  }

  protected override ownDeadline(): null {
    return null;
  }

  protected override async onAlarm(): Promise<void> {}
}
