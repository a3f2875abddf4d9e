import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { Reported } from "../../src/cluster/reports/reported.ts";
import type { ReportedQuery } from "../../src/contracts/reports.ts";
import { ClusterRegistry } from "../../src/worker.ts";
import { amount } from "../support/long.ts";
import { get } from "./client.ts";
import { gone, job, report, uuid } from "./reports.ts";

/** How many objects of each topic there are, over ten namespaces, and of how many jobs and nodes. */
const MANY = amount(5_000, 100_000);
const SIZES = [1_000, MANY];
const JOBS = 10;

const inRegistry = <R>(work: (sql: SqlStorage) => R): Promise<R> =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, state) => work(state.storage.sql));

/** Objects as stored after individual reports. */
const fill = (topics: readonly string[], rows: number, bytes = 0): Promise<void> =>
  inRegistry((sql) => {
    for (const topic of topics) {
      sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
         INSERT INTO reported (topic, namespace, id, job_id, node_id, terminal, body, create_line, create_index, modify_index)
         SELECT ?2, 'ns-' || (i % 10), printf('%08x-0000-4000-8000-000000000000', i), 'job-' || CAST(i * ?3 / ?1 AS INTEGER),
           'node-' || CAST(i * ?3 / ?1 AS INTEGER), i % 2,
           json_object('ID', printf('%08x-0000-4000-8000-000000000000', i), 'Namespace', 'ns-' || (i % 10),
             'Status', 'running', 'Padding', hex(zeroblob(?4))), 1, i + 1, i + 1 FROM n`,
        rows,
        topic,
        JOBS,
        bytes / 2,
      );
    }
  });

/** The result of `work`, and the rows it read or wrote. */
const counted = <R>(work: (reported: Reported) => R) =>
  inRegistry((real) => {
    const cursors: { rowsRead: number; rowsWritten: number }[] = [];
    const sql = {
      exec: (query: string, ...values: unknown[]) => {
        const cursor = real.exec(query, ...values);
        cursors.push(cursor);
        return cursor;
      },
    } as unknown as SqlStorage;
    const result = work(new Reported(sql));
    const sum = (count: (cursor: (typeof cursors)[number]) => number) => cursors.map(count).reduce((a, b) => a + b, 0);
    return { result, read: sum(({ rowsRead }) => rowsRead), written: sum(({ rowsWritten }) => rowsWritten) };
  });

describe.each(SIZES)("with %i objects of each topic", (size) => {
  const middle = uuid(size / 2);
  const inMiddle = `ns-${(size / 2) % 10}`;
  beforeEach(() => fill(["Job", "Allocation"], size), 60_000);

  const LIMIT = 10;
  const queries: [string, Partial<ReportedQuery>][] = (["Job", "Allocation"] as const).flatMap((topic) => {
    const byName = { Job: `${inMiddle}.${middle}`, Allocation: String(size + size / 2) }[topic];
    return [
      ["of all namespaces", { topic }],
      ["of all namespaces, from the middle", { topic, from: byName }],
      ["of one namespace", { topic, namespace: "ns-7" }],
      ["of one namespace, from the middle", { topic, namespace: inMiddle, from: byName }],
      ["by a prefix", { topic, prefix: "000000" }],
      ["by a prefix, from the middle", { topic, prefix: "0000", from: `${inMiddle}.${middle}` }],
      ["by a prefix in one namespace", { topic, prefix: "0000", namespace: "ns-7" }],
      ["by a prefix without a match", { topic, prefix: "ff" }],
      ["by a prefix in an empty namespace", { topic, prefix: "00", namespace: "none" }],
      ...(topic === "Job"
        ? []
        : ([
            ["of a job", { topic, namespace: "ns-3", job: "job-7" }],
            ["on a node", { topic, node: "node-7" }],
            ["on a node, from the middle", { topic, node: "node-5", from: String(size * 1.55) }],
          ] as [string, Partial<ReportedQuery>][])),
    ].map(([what, query]): [string, Partial<ReportedQuery>] => [`${topic} ${what}`, query as Partial<ReportedQuery>]);
  });

  it("a page costs its own rows, from any start and in either direction", async () => {
    for (const [what, query] of queries) {
      for (const reverse of [false, true]) {
        const { result, read } = await counted((reported) =>
          reported.page({ topic: "Job", namespace: null, from: "", limit: LIMIT, reverse, ...query }),
        );
        const where = `${what}${reverse ? ", backwards" : ""}`;
        expect(read, where).toBeLessThanOrEqual(2 * (result.rows.length + 1));
        expect(result.rows.length, where).toBe(/without a match|empty/.test(what) ? 0 : LIMIT);
      }
    }
  });

  it("a read costs one row, by name or by id alone", async () => {
    for (const [found, find] of [
      [middle, (reported: Reported) => reported.find("Job", middle, inMiddle, true)],
      [middle, (reported: Reported) => reported.find("Allocation", middle, "default")],
      [undefined, (reported: Reported) => reported.find("Allocation", uuid(size + 1), "default")],
      [undefined, (reported: Reported) => reported.find("Job", middle, "none", true)],
    ] as const) {
      const { result, read } = await counted(find);
      expect([result?.id, read <= 3]).toEqual([found, true]);
    }
  });

  it("a report costs the same, and updates no index of an unchanged column", async () => {
    const base = {
      topic: "Job" as const,
      type: "JobRegistered",
      namespace: inMiddle,
      filterKeys: null,
      nodeId: `node-${JOBS / 2}`,
      jobId: `job-${JOBS / 2}`,
      terminal: false,
      deleted: false,
      body: '{"ID":"x"}',
      extra: "",
    };
    const changed = await counted((reported) => reported.applyAs({ ...base, id: middle }, 7));
    expect([changed.result.event.Key, changed.read <= 4, changed.written]).toEqual([middle, true, 1]);
    const made = await counted((reported) => reported.applyAs({ ...base, id: "new" }, 7));
    expect(made.read).toBeLessThanOrEqual(4);
  });
});

describe("a list of many objects", () => {
  beforeEach(() => fill(["Evaluation"], MANY), 60_000);

  it("is complete and in order, in small pieces", async () => {
    const response = await exports.default.fetch("https://x/v1/evaluations?namespace=*", {
      headers: { "X-Orch-Token": "root" },
    });
    let text = "";
    let largest = 0;
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      largest = Math.max(largest, chunk.length);
      text += decoder.decode(chunk, { stream: true });
    }
    const ids = (JSON.parse(text) as { ID: string }[]).map(({ ID }) => ID);
    expect([ids.length, ids[0], ids.at(-1), new Set(ids).size]).toEqual([MANY, uuid(0), uuid(MANY - 1), MANY]);
    expect(largest).toBeLessThan(64 * 1024);
  }, 60_000);

  it("is read no further than its reader reads", async () => {
    const pages = vi.spyOn(ClusterRegistry.prototype, "reported");
    const response = await exports.default.fetch("https://x/v1/evaluations?namespace=*", {
      headers: { "X-Orch-Token": "root" },
    });
    const reader = response.body?.getReader();
    for (let chunk = 0; chunk < 5; chunk++) expect((await reader?.read())?.done).toBe(false);
    await scheduler.wait(100);
    expect(pages.mock.calls.length).toBeLessThanOrEqual(3);
    await reader?.cancel();
  });
});

it("a page of large objects ends early, within the size of a message", async () => {
  await fill(["Job"], 40, 500_000);
  const { result } = await counted((reported) =>
    reported.page({ topic: "Job", namespace: null, from: "", limit: 1_000 }),
  );
  expect(result.rows.map(({ body }) => body.length).reduce((a, b) => a + b)).toBeLessThan(5 * 1024 * 1024);
  expect(result.next).not.toBeNull();
  expect((await get("/v1/jobs?namespace=*")).body).toHaveLength(40);
});

it("deleted objects leave no rows", async () => {
  await report(job());
  await report(gone(job()));
  const left = await inRegistry((sql) => sql.exec<{ n: number }>("SELECT count(*) AS n FROM reported").one().n);
  expect(left).toBe(0);
});
