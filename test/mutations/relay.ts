import type { Mutation } from "./mutation.ts";

const STORED = { file: "src/cluster/reports/reported.ts", suites: ["test/workers/ingest-changes.test.ts"] };
const INGESTION = { file: "src/cluster/reports/ingestion.ts", suites: ["test/workers/ingest-changes.test.ts"] };
const NODES = { file: "src/cluster/nodes/nodes.ts", suites: ["test/workers/ingest-changes.test.ts"] };
const POOLS = { file: "src/cluster/nodes/node-pools.ts", suites: ["test/workers/node-pool-writes.test.ts"] };
const SERVICES = { file: "src/routes/services.ts", suites: ["test/workers/reported-services.test.ts"] };
const QUEUE = { file: "packages/relay/src/line-queue.ts", suites: ["packages/relay/src/line-queue.test.ts"] };
const TEXT = { file: "packages/relay/src/json-text.ts", suites: ["packages/relay/src/json-text.test.ts"] };
const PARTS = { file: "packages/relay/src/reporter.ts", suites: ["packages/relay/src/options.test.ts"] };

export const relay: Mutation[] = [
  {
    ...STORED,
    find: "known.body !== body && !equalJson(parseLossless(known.body), parseLossless(body))",
    replace: "known.body !== body",
    promise: "An object whose members come in another order has not changed",
  },
  {
    ...STORED,
    find: "if (deleted || !known) return deleted !== (known === null);",
    replace: "if (deleted || !known) return true;",
    promise: "The deletion of a missing object changes nothing",
  },
  {
    ...INGESTION,
    find: "if (!onlyChanges || this.#changes(report)) yield [position, report];",
    replace: "yield [position, report];",
    promise: "Reports that change nothing are left out on request",
  },
  {
    ...INGESTION,
    find: "[position] = next.value;",
    replace: "position += 1;",
    promise: "A refusal names the position of the event in the body",
  },
  {
    ...NODES,
    find: "...node, Events: node.Events.map(({ CreateIndex: _index, ...event }) => event) }",
    replace: "...node }",
    promise: "The indexes of a node's events are this service's, and are not compared",
  },
  {
    ...POOLS,
    find: 'if (this.#exists("SELECT 1 FROM nodes WHERE pool = ? LIMIT 1", name))',
    replace: "if (false)",
    promise: "A pool with nodes is not deleted",
  },
  {
    ...SERVICES,
    find: 'if (!allowsNamespace(call.grant.cluster, held, "read-job")) continue;',
    replace: "",
    promise: "Services of other namespaces are not listed",
  },
  {
    ...QUEUE,
    find: "if (this.#bytes > this.#maxBytes)",
    replace: "if (false)",
    promise: "A stream is not read while the service is slower",
  },
  {
    ...TEXT,
    find: "end += text.charCodeAt(end) === BACKSLASH ? 2 : 1;",
    replace: "end += 1;",
    promise: "An escaped quote does not end a string",
  },
  {
    ...PARTS,
    find: "bytes + size > maxBytes || (parts.at(-1)?.length ?? 0) >= maxEvents",
    replace: "bytes + size > maxBytes",
    promise: "A line of many events is split",
  },
];
