import type { Mutation } from "./mutation.ts";

const ORDER = ["test/workers/replicas-order.test.ts"];
const BOUNDS = ["test/workers/replicas-bounds.test.ts"];
const CHANGES = ["test/workers/replicas.test.ts"];

export const replicas: Mutation[] = [
  {
    file: "src/read-leases/lease-owner.ts",
    suites: ORDER,
    find: "return seqs.length === 0 ? answer : (this",
    replace: "return seqs.length >= 0 ? answer : (this",
    promise: "An answer waits until no replica serves the state before a change that it includes",
  },
  {
    file: "src/read-leases/lease-cache.ts",
    suites: ORDER,
    find: "return clock >= question.overtakenBy;",
    replace: "return clock >= 0 || question.overtakenBy > 0;",
    promise: "An answer older than an invalidation of its key is not kept",
  },
  {
    file: "src/read-leases/lease-cache.ts",
    suites: ORDER,
    find: "return question.overtakenBy === 0;",
    replace: "return question.overtakenBy >= 0;",
    promise: "A read joins no question that left before an invalidation of its key",
  },
  {
    file: "src/read-leases/lease-owner.ts",
    suites: ORDER,
    find: ".map(([, change]) => change),",
    replace: ".map(([, change]) => change).slice(0, 0),",
    promise: "An owner that restarts knows the changes that replicas have not acknowledged",
  },
  {
    file: "src/read-leases/lease-owner.ts",
    suites: ORDER,
    find: "this.#table.acknowledge(by, seqs);",
    replace: "this.#table.acknowledge(by && holder, seqs);",
    promise: "An instance of a replica acknowledges for itself alone",
  },
  {
    file: "src/access/tokens/secrets-tokens.ts",
    suites: CHANGES,
    find: "this.#endingWith([row]),",
    replace: "this.#endingWith([]),",
    promise: "A revocation is seen by the next read at every place",
  },
  {
    file: "src/access/tokens/token-issuer.ts",
    suites: CHANGES,
    find: "const isNew = !request.id && !request.entity_alias;",
    replace: "const isNew = !request.entity_alias;",
    promise: "A token of a chosen text is accepted at once where the text was refused before",
  },
  {
    file: "src/read-leases/lease-cache.ts",
    suites: BOUNDS,
    find: "(entry.ends !== null && entry.ends <= now)",
    replace: "(entry.ends === -1 && entry.ends <= now)",
    promise: "Tokens and versions end by time, also under a lease that goes on",
  },
  {
    file: "src/read-leases/lease-owner.ts",
    suites: BOUNDS,
    find: "if (isUnavailable(answer)) this.changeAll();",
    replace: "if (isUnavailable(answer) && this.#waiting.size < 0) this.changeAll();",
    promise: "A reader that has seen a sealed service finds no replica that serves",
  },
  {
    file: "src/read-leases/replica-reads.ts",
    suites: BOUNDS,
    find: "key: unknown ? unknownKey(token) : keys",
    replace: "key: unknown && token === null ? unknownKey(token) : keys",
    promise: "An unknown token is one question, whatever its paths",
  },
  {
    file: "src/access/authorize/authorize.ts",
    suites: CHANGES,
    find: 'return row.parent === null ? "" :',
    replace: 'return row.parent !== null ? "" :',
    promise: "A batch token ends with its parent at every place",
  },
];
