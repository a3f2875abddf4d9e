import type { MetricsApi } from "../contracts/metrics.ts";
import { scrapeObjects } from "../monitoring/scrape.ts";
import { StoredObject } from "../platform/durable/stored-object.ts";
import { Counters, counterMigrations } from "../platform/observability/metrics/counters.ts";
import type { Key } from "../platform/observability/metrics/isolate-counters.ts";
import type { Series } from "../platform/observability/metrics/series.ts";

/** Scrapes within this time share one result, so that scraping cannot load the service. */
const CACHE_TTL_MS = 1_000;

/**
 * Sums the counts of all Workers and scrapes all other objects. One instance per deployment; a scrape costs one RPC per
 * object and second at most.
 */
export class Metrics extends StoredObject implements MetricsApi {
  readonly #counters: Counters;
  #scraped: { readonly at: number; readonly series: readonly Series[] } | undefined;
  #gathering: Promise<readonly Series[]> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, { counters: counterMigrations }, {});
    this.#counters = new Counters(this.sql);
  }

  /** Adds the counts of an isolate since its last batch. Idempotent by reporter and batch. */
  add(reporter: string, batch: number, increments: readonly (readonly [Key, number])[]): void {
    this.commit(() => this.#counters.add(reporter, batch, increments, Date.now()));
  }

  /** All current series; gauges are up to one second old. */
  async read(): Promise<Series[]> {
    const gauges = await this.#gauges();
    return [...this.#counters.all(), ...gauges];
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

  protected override onRollback(): void {
    this.#counters.forget();
  }
}
