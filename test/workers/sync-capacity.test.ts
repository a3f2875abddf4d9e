import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { SyncControl, SyncDestination } from "../../src/worker.ts";
import { randomFrom } from "../crash/random.ts";
import { part } from "../support/long.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself } from "./clock-and-alarms.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  endFreshRights,
  eventually,
  makeDestination,
  objects,
  removeWithoutWaiting,
  setAssociation,
  write,
} from "./sync-helpers.ts";
import { configure, counts, destination, numbered, pause, resume, writeMany } from "./sync-limits.ts";

clock.moves = true;

/** A long backlog. */
const MANY = 120;
const NAMES = ["one", "two", "three"];
const AT = NAMES.map((name) => `in-mem/${name}`);
let mount = { accessor: "", uuid: "" };
beforeEach(async () => {
  mount = await mountKv();
  for (const name of NAMES) await makeDestination("in-mem", name);
});

const control = () => env.SYNC_CONTROL.getByName("main");
/** How many operations are queued in truth, at all destinations together. */
async function queued(): Promise<number> {
  let sum = 0;
  for (const at of AT) {
    sum += await runInDurableObject(destination(at), (_object: SyncDestination, { storage }) => {
      return storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM work WHERE queued = 1").one().n;
    });
  }
  return sum;
}
/** Everything that is stored about the association of a secret, anywhere. */
async function traces(secret: string): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const at of AT) {
    await runInDurableObject(destination(at), (_object: SyncDestination, { storage }) => {
      const like = `%${secret}%`;
      for (const [table, column] of [
        ["associations", "id"],
        ["copies", "association"],
        ["work", "id"],
        ["outbox", "lane || body"],
      ]) {
        found.push(...storage.sql.exec(`SELECT * FROM ${table} WHERE ${column} LIKE ?`, like).toArray());
      }
    });
    if ((await association(at, secret)) !== undefined) found.push(at);
  }
  await runInDurableObject(env.KV_STORE.getByName(mount.uuid), (_kv, { storage }) => {
    found.push(...storage.sql.exec("SELECT * FROM watchers WHERE path = ?", secret).toArray());
  });
  const listed = (await list("/sys/sync/associations")).body.data?.keys ?? [];
  found.push(...listed.filter((key: string) => key.includes(secret)));
  return found;
}

describe("with a capacity of five operations", () => {
  const secrets = numbered("s", 12);
  beforeEach(async () => {
    await writeMany(mount, secrets);
    await configure({ disabled: true, queue_capacity: 5 });
  });

  // Proves: B.config.queue_capacity.bound, B.state.disabled.bounded, B.sync.global-config
  it("five concurrent sets are accepted at two destinations together, the others return 503", async () => {
    const answers = await Promise.all(
      secrets.map(async (secret, index) => [secret, await setAssociation(AT[index % 2] as string, secret)] as const),
    );
    const refused = answers.filter(([, { status }]) => status !== 200);
    expect(refused).toHaveLength(secrets.length - 5);
    for (const [secret, { status, headers, body }] of refused) {
      expect([status, headers.get("Retry-After"), body.errors]).toEqual([
        503,
        expect.stringMatching(/^\d+$/),
        [expect.stringContaining("queue is at capacity")],
      ]);
      expect(await traces(secret)).toEqual([]);
    }
    expect(await queued()).toBe(5);
    expect((await get("/sys/sync/config")).body.data).toEqual({ disabled: true, queue_capacity: 5 });
    const admitted = answers.filter(([, { status }]) => status === 200);
    for (const [, { body }] of admitted) expect(body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await resume();
    await eventually(async () => expect(await queued()).toBe(0));
    // Released quota is available to others.
    for (const [secret] of refused) expect((await setAssociation("in-mem/three", secret)).status).toBe(200);
  });

  it("a set of a pending association is accepted", async () => {
    for (const secret of secrets.slice(0, 5)) await setAssociation("in-mem/one", secret);
    expect((await setAssociation("in-mem/one", "s0000")).status).toBe(200);
    expect((await setAssociation("in-mem/one", "s0007")).status).toBe(503);
    expect((await setAssociation("in-mem/two", "s0000")).status).toBe(503);
    expect(await queued()).toBe(5);
  });

  // Proves: B.config.disabled.queued, B.config.queue_capacity.bound, B.state.disabled.bounded
  it("changes of secrets and removals wait for capacity and are never refused", async () => {
    await configure({ disabled: false });
    for (const secret of secrets) await setAssociation("in-mem/one", secret);
    await eventually(async () => expect(await counts("in-mem/one")).toEqual({ SYNCED: 12 }));
    await pause();
    for (const secret of secrets) await write(secret, { v: "new" });
    await eventually(async () => expect(await counts("in-mem/one")).toEqual({ PENDING: 12 }));
    expect(await queued()).toBe(5);
    const removed = await removeWithoutWaiting("in-mem/one", "s0011");
    expect([removed.status, removed.body.data.sync_operation_counters]).toEqual([200, { PENDING: 1 }]);
    expect((await del("/sys/sync/destinations/in-mem/two?purge=true")).status).toBe(204);
    expect(await queued()).toBe(5);
    await resume();
    await eventually(async () => expect(await counts("in-mem/one")).toEqual({ SYNCED: 11 }));
    expect(new Set(Object.values(await objects("one")))).toEqual(new Set(['{"v":"new"}']));
  });

  it("a lower capacity keeps queued operations and accepts no new ones", async () => {
    for (const secret of secrets.slice(0, 5)) await setAssociation("in-mem/one", secret);
    await configure({ queue_capacity: 2 });
    expect(await queued()).toBe(5);
    expect((await setAssociation("in-mem/two", "s0006")).status).toBe(503);
    await configure({ queue_capacity: 7 });
    const answers = await Promise.all(secrets.slice(6).map((secret) => setAssociation("in-mem/two", secret)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(2);
    expect(await queued()).toBe(7);
    await resume();
    await eventually(async () => expect(await queued()).toBe(0));
  });

  it.each([
    ["is deleted by force", "?force_delete=true"],
    ["is purged", "?purge=true"],
    ["is purged by force", "?purge=true&force_delete=true"],
  ])("its capacity is released when a destination %s", async (_how, query) => {
    for (const secret of secrets.slice(0, 5)) await setAssociation("in-mem/one", secret);
    expect((await setAssociation("in-mem/two", "s0006")).status).toBe(503);
    expect((await del(`/sys/sync/destinations/in-mem/one${query}`)).status).toBe(204);
    if (query.includes("purge")) await resume();
    await eventually(async () => expect((await setAssociation("in-mem/two", "s0006")).status).toBe(200));
    await eventually(async () => expect((await get("/sys/sync/destinations/in-mem/one")).status).toBe(404));
  });

  it("a final failure releases its capacity", async () => {
    await cloudA.begin();
    await makeDestination("cloud-a-sm", "d");
    await endFreshRights("cloud-a-sm/d");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "CreateSecret", count: 100 });
    for (const secret of secrets.slice(0, 5)) await setAssociation("cloud-a-sm/d", secret);
    expect((await setAssociation("in-mem/two", "s0006")).status).toBe(503);
    await resume();
    await eventually(async () => expect((await setAssociation("in-mem/two", "s0006")).status).toBe(200));
    await eventually(async () => expect(await counts("cloud-a-sm/d")).toEqual({ CLIENT_SIDE_ERROR: 5 }));
  });

  it.each(["before", "after"])(
    "its capacity is not lost when a destination crashes %s it was granted some",
    async (when) => {
      const share = SyncControl.prototype.share;
      vi.spyOn(SyncControl.prototype, "share").mockImplementationOnce(function (this: SyncControl, ...parameters) {
        if (when === "after") share.apply(this, parameters);
        throw new Error("lost");
      });
      expect((await setAssociation("in-mem/one", "s0000")).status).toBe(500);
      await runInDurableObject(destination("in-mem/one"), (_object, state) => state.abort("killed")).catch(
        () => undefined,
      );
      expect(await traces("s0000")).toEqual([]);
      await byItself({ mounts: [mount.uuid], destinations: AT }, async () => {
        expect(await control().pending()).toBe(0);
      });
      for (const secret of secrets.slice(0, 5)) expect((await setAssociation("in-mem/two", secret)).status).toBe(200);
    },
  );

  it("a long backlog at a slow destination leaves capacity to another one", async () => {
    const PATIENCE_MS = 240_000;
    await cloudA.begin();
    await makeDestination("cloud-a-sm", "slow");
    await configure({ disabled: false, queue_capacity: 1_000 });
    const names = numbered("w", MANY);
    const many = await writeMany(mount, names);
    for (const [at, some] of [
      ["cloud-a-sm/slow", many],
      ["in-mem/two", many.slice(0, 4)],
    ] as const) {
      await Promise.all(some.map((secret) => destination(at).set(secret)));
      await eventually(async () => expect(await counts(at)).toEqual({ SYNCED: some.length }), PATIENCE_MS);
    }
    // So slow that the backlog lasts a minute, also where a busy machine delays the other destination.
    await cloudA.fault({ fault: "delay", ms: 2_000, operation: "UpdateSecret", count: MANY });
    await configure({ disabled: true, queue_capacity: 4 });
    await writeMany(mount, names, "second");
    await eventually(async () => expect(await counts("cloud-a-sm/slow")).toEqual({ PENDING: MANY }), PATIENCE_MS);
    await eventually(async () => expect(await counts("in-mem/two")).toEqual({ PENDING: 4 }), PATIENCE_MS);
    await resume();
    await eventually(async () => expect(await counts("in-mem/two")).toEqual({ SYNCED: 4 }), PATIENCE_MS);
    expect((await counts("cloud-a-sm/slow"))["PENDING"]).toBeGreaterThan(0);
    await cloudA.clearFaults();
    await eventually(async () => expect(await counts("cloud-a-sm/slow")).toEqual({ SYNCED: MANY }), PATIENCE_MS);
    const updates = (await cloudA.requests()).filter(({ operation }) => operation === "UpdateSecret");
    expect(updates).toHaveLength(MANY);
  }, 1_200_000);
});

describe("a capacity that is lowered while nothing is queued", () => {
  beforeEach(async () => {
    await writeMany(mount, numbered("s", 4));
    // Each destination keeps quota for its next changes while there is plenty.
    for (const at of AT.slice(0, 2)) await setAssociation(at, "s0000");
    await eventually(async () => expect(await queued()).toBe(0));
    expect(await runInDurableObject(control(), (object: SyncControl) => object.pending())).toBeGreaterThan(2);
  });

  // Proves: B.config.queue_capacity.bound
  it.each([false, true])("is available to every destination at once (paused: %s)", async (disabled) => {
    await configure({ disabled, queue_capacity: 2 });
    const answers = [];
    for (const secret of ["s0001", "s0002", "s0003"]) answers.push(await setAssociation("in-mem/three", secret));
    expect(answers.map(({ status }) => status)).toEqual(disabled ? [200, 200, 503] : [200, 200, 200]);
  });

  it("is available after a failure of a destination to answer", async () => {
    vi.spyOn(SyncDestination.prototype, "quotaScarce").mockRejectedValueOnce(new Error("restarting"));
    await configure({ queue_capacity: 1 });
    expect((await setAssociation("in-mem/three", "s0001")).status).toBe(503);
    await byItself({ mounts: [mount.uuid], destinations: AT }, async () => {
      expect((await setAssociation("in-mem/three", "s0001")).status).toBe(200);
    });
  });
});

describe("the capacity under any order of events", () => {
  /** More than enough, and less than lets destinations keep quota that they do not use. */
  const SCARCE = 9_999;

  // Proves: B.config.queue_capacity.bound
  it.each(part([31, 32, 33]))(
    "is never exceeded, and all secrets converge (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
      const secrets = numbered("s", 8);
      for (const secret of secrets) await write(secret, { v: 0 });
      const capacity = 6;
      await configure({ queue_capacity: capacity });
      const attempt = (request: Promise<unknown>) => request.catch(() => undefined);
      const acts: (() => Promise<unknown>)[] = [
        ...Array.from({ length: 5 }, () => () => setAssociation(pick(AT), pick(secrets))),
        ...Array.from({ length: 4 }, () => () => put(`/v1/kv/data/${pick(secrets)}`, { data: { v: random() } })),
        () => removeWithoutWaiting(pick(AT), pick(secrets)),
        () => send("DELETE", `/v1/kv/data/${pick(secrets)}`),
        pause,
        resume,
        resume,
        () =>
          configure({ queue_capacity: capacity + Math.floor(random() * 3) }).then(() =>
            configure({ queue_capacity: capacity + 2 }),
          ),
        () => runInDurableObject(destination(pick(AT)), (_object, state) => state.abort("killed")),
        () => runInDurableObject(control(), (_object, state) => state.abort("killed")),
      ];
      for (let step = 0; step < 40; step++) {
        await Promise.all(Array.from({ length: 3 }, () => attempt(pick(acts)())));
        expect(await queued()).toBeLessThanOrEqual(capacity + 2);
      }
      await attempt(configure({ disabled: false, queue_capacity: SCARCE }));
      expect((await configure({ disabled: false, queue_capacity: SCARCE })).status).toBe(200);
      await byItself({ mounts: [mount.uuid], destinations: AT }, async () => {
        for (const [index, name] of NAMES.entries()) {
          const expected: Record<string, string> = {};
          for (const secret of secrets) {
            if ((await association(AT[index] as string, secret)) === undefined) continue;
            const newest = await env.KV_STORE.getByName(mount.uuid).newest(secret);
            if (newest.ok && newest.value) expected[`vault/${mount.accessor}/${secret}`] = newest.value.data;
          }
          expect(await objects(name)).toEqual(expected);
          expect(
            Object.keys(await counts(AT[index] as string))
              .sort()
              .join(),
          ).toMatch(/^(SYNCED|UNSYNCED|,)*$/);
        }
        expect(await control().pending()).toBe(0);
      });
    },
    90_000,
  );
});
