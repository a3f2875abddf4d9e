import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { WorkQueue } from "../../src/platform/durable/work-queue.ts";
import { Associations } from "../../src/sync/associations/associations.ts";
import { RemoteObjects } from "../../src/sync/objects/remote-objects.ts";
import { SyncEvents } from "../../src/sync/sync-events.ts";
import type { SyncDestination } from "../../src/worker.ts";
import { isLong } from "../support/long.ts";
import { mountKv } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { makeDestination, objects } from "./sync-helpers.ts";
import { configure, counts, destination, numbered, pause, resume, writeMany } from "./sync-limits.ts";

/** The cost of a request, an alarm or a poll does not grow with the backlog. Counted in rows, not in time. */

/** A name per test, because deleting many associations may outlast a test. */
let name = "";
let tests = 0;
let mount = { accessor: "", uuid: "" };
beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  name = `m${++tests}`;
  await makeDestination("in-mem", name);
  await pause();
});

const at = (): string => `in-mem/${name}`;

/** So many pending associations, made by the object's own parts, a thousand in each transaction. */
async function fill(count: number): Promise<void> {
  await env.SYNC_CONTROL.getByName("main").share(at(), { kept: count, waiting: 0, asked: 0 });
  await runInDurableObject(destination(at()), async (_object, state) => {
    const { storage } = state;
    const { sql } = storage;
    const work = new WorkQueue(sql);
    const copies = new RemoteObjects(sql);
    const associations = new Associations(
      sql,
      work,
      { expectRequest() {}, hasRoom: () => true },
      copies,
      new SyncEvents({ emit() {} }, "in-mem/d"),
      () => [],
    );
    const naming = { granularity: "secret-path", template: "" } as const;
    const now = Date.now();
    for (let from = 0; from < count; from += 1_000) {
      storage.transactionSync(() => {
        for (let index = from; index < Math.min(from + 1_000, count); index++) {
          const secretName = `s${String(index).padStart(6, "0")}`;
          const secret = { mountUuid: mount.uuid, mountAccessor: mount.accessor, mountPath: "kv/", secretName };
          const copy = { subKey: "", name: `x/${secretName}`, collisionKey: `x/${secretName}`, refused: null };
          const step = { kind: "add", copy, blocked: null, elsewhere: false, adoptedFrom: [] } as const;
          associations.set(secret, { naming, steps: [step], place: "" }, now, { manual: true, order: "single" });
        }
      });
    }
    sql.exec(
      "INSERT INTO share (id, granted, open) VALUES (1, ?, 0) ON CONFLICT (id) DO UPDATE SET granted = excluded.granted",
      count,
    );
    sql.exec("INSERT INTO scan VALUES (1, ?, '')", now + 3_600_000);
    await storage.sync();
    // The object does not know of rows that it has not written itself.
    state.abort("filled");
  }).catch((failure) => expect(String(failure)).toContain("filled"));
  await runInDurableObject(destination(at()), (object: SyncDestination) => object.alarm());
}

/** Listings and other effects that the destination has still to deliver. */
const undelivered = (): Promise<unknown> =>
  runInDurableObject(
    destination(at()),
    (_object, { storage: { sql } }) => sql.exec("SELECT count(*) AS n FROM outbox").one()["n"],
  );

interface Cost {
  /** Rows read by all statements together. */
  readonly rows: number;
  /** Rows that the largest answer held. */
  readonly page: number;
}

/** The rows read and written inside the destination's object. */
const costOf = (act: (object: SyncDestination) => unknown): Promise<Cost> =>
  runInDurableObject(destination(at()), async (object: SyncDestination, { storage }) => {
    const cursors: { rowsRead: number }[] = [];
    let page = 0;
    const exec = storage.sql.exec.bind(storage.sql);
    const seen = vi.spyOn(storage.sql, "exec").mockImplementation((query: string, ...values: unknown[]) => {
      const cursor = exec(query, ...values);
      const toArray = cursor.toArray.bind(cursor);
      cursor.toArray = () => {
        const rows = toArray();
        page = Math.max(page, rows.length);
        return rows;
      };
      cursors.push(cursor);
      return cursor as never;
    });
    try {
      await act(object);
    } finally {
      seen.mockRestore();
    }
    return { rows: cursors.reduce((sum, cursor) => sum + cursor.rowsRead, 0), page };
  });

/** The rows that a page of a scan or of an end may cost: some for each of hundreds of associations. */
const PAGE_ROWS = 100_000;

/** A cost that grows with the backlog shows between any two sizes. */
const SIZES = isLong ? [1_000, 10_000, 100_000] : [1_000, 10_000];

describe.each(SIZES)("with %i pending associations", (count) => {
  beforeEach(() => {
    // No further Worker polls.
    vi.spyOn(env.SYNC_WORK, "sendBatch").mockRejectedValue(new Error("later"));
    vi.spyOn(env.SYNC_WORK, "send").mockRejectedValue(new Error("later"));
    return fill(count);
  }, 120_000);

  it("a pause, the next deadline, a poll, a change and an alarm cost the same few rows", async () => {
    for (const disabled of [false, true]) {
      const paused = await costOf(async () => expect((await configure({ disabled })).status).toBe(200));
      expect(paused.rows).toBeLessThanOrEqual(20);
    }
    const due = await costOf((object) => object.nextDue());
    expect(due.rows).toBeLessThanOrEqual(20);
    const change = await costOf((object) => object.changed(mount.uuid, ["s000500"]));
    expect(change.rows).toBeLessThanOrEqual(120);
    const idle = await costOf((object) => object.alarm());
    expect(idle.rows).toBeLessThanOrEqual(100);
    const read = await costOf((object) => object.read());
    expect(read.rows).toBeLessThanOrEqual(20);
    const refused = await costOf((object) => object.delete());
    expect(refused.rows).toBeLessThanOrEqual(1_020);
    const page = await costOf((object) => object.associations(null));
    expect(page.page).toBeLessThanOrEqual(1_000);
    await resume();
    const polled = await costOf(async (object) =>
      expect(await object.poll([], 6)).toMatchObject({ tasks: { length: 6 } }),
    );
    expect(polled.rows).toBeLessThanOrEqual(400);
    const scan = await costOf(async (object) => {
      await object.configure({ namespace: "", type: "in-mem", name }, {});
      await object.alarm();
    });
    expect(scan).toMatchObject({ page: 200 });
    expect(scan.rows).toBeLessThanOrEqual(PAGE_ROWS);
    const purge = await costOf(async (object) => {
      await object.delete({ purge: true, force: false });
      await object.alarm();
    });
    expect(purge.page).toBeLessThanOrEqual(500);
    expect(purge.rows).toBeLessThanOrEqual(PAGE_ROWS);
    const end = await costOf(async (object) => {
      await object.delete({ purge: false, force: true });
      await object.alarm();
    });
    expect(end.page).toBeLessThanOrEqual(500);
    expect(end.rows).toBeLessThanOrEqual(PAGE_ROWS);
  }, 120_000);
});

it("a backlog of thousands is completed", async () => {
  const some = 1_500;
  await writeMany(
    mount,
    numbered("s0", some).map((name) => name.replace(/^s0/, "s00")),
  );
  await fill(some);
  await resume();
  // Not until no quota is granted: while it is plentiful, a destination keeps what its last operations had.
  await vi.waitFor(async () => expect(await counts(at())).toEqual({ SYNCED: some }), {
    timeout: 100_000,
    interval: 500,
  });
  expect(Object.keys(await objects(name))).toHaveLength(some);
  // Otherwise the next file finds a listing of it.
  await vi.waitFor(async () => expect(await undelivered()).toBe(0), { timeout: 60_000, interval: 500 });
}, 120_000);
