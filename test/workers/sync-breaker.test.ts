import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PollAnswer } from "../../src/contracts/sync-tasks.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import { SyncDestination as Destination } from "../../src/objects/sync-destination.ts";
import type { FormerSyncDestinationApi } from "../../src/rpc/renamed-methods.ts";
import { performWork } from "../../src/sync/worker/perform.ts";
import { TASK_MS } from "../../src/sync/worker/task-run.ts";
import type { SyncDestination } from "../../src/worker.ts";
import { amount } from "../support/long.ts";
import { get, mountKv } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { byItself, PassingTime } from "./clock-and-alarms.ts";
import { evictObject } from "./evict-all.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { association, cloudABody, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { counts, destination, numbered, pause, resume, watchCalls, writeMany } from "./sync-limits.ts";

clock.moves = true;

const MANY = amount(60, 100);
const AT = "cloud-a-sm/d";
const ALL = { mounts: [], destinations: [AT] };
let mount = { accessor: "", uuid: "" };
beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  await makeDestination("cloud-a-sm", "d");
});

const state = async () => (await get(`/sys/sync/destinations/${AT}`)).body.data;
const calls = async () => (await cloudA.requests()).length;
const DOWN = { fault: "error", type: "InternalServiceError", status: 500, count: 100_000 } as const;

/** Many associations that are all to be pushed from the same moment on. */
async function setMany(): Promise<void> {
  await pause();
  const secrets = await writeMany(mount, numbered("s", MANY));
  await Promise.all(secrets.map((secret) => destination(AT).set(secret)));
  await resume();
}

/** Loses the wake-ups of the destination, and those that end a pause: no Worker but the test's own performs work. */
function loseWakeUps(): void {
  for (const method of ["send", "sendBatch"] as const)
    vi.spyOn(env.SYNC_WORK, method).mockRejectedValue(new Error("later"));
}

/** Waits for the destination's attempts within this time. */
async function pass(minutes: number): Promise<void> {
  const time = new PassingTime(ALL);
  for (let step = 0; step < minutes * 6; step++) await time.pass(10_000);
  time.end();
}

describe("a provider that is down", () => {
  beforeEach(async () => {
    await cloudA.fault(DOWN);
    await setMany();
    // A destination that has met the pause on a busy machine asks again after a minute.
    await eventually(async () => expect((await state()).circuit_breaker).toBeDefined(), 90_000);
  }, 120_000);

  it("is tried one association at a time with growing pauses, not a hundred times", async () => {
    const first = await calls();
    expect(first).toBeLessThan(20);
    await pass(4);
    const { circuit_breaker } = await state();
    expect(circuit_breaker.failures).toBeGreaterThan(5);
    expect(await calls()).toBeLessThan(first + 20);
    expect((await counts(AT))["PENDING"]).toBeGreaterThan(MANY - 40);
    const pause = Date.parse(circuit_breaker.next_attempt_at) - Date.now();
    const answer = (await destination(AT).poll([], 6)) as unknown as Pick<PollAnswer, "retryInMs">;
    expect(answer.retryInMs ?? Number.POSITIVE_INFINITY).toBeGreaterThan(pause - 1_000);
  }, 120_000);

  it("is shown with the number of failures and the next attempt", async () => {
    const { circuit_breaker } = await state();
    expect(circuit_breaker).toEqual({ failures: expect.any(Number), next_attempt_at: expect.stringMatching(/Z$/) });
    expect(circuit_breaker.failures).toBeGreaterThanOrEqual(5);
  });

  it("shows the next attempt for associations that were never tried", async () => {
    // An association that is tried at the moment shows no next attempt.
    await eventually(async () => {
      const next = Date.parse((await state()).circuit_breaker.next_attempt_at);
      const { body } = await get(`/sys/sync/destinations/${AT}/associations`);
      const entries = Object.values<Record<string, unknown>>(body.data.associated_secrets);
      const untried = entries.filter((entry) => entry["sync_status"] === "PENDING" && entry["attempts"] === undefined);
      expect(untried.length).toBeGreaterThan(MANY / 2);
      for (const entry of untried) expect(Date.parse(String(entry["next_attempt_at"]))).toBeGreaterThanOrEqual(next);
    });
  });

  it("receives all secrets after one successful trial", async () => {
    await cloudA.clearFaults();
    await byItself(ALL, async () => expect(await counts(AT)).toEqual({ SYNCED: MANY }), { rounds: 600 });
    expect((await state()).circuit_breaker).toBeUndefined();
    expect(await cloudA.secrets()).toHaveLength(MANY);
  }, 120_000);

  it("is tried at once when its configuration is written again", async () => {
    await cloudA.clearFaults();
    await makeDestination("cloud-a-sm", "d", {});
    // A call that was under way may fail after the write, and count as one failure.
    await eventually(async () => expect(await counts(AT)).toEqual({ SYNCED: MANY }));
    expect((await state()).circuit_breaker).toBeUndefined();
  }, 120_000);

  it("is tried at once by a set of one association", async () => {
    const before = await calls();
    await write("mine", { v: 1 });
    await setAssociation(AT, "mine");
    // A busy machine answers before the push has ended.
    await eventually(async () => expect((await association(AT, "mine"))?.sync_status).toBe("EXTERNAL_SERVICE_ERROR"));
    const mine = (await cloudA.requests()).slice(before).filter(({ subject }) => subject?.endsWith("/mine"));
    expect(mine).toHaveLength(1);
    await cloudA.clearFaults();
    expect((await setAssociation(AT, "mine")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    expect((await state()).circuit_breaker).toBeUndefined();
  });

  it("is tried at once by a set of one association also while another trial runs", async () => {
    loseWakeUps();
    const time = new ShiftedClock();
    const lease = async () => (await destination(AT).poll([], 1, undefined, "slow")) as unknown as PollAnswer;
    await eventually(async () => {
      time.advance(20_000);
      expect((await lease()).tasks).toHaveLength(1);
    });
    expect((await lease()).tasks, "a second trial of the same kind").toEqual([]);
    await cloudA.clearFaults();
    await write("mine", { v: 1 });
    await setAssociation(AT, "mine");
    await eventually(async () => expect((await association(AT, "mine"))?.sync_status).toBe("SYNCED"));
    time.end();
  }, 120_000);
});

describe("a destination that refuses some secrets and accepts others", () => {
  const nameOf = (secret: string) => `vault/${mount.accessor}/${secret}`;
  let time: PassingTime;
  afterEach(() => time.end());

  /** Sets the failing secrets and a healthy one, and lets the former fail for some minutes. */
  async function begin(failing: readonly string[]): Promise<void> {
    time = new PassingTime({ mounts: [mount.uuid], destinations: [AT] });
    for (const secret of failing) await cloudA.fault({ ...DOWN, subject: nameOf(secret) });
    for (const secret of [...failing, "healthy"]) {
      await write(secret, { v: 1 });
      await setAssociation(AT, secret);
    }
    const refused = async () => (await cloudA.requests()).filter(({ status }) => status === 500).length;
    // So many failures in a row would open a breaker that counts attempts, for minutes.
    const enough = (await refused()) + 9;
    for (let step = 0; step < 300 && (await refused()) < enough; step++) await time.pass(10_000);
    expect(await refused(), "the failing secrets are tried again and again").toBeGreaterThanOrEqual(enough);
  }

  /** How long a changed secret takes to arrive, in ms that pass for all objects. */
  async function arrival(secret: string, version: number): Promise<number> {
    const start = time.passed;
    await write(secret, { v: version });
    while ((await cloudA.value(nameOf(secret))) !== `{"v":${version}}`) {
      expect(time.passed - start, `${secret} has not arrived`).toBeLessThan(300_000);
      await time.pass(1_000);
    }
    return time.passed - start;
  }

  it("pushes a changed secret at once while another one keeps failing", async () => {
    await begin(["s0"]);
    expect((await state()).circuit_breaker).toBeUndefined();
    expect(await arrival("healthy", 2)).toBeLessThan(10_000);
  }, 120_000);

  it("pushes a changed secret within half a minute while a dozen keep failing, before those of a resync", async () => {
    await begin(numbered("s", 12));
    for (const version of [2, 3]) expect(await arrival("healthy", version)).toBeLessThan(40_000);
    await pause();
    // A written configuration begins the scan again.
    await makeDestination("cloud-a-sm", "d", {});
    for (let step = 0; step < 6; step++) await time.pass(10_000);
    for (const secret of numbered("h", 3)) {
      await write(secret, { v: 1 });
      await setAssociation(AT, secret);
    }
    await cloudA.fault({ fault: "delay", ms: 50, count: 100 });
    const before = (await cloudA.requests()).length;
    await resume();
    await eventually(async () => {
      await time.pass(1_000);
      expect((await counts(AT))["SYNCED"]).toBe(4);
    });
    const order = (await cloudA.requests()).slice(before).map(({ subject }) => subject?.split("/").at(-1) ?? "");
    const last = Math.max(...numbered("h", 3).map((secret) => order.indexOf(secret)));
    expect(order.slice(0, last).filter((secret) => secret.startsWith("s")).length).toBeLessThanOrEqual(3);
  }, 120_000);
});

describe("credentials that are refused", () => {
  it("are not tried a hundred times, and all secrets are pushed after the repair", async () => {
    await makeDestination("cloud-a-sm", "d", { secret_access_key: "not-the-key" });
    await setMany();
    await eventually(async () => expect((await state()).circuit_breaker).toBeDefined());
    expect(await calls()).toBeLessThan(20);
    await pass(4);
    expect(await calls()).toBeLessThan(40);
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await eventually(async () => expect(await counts(AT)).toEqual({ SYNCED: MANY }));
  }, 120_000);
});

describe("a provider that throttles", () => {
  it("receives no call for the requested wait, without an open breaker", async () => {
    const type = "ThrottlingException";
    await cloudA.fault({ fault: "error", type, status: 429, headers: { "retry-after": "90" }, count: 6 });
    await setMany();
    await eventually(async () => expect((await counts(AT))["EXTERNAL_SERVICE_ERROR"]).toBeGreaterThan(0));
    await eventually(() =>
      runInDurableObject(destination(AT), (object: SyncDestination) => {
        expect((object.nextDue() ?? 0) - Date.now()).toBeGreaterThan(30_000);
      }),
    );
    const before = await calls();
    expect(before).toBeLessThanOrEqual(6);
    await pass(1);
    expect(await calls()).toBe(before);
    expect((await state()).circuit_breaker).toBeUndefined();
    await byItself(ALL, async () => expect(await counts(AT)).toEqual({ SYNCED: MANY }), { rounds: 600 });
  }, 120_000);
});

describe("a destination with few concurrent calls", () => {
  afterEach(() => vi.restoreAllMocks());

  it("receives no more of them at a time, for any number of Workers and sets", async () => {
    await cloudA.fault({ fault: "delay", ms: 150, count: 60 });
    await pause();
    const secrets = await writeMany(mount, numbered("s", 30));
    await Promise.all(secrets.map((secret) => destination(AT).set(secret)));
    await write("mine", { v: 1 });
    await resume();
    const calls = watchCalls();
    const rings = Array.from({ length: 8 }, () => performWork(env, AT, { budgetMs: 5_000 }));
    const sets = Array.from({ length: 8 }, () => setAssociation(AT, "mine"));
    await eventually(async () => expect(await counts(AT)).toEqual({ SYNCED: 31 }));
    await Promise.all([...rings, ...sets]);
    vi.restoreAllMocks();
    expect(calls.most).toBeGreaterThan(1);
    expect(calls.most).toBeLessThanOrEqual(6);
  }, 120_000);

  it("has tasks in reserve at its only Worker, and not at a second one", async () => {
    await pause();
    const secrets = await writeMany(mount, numbered("s", 20));
    await Promise.all(secrets.map((secret) => destination(AT).set(secret)));
    loseWakeUps();
    await resume();
    const lease = async (slots: number, holder: string) => {
      const answer = (await destination(AT).poll([], slots, undefined, holder)) as unknown as PollAnswer;
      return answer.tasks.length;
    };
    expect(await lease(4, "one")).toBe(4);
    expect(await lease(20, "two")).toBe(2);
    expect(await lease(20, "one")).toBe(0);
    await runInDurableObject(destination(AT), (_object: SyncDestination, { storage }) =>
      storage.sql.exec("UPDATE work SET lease = NULL, ready_at = 0 WHERE lease LIKE 'two %'"),
    );
    await evictObject(destination(AT));
    expect(await lease(20, "one")).toBe(8);
    expect(await lease(20, "two")).toBe(0);
  }, 120_000);

  it("has its work done by a Worker of the version before, which knows methods and fields by their former names", async () => {
    await pause();
    for (const secret of await writeMany(mount, ["s"])) await destination(AT).set(secret);
    loseWakeUps();
    await resume();
    const object = destination(AT) as unknown as FormerSyncDestinationApi;
    const leased = await object.turn([], 1);
    const tasks = "ok" in leased ? [] : leased.tasks;
    expect(tasks).toMatchObject([{ wish: "present", secretName: "s" }]);
    const results = tasks.map(({ claim }) => ({ claim, version: null, tagKeys: [], copies: [], unfinished: true }));
    await object.turn(results, 0);
    await performWork(env, AT, { budgetMs: 20_000 });
    expect(await counts(AT)).toEqual({ SYNCED: 1 });
  }, 120_000);

  it("has its work done although the first poll fails, which another caller has joined", async () => {
    await pause();
    const secrets = await writeMany(mount, numbered("s", 3));
    await Promise.all(secrets.map((secret) => destination(AT).set(secret)));
    loseWakeUps();
    await resume();
    const polls = vi.spyOn(Destination.prototype, "poll").mockImplementationOnce(async () => {
      await scheduler.wait(500);
      throw new Error("lost");
    });
    const first = performWork(env, AT, { budgetMs: 20_000 });
    await vi.waitUntil(() => polls.mock.calls.length > 0, { timeout: 60_000 });
    await performWork(env, AT, { budgetMs: 20_000 });
    expect(polls).toHaveBeenCalledOnce();
    await first;
    expect(await counts(AT)).toEqual({ SYNCED: 3 });
  }, 120_000);

  it("receives no call of a task whose time, counted from its lease, passed on the way to the Worker", async () => {
    await pause();
    for (const secret of await writeMany(mount, ["s"])) await destination(AT).set(secret);
    loseWakeUps();
    await resume();
    const before = await calls();
    const time = new ShiftedClock();
    const { poll } = Destination.prototype;
    vi.spyOn(Destination.prototype, "poll").mockImplementationOnce(async function (this: Destination, ...given) {
      const answer = await poll.apply(this, given);
      time.advance(TASK_MS);
      return answer;
    });
    await performWork(env, AT, { budgetMs: 5_000 });
    expect(await calls()).toBe(before);
    await performWork(env, AT, { budgetMs: 20_000 });
    expect(await counts(AT)).toEqual({ SYNCED: 1 });
    time.end();
  }, 120_000);

  it("has the secrets of tasks leased together read in one call, and the results reported together", async () => {
    await cloudA.fault({ fault: "delay", ms: 150, count: 60 });
    await pause();
    const secrets = await writeMany(mount, numbered("s", 12));
    await Promise.all(secrets.map((secret) => destination(AT).set(secret)));
    const reads = vi.spyOn(KvStore.prototype, "newestOf");
    const polls = vi.spyOn(Destination.prototype, "poll");
    await resume();
    await Promise.all([
      performWork(env, AT, { budgetMs: 5_000 }),
      eventually(async () => expect(await counts(AT)).toEqual({ SYNCED: 12 })),
    ]);
    expect(reads.mock.calls.some(([paths]) => paths.length > 1)).toBe(true);
    expect(polls.mock.calls.some(([results]) => results.length > 1)).toBe(true);
    vi.restoreAllMocks();
  }, 120_000);
});
