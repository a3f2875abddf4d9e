import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { performWork } from "../../src/sync/worker/perform.ts";
import { type SyncControl, SyncDestination } from "../../src/worker.ts";
import { amount } from "../support/long.ts";
import { type Answer, del, get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself } from "./clock-and-alarms.ts";
import { evictObject } from "./evict-all.ts";
import { holdAnswer } from "./held-call.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  removeWithoutWaiting,
  setAssociation,
  setWithoutWaiting,
  write,
} from "./sync-helpers.ts";
import { configure, counts, destination, numbered, pause, resume, watchCalls, writeMany } from "./sync-limits.ts";

clock.moves = true;

let mount = { accessor: "", uuid: "" };
beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
});

/** Between two requests of a continuous writer. */
const BREAK_MS = 25;

const nameOf = (secret: string) => `vault/${mount.accessor}/${secret}`;
const REMOTE = ["cloud-a-sm/d1", "cloud-a-sm/d2", "cloud-a-sm/d3"];
const prefixed = (name: string) => cloudABody({ secret_name_template: `${name}/{{ .SecretPath }}` });
const makeRemote = async () => {
  for (const name of ["d1", "d2", "d3"]) await makeDestination("cloud-a-sm", name, prefixed(name));
};

describe("after the response to a pause", () => {
  // Proves: B.config.disabled.not-sent
  it("no call to a provider starts until the pause ends", async () => {
    await makeRemote();
    const secrets = numbered("s", 8);
    for (const secret of secrets) await write(secret, { v: 0 });
    const calls = watchCalls();
    let stop = false;
    let version = 0;
    /** A continuous writer; requests are answered normally, paused or not. A break keeps it from taking a processor. */
    const storm = async (act: () => Promise<Answer>) => {
      while (!stop) {
        const { status, text } = await act();
        expect(status, text).toBe(200);
        await scheduler.wait(BREAK_MS);
      }
    };
    const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T;
    const storms = [
      ...REMOTE.map((at) => storm(() => setWithoutWaiting(at, pick(secrets)))),
      storm(() => put(`/v1/kv/data/${pick(secrets)}`, { data: { v: ++version } })),
      storm(() => removeWithoutWaiting(pick(REMOTE), pick(secrets))),
      // Other tags make a push of several calls.
      storm(() => makeDestination("cloud-a-sm", "d1", { custom_tags: { t: String(++version) } })),
    ];
    for (let round = 0; round < 3; round++) {
      const before = calls.started.length;
      await vi.waitFor(() => expect(calls.started.length).toBeGreaterThan(before + 20));
      await cloudA.fault({ fault: "delay", ms: 400, count: 4 });
      await scheduler.wait(100);
      expect((await pause()).body.data.disabled).toBe(true);
      const answered = calls.started.length;
      await scheduler.wait(1_500);
      expect(calls.started.slice(answered)).toEqual([]);
      expect((await resume()).status).toBe(200);
    }
    stop = true;
    await Promise.all(storms);
    await eventually(async () => {
      for (const at of REMOTE) expect(Object.keys(await counts(at))).not.toContain("PENDING");
    });
    // The provider has exactly the associated secrets.
    const expected: Record<string, string> = {};
    for (const at of REMOTE) {
      for (const secret of secrets) {
        if ((await association(at, secret)) === undefined) continue;
        const { data } = (await get(`/v1/kv/data/${secret}`)).body.data;
        expected[`${at.split("/")[1]}/${secret}`] = JSON.stringify(data);
      }
    }
    const there = (await cloudA.secrets()).map(({ name, value }) => [name, value]);
    expect(Object.fromEntries(there)).toEqual(expected);
  }, 120_000);

  it("a running push may finish its call, but begins no further one until the pause ends", async () => {
    await makeDestination("cloud-a-sm", "d");
    await write("app", { v: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    const before = (await cloudA.requests()).length;
    const since = async () => (await cloudA.requests()).slice(before).map(({ operation }) => operation);
    const update = holdAnswer(
      ([, init]) => new Headers(init?.headers).get("x-amz-target")?.endsWith(".UpdateSecret") === true,
    );
    // The change pushes the secret, too, so that its call may be the one that is held.
    await makeDestination("cloud-a-sm", "d", { custom_tags: { a: "1" } });
    const set = setAssociation("cloud-a-sm/d", "app");
    await eventually(() => expect(update.isHeld()).toBe(true));
    await pause();
    update.release();
    expect((await set).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await scheduler.wait(300);
    expect(await since()).toEqual(["UpdateSecret"]);
    expect(await association("cloud-a-sm/d", "app")).toMatchObject({ sync_status: "PENDING" });
    await resume();
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
    expect((await cloudA.secrets())[0]?.tags).toEqual({ a: "1", "hashicorp:vault": "" });
  });

  it("no call waits for a connection: a request makes no more calls than it has connections", async () => {
    await write("app", { v: 1 });
    const names = numbered("d", 8);
    for (const name of names) {
      await makeDestination("cloud-a-sm", name, prefixed(name));
      await setAssociation(`cloud-a-sm/${name}`, "app");
    }
    const rung = vi.spyOn(env.SYNC_WORK, "send").mockRejectedValue(new Error("later"));
    const calls = watchCalls();
    await cloudA.fault({ fault: "delay", ms: 300, count: 100 });
    await write("app", { v: 2 });
    await eventually(() => expect(calls.started.length).toBeGreaterThanOrEqual(6));
    await scheduler.wait(200);
    expect(calls.most).toBe(6);
    rung.mockRestore();
    await byItself({ mounts: [mount.uuid], destinations: names.map((name) => `cloud-a-sm/${name}`) }, async () => {
      for (const name of names) expect(await cloudA.value(`${name}/app`)).toBe('{"v":2}');
    });
  });

  it("no inspection of a provider starts", async () => {
    await makeDestination("cloud-a-sm", "d");
    await write("app", { v: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    await pause();
    const before = (await cloudA.requests()).length;
    const at = "/sys/sync/destinations/cloud-a-sm/d";
    expect((await put(`${at}/verify`, {})).body.data).toMatchObject({ ok: false, error_code: "paused" });
    expect((await get(`${at}/drift`)).status).toBe(200);
    expect((await put(`${at}/associations/set?dry_run=true`, { mount: "kv", secret_name: "app" })).status).toBe(200);
    expect((await cloudA.requests()).slice(before)).toEqual([]);
  });
});

describe("while syncing is paused", () => {
  beforeEach(async () => {
    await makeDestination("in-mem", "m");
    for (const name of ["kept", "gone"]) {
      await write(name, { v: 1 });
      await setAssociation("in-mem/m", name);
    }
    await write("new", { v: 1 });
    await pause();
  });

  // Proves: B.config.disabled.not-sent, B.config.disabled.queued, B.state.disabled.pending,
  // B.state.enabled.leaves-pending, B.state.enabled.processed, B.sync.global-config
  it("every request is accepted as pending, and performed after the pause", async () => {
    expect((await setAssociation("in-mem/m", "new")).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    expect((await removeWithoutWaiting("in-mem/m", "gone")).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await write("kept", { v: 2 });
    await eventually(async () => expect(await counts("in-mem/m")).toEqual({ PENDING: 3 }));
    const before = { [nameOf("kept")]: '{"v":1}', [nameOf("gone")]: '{"v":1}' };
    expect(await objects("m")).toEqual(before);
    expect((await get("/sys/sync/config")).body.data).toMatchObject({ disabled: true });
    await resume();
    const after = { [nameOf("kept")]: '{"v":2}', [nameOf("new")]: '{"v":1}' };
    await eventually(async () => expect(await objects("m")).toEqual(after));
    await eventually(async () => expect(await counts("in-mem/m")).toEqual({ SYNCED: 2 }));
  });

  // Proves: B.state.disabled.pending
  it("a purge begins, refuses set and remove, and waits", async () => {
    expect((await del("/sys/sync/destinations/in-mem/m?purge=true")).status).toBe(204);
    const set = await setAssociation("in-mem/m", "new");
    expect([set.status, set.body.errors[0]]).toEqual([400, expect.stringContaining("purge in progress")]);
    await scheduler.wait(500);
    expect((await get("/sys/sync/destinations/in-mem/m")).body.data).toMatchObject({ purge_error: "" });
    expect(Object.keys(await objects("m"))).toHaveLength(2);
    await resume();
    await eventually(async () => expect((await get("/sys/sync/destinations/in-mem/m")).status).toBe(404));
  });

  it("no wake-up is sent and the alarm is far away, for any backlog and after restarts", async () => {
    const isQuiet = () =>
      eventually(() =>
        runInDurableObject(destination("in-mem/m"), async (_object: SyncDestination, state) => {
          expect(((await state.storage.getAlarm()) ?? 0) - Date.now()).toBeGreaterThan(30_000);
        }),
      );
    await Promise.all((await writeMany(mount, numbered("w", 40))).map((secret) => destination("in-mem/m").set(secret)));
    await isQuiet();
    const rings = vi.spyOn(env.SYNC_WORK, "send");
    let losses = 0;
    for (let round = 0; round < 3; round++) {
      await write("kept", { v: round + 2 });
      for (const secret of ["kept", "new"]) await setAssociation("in-mem/m", secret);
      await isQuiet();
      losses += await evictObject(destination("in-mem/m"));
      await runInDurableObject(destination("in-mem/m"), (object: SyncDestination) => object.alarm());
    }
    await isQuiet();
    // One each time that it had lost its memory.
    expect(rings.mock.calls.length).toBeLessThanOrEqual(losses);
  });
});

const BIG = amount(100, 150);

describe("when a pause is over", () => {
  const all = { mounts: [] as string[], destinations: ["in-mem/big", "in-mem/small"] };
  const pend = async (at: string, names: readonly string[]) => {
    const secrets = await writeMany(mount, names);
    for (const set of await Promise.all(secrets.map((secret) => destination(at).set(secret))))
      expect(set.ok).toBe(true);
  };
  beforeEach(async () => {
    for (const name of ["big", "small"]) await makeDestination("in-mem", name);
    await pause();
    await pend("in-mem/big", numbered("b", BIG));
    await pend("in-mem/small", numbered("s", 5));
  });
  const isDone = async () => {
    expect(await counts("in-mem/small")).toEqual({ SYNCED: 5 });
    expect(await counts("in-mem/big")).toEqual({ SYNCED: BIG });
  };

  // Proves: B.state.enabled.leaves-pending, B.state.enabled.processed
  it("all pending work is done, and a small backlog does not wait for a large one", async () => {
    const order: string[] = [];
    const poll = SyncDestination.prototype.poll;
    vi.spyOn(SyncDestination.prototype, "poll").mockImplementation(function (this: SyncDestination, results, ...rest) {
      for (const { lease } of results) order.push(lease.id.includes("/s") ? "small" : "big");
      return poll.call(this, results, ...rest);
    });
    await resume();
    await eventually(isDone);
    expect(order).toHaveLength(BIG + 5);
    expect(order.lastIndexOf("small")).toBeLessThan(order.length / 2);
  });

  it("all pending work is done although wake-up messages are lost", async () => {
    vi.spyOn(env.SYNC_WORK, "sendBatch").mockResolvedValue({
      metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } },
    });
    await resume();
    expect(await counts("in-mem/small")).toEqual({ PENDING: 5 });
    await byItself(all, isDone);
  });

  it("all pending work is done although a wake-up meets a Worker that learns of the pause", async () => {
    vi.spyOn(env.SYNC_WORK, "sendBatch").mockRejectedValue(new Error("the test sends the wake-up"));
    const real = SyncDestination.prototype.poll;
    let state: "awaited" | "held" | "released" = "awaited";
    vi.spyOn(SyncDestination.prototype, "poll").mockImplementation(async function (this: SyncDestination, ...given) {
      const answer = await real.apply(this, given);
      if (state !== "awaited") return answer;
      state = "held";
      // Polled: a promise of another request would not resume this one.
      while (state === "held") await scheduler.wait(10);
      return answer;
    });
    const work = () => performWork(env, "in-mem/small", { budgetMs: 10_000 });
    const paused = work();
    await eventually(() => expect(state).toBe("held"));
    await resume();
    await work();
    state = "released";
    await paused;
    expect(await counts("in-mem/small")).toEqual({ SYNCED: 5 });
  });

  it("callers that meet a Worker during the pause share its next poll", async () => {
    const real = SyncDestination.prototype.poll;
    const poll = vi.spyOn(SyncDestination.prototype, "poll");
    poll.mockImplementation(async function (this: SyncDestination, ...given) {
      const answer = await real.apply(this, given);
      await scheduler.wait(40);
      return answer;
    });
    const callers: Promise<void>[] = [];
    for (const end = Date.now() + 1_000; Date.now() < end; await scheduler.wait(5)) {
      callers.push(performWork(env, "in-mem/small", { budgetMs: 10_000 }));
    }
    await Promise.all(callers);
    // One for each caller would be 25.
    expect(poll.mock.calls.length).toBeLessThan(14);
    await resume();
    await eventually(async () => expect(await counts("in-mem/small")).toEqual({ SYNCED: 5 }));
  });

  it("work that waits for a later time is due then, and not a minute after the pause was seen", async () => {
    const object = destination("in-mem/small") as DurableObjectStub<SyncDestination>;
    vi.spyOn(env.SYNC_WORK, "sendBatch").mockRejectedValue(new Error("the test polls"));
    vi.spyOn(env.SYNC_WORK, "send").mockRejectedValue(new Error("the test polls"));
    const alarmIn = () =>
      runInDurableObject(object, async (_object, { storage }) => ((await storage.getAlarm()) ?? 0) - Date.now());
    await runInDurableObject(object, (_object, { storage }) => {
      storage.sql.exec("INSERT INTO work_pause VALUES (1, ?)", Date.now() + 20_000);
    });
    await evictObject(object);
    await object.poll([], 6);
    await runInDurableObject(object, async (instance, { storage }) => {
      await storage.deleteAlarm();
      await instance.alarm();
    });
    expect(await alarmIn(), "while paused").toBeGreaterThan(30_000);
    await resume();
    expect(await object.poll([], 6)).toMatchObject({ running: true, tasks: [] });
    expect(await alarmIn(), "after the pause").toBeLessThanOrEqual(20_000);
  });

  it("all pending work is done although the object that sends wake-ups restarts", async () => {
    const sent = vi.spyOn(env.SYNC_WORK, "sendBatch").mockRejectedValue(new Error("queue is down"));
    await resume();
    await eventually(() => expect(sent).toHaveBeenCalled());
    await runInDurableObject(env.SYNC_CONTROL.getByName("main"), (_object: SyncControl, state) => {
      state.abort("killed");
    }).catch(() => undefined);
    sent.mockRestore();
    await byItself(all, isDone);
  });

  it("all pending work is done although the destinations restart", async () => {
    await resume();
    for (let round = 0; round < 5; round++) {
      await scheduler.wait(30);
      await runInDurableObject(destination("in-mem/big"), (_object: SyncDestination, state) => {
        state.abort("killed");
      }).catch(() => undefined);
    }
    await byItself(all, isDone);
  });

  it("and begins again at once, the newest request applies", async () => {
    for (let round = 0; round < 3; round++) await Promise.all([resume(), pause()]);
    await pause();
    await scheduler.wait(200);
    const before = await counts("in-mem/big");
    await scheduler.wait(700);
    expect(await counts("in-mem/big")).toEqual(before);
    await Promise.all([pause(), configure({ disabled: false })]);
    await resume();
    await eventually(isDone);
  });
});
