import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that run longest, in the order of their durations (2026-11, from 180 to 45 seconds). Vitest runs project after
 * project, and large files first in a clone without earlier results: the longest file began among the last, and one
 * processor waited for its end.
 */
export const LONGEST: readonly string[] = [
  "test/smoke/smoke.test.ts",
  "test/http/cli-import.test.ts",
  "test/http/csi-chain.test.ts",
  "test/http/relay-cluster.test.ts",
  "test/workers/sync-faults.test.ts",
  "test/http/serve.test.ts",
  "test/http/csi-chain-faults.test.ts",
  "test/workers/reported.test.ts",
  "test/workers/sync-breaker.test.ts",
  "test/http/csi-operations.test.ts",
  "test/http/cli.test.ts",
  "test/http/agent-operations.test.ts",
  "test/workers/sync-preview-and-drift.test.ts",
  "test/http/supervisor.test.ts",
  "test/workers/sync-naming.test.ts",
  "test/workers/openapi-secrets.quick.test.ts",
  "test/clients/python-suites.test.ts",
  "test/workers/sync-pause.test.ts",
  "test/workers/sync-purge.test.ts",
  "test/http/csi-chain-claims.test.ts",
  "test/workers/sync.test.ts",
  "test/workers/rights-secrets.quick.test.ts",
  "test/http/node-faults-line.test.ts",
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
