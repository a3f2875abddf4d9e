import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that run longest, in the order of their durations (2026-11, from 260 to 45 seconds beside others). Vitest runs
 * project after project, and large files first in a clone without earlier results: the longest file began among the
 * last, and one processor waited for its end.
 */
export const LONGEST: readonly string[] = [
  "test/smoke/smoke.test.ts",
  "test/http/cli-import.test.ts",
  "test/http/deploy-first.test.ts",
  "test/http/deploy-destroy.test.ts",
  "test/http/relay-cluster.test.ts",
  "test/http/cli-daily.test.ts",
  "test/http/serve.test.ts",
  "test/http/csi-chain.test.ts",
  "test/http/cli.test.ts",
  "test/workers/engine-contract.test.ts",
  "test/http/csi-chain-faults.test.ts",
  "test/workers/sync-pause.test.ts",
  "test/http/crash-sigkill.test.ts",
  "test/crash/sync-cuts.test.ts",
  "test/workers/sync-purge.test.ts",
  "test/console/frame.test.ts",
  "test/console/events.test.ts",
  "test/workers/sync-breaker.test.ts",
  "test/workers/engine-producer.test.ts",
  "test/workers/engine-pool.test.ts",
  "test/http/supervisor.test.ts",
  "test/workers/sync-preview-and-drift.test.ts",
  "test/abuse/attempts.test.ts",
  "test/workers/rows.test.ts",
  "test/http/csi-chain-claims.test.ts",
  "test/http/csi-operations.test.ts",
  "test/workers/ingest-large.test.ts",
  "test/http/cli-executable.test.ts",
  "test/workers/openapi-secrets.quick.test.ts",
  "test/workers/rights-secrets.quick.test.ts",
];

const orderOf = (file: string): number => {
  const at = LONGEST.indexOf(file);
  return at === -1 ? LONGEST.length : at;
};

/** Begins the longest files first; all others follow in vitest's own order. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const orders = new Map(sorted.map((file) => [file, orderOf(relative(this.ctx.config.root, file.moduleId))]));
    return sorted.sort((a, b) => (orders.get(a) ?? 0) - (orders.get(b) ?? 0));
  }
}
