import type { Mutation } from "./mutation.ts";

const COLLECTOR = ["test/workers/audit-collector.test.ts"];
const file = "src/platform/observability/audit/collector.ts";

export const audit: Mutation[] = [
  {
    ...{ file, suites: COLLECTOR },
    find: "batch.written.resolve(isWritten);",
    replace: "batch.written.resolve(isWritten || true);",
    promise: "A line is acknowledged only when every sink has it",
  },
  {
    ...{ file, suites: COLLECTOR },
    find: "left = await attempt(left, batch);",
    replace: "left = await attempt(left, newBatch(batch.lines));",
    promise: "A repeated write to a bucket replaces the object of the first attempt",
  },
  {
    ...{ file, suites: COLLECTOR },
    find: "(BURST - 1) * spacing) + spacing;",
    replace: "(BURST - 1) * spacing);",
    promise: "Writes of awaited lines begin AUDIT_BATCH_MS apart",
  },
  {
    ...{ file, suites: COLLECTOR },
    find: "const BURST = 10;",
    replace: "const BURST = 1;",
    promise: "After a pause, ten requests one after the other wait for their own write only",
  },
  {
    ...{ file, suites: COLLECTOR },
    find: "if (this.#held + size > MAX_HELD_CHARS) return false;",
    replace: "",
    promise: "A region holds a bounded amount of lines",
  },
  {
    file: "src/platform/observability/audit/http-sink.ts",
    suites: ["test/http/audit-http.test.ts"],
    find: "if (acks?.[ackId]) return;",
    replace: "if (acks) return;",
    promise: "Lines for a Splunk token with acknowledgements are accepted when the indexer has them",
  },
  {
    file: "src/platform/observability/audit/batch-writer.ts",
    suites: COLLECTOR,
    find: "const RETRY_DELAYS_MS = [0, 500];",
    replace: "const RETRY_DELAYS_MS: number[] = [];",
    promise: "A restart of the collector refuses no request",
  },
];
