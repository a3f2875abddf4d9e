import { DurableObject } from "cloudflare:workers";
import type { LineCollector } from "../platform/observability/audit/batch-writer.ts";
import { Collector } from "../platform/observability/audit/collector.ts";
import { sinksOf } from "../platform/observability/audit/sinks.ts";
import { settings } from "../platform/settings.ts";

/**
 * Writes audit lines of the Workers of a place to the sinks, many in one write. One instance a place, only where a sink
 * is bound. It stores nothing: lines wait in memory, and their Workers for its answer.
 */
export class AuditCollector extends DurableObject<Env> implements LineCollector {
  readonly #collector = new Collector(
    () => sinksOf(this.env),
    () => settings(this.env).AUDIT_BATCH_MS,
  );

  write(lines: readonly string[], isAwaited: boolean): Promise<boolean> {
    return this.#collector.write(lines, isAwaited);
  }
}
