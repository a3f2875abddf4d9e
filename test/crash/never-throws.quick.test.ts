import { createExecutionContext, createMessageBatch, getQueueResult, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { REVIEW_MS } from "../../src/read-leases/lease-table.ts";
import worker, { EventLog, KvStore, SyncDestination } from "../../src/worker.ts";
import { mountKv, put } from "../workers/client.ts";
import { cloudA } from "../workers/sync-cloud-a.ts";
import { openRepoHost } from "../workers/sync-doubles.ts";
import {
  association,
  eventually,
  makeDestination,
  setAssociation,
  setWithoutWaiting,
  write,
} from "../workers/sync-helpers.ts";
import { randomFrom } from "./random.ts";

/** Whatever fails beneath them, `alarm()` and `queue()` come back without throwing, and what waits stays waiting. */
let mount = { uuid: "", accessor: "" };
beforeEach(async () => {
  await cloudA.begin();
  mount = await mountKv();
  await write("app", { v: 1 });
  await makeDestination("cloud-a-sm", "d");
  await makeDestination("in-mem", "m");
});

const objects = () =>
  [
    env.ACCESS_CONTROL.getByName("main"),
    env.KV_STORE.getByName(mount.uuid),
    env.SYNC_DESTINATION.getByName("cloud-a-sm/d"),
    env.SYNC_DESTINATION.getByName("in-mem/m"),
    env.EVENT_LOG.getByName("log"),
  ] as unknown as DurableObjectStub<StoredObject>[];

type Breakable = Record<string, (...parameters: unknown[]) => unknown>;
/** The bindings and dependencies of the objects, each of which may fail. */
const bindings = (): [Breakable, string][] => [
  [env.LISTINGS as unknown as Breakable, "prepare"],
  [env.SYNC_WORK as unknown as Breakable, "send"],
  [EventLog.prototype as unknown as Breakable, "append"],
  [KvStore.prototype as unknown as Breakable, "watch"],
  [KvStore.prototype as unknown as Breakable, "unwatch"],
  [KvStore.prototype as unknown as Breakable, "newest"],
  [SyncDestination.prototype as unknown as Breakable, "changed"],
  [SyncDestination.prototype as unknown as Breakable, "poll"],
];

it("an alarm that fails after a commit of due rows comes again after the usual pause", async () => {
  const [registry] = objects();
  await runInDurableObject(registry as DurableObjectStub<StoredObject>, async (object, { storage }) => {
    const parts = object as unknown as Record<"ownDeadline" | "onAlarm" | "commit", (...given: unknown[]) => unknown>;
    vi.spyOn(parts, "ownDeadline").mockReturnValue(0);
    vi.spyOn(parts, "onAlarm").mockImplementation(async () => {
      parts.commit(() => undefined);
      throw new Error("down");
    });
    await object.alarm();
    expect(await storage.getAlarm()).toBeGreaterThan(Date.now() + 3_000);
  });
});

describe("under random failures", () => {
  it.each([21, 22, 23, 24])(
    "no alarm throws, pending rows keep an alarm, and all work completes afterwards (seed %i)",
    async (seed) => {
      const random = randomFrom(seed);
      let failures = 0;
      const broken = bindings().map(([owner, name]) => {
        const original = owner[name] as (...parameters: unknown[]) => unknown;
        return vi.spyOn(owner, name).mockImplementation(function (this: unknown, ...parameters) {
          if (random() < 0.6) {
            failures++;
            throw new Error(`${name} is down`);
          }
          return original.apply(this, parameters);
        });
      });
      for (let step = 0; step < 12; step++) {
        const act = [
          () => setWithoutWaiting("cloud-a-sm/d", "app"),
          () => setWithoutWaiting("in-mem/m", "app"),
          () => put("/v1/kv/data/app", { data: { v: step } }),
          () => put(`/v1/sys/policies/acl/p${step}`, { policy: 'path "a" {}' }),
          () => put("/sys/sync/destinations/in-mem/m", {}),
        ][Math.floor(random() * 5)];
        await act?.().catch(() => undefined);
        for (const stub of objects()) {
          await runInDurableObject(stub, async (object, state) => {
            await expect(object.alarm()).resolves.toBeUndefined();
            if (object.nextDue() !== null) expect(await state.storage.getAlarm()).not.toBeNull();
          });
        }
      }
      expect(failures).toBeGreaterThan(10);
      for (const spy of broken) spy.mockRestore();
      await write("app", { v: "last" });
      for (const at of ["cloud-a-sm/d", "in-mem/m"]) {
        expect((await setWithoutWaiting(at, "app")).status).toBe(200);
      }
      // The leases of replicas are over, and their rows reviewed.
      const now = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => now() + 2 * REVIEW_MS);
      await eventually(async () => {
        for (const stub of objects().slice(0, 2)) {
          await runInDurableObject(stub, async (object) => {
            await object.alarm();
            expect(object.nextDue()).toBeNull();
          });
        }
      });
    },
  );
});

/** As if another Worker had everything. */
const IDLE = { running: true, permitMs: 0, setup: null, tasks: [], retryInMs: null };

describe("the queue consumer", () => {
  const consume = (bodies: readonly unknown[], queue = "sync-work") => {
    const batch = createMessageBatch<unknown>(
      queue,
      bodies.map((body, position) => ({ id: `m${position}`, timestamp: new Date(), attempts: 1, body })),
    );
    const context = createExecutionContext();
    return { batch, context, handled: worker.queue(batch as MessageBatch<{ destination: string }>, env, context) };
  };
  const ring = async (bodies: readonly unknown[], queue?: string) => {
    const { batch, context, handled } = consume(bodies, queue);
    await handled;
    return getQueueResult(batch, context);
  };

  it("drops messages without a valid destination and processes the rest of the batch", async () => {
    vi.spyOn(KvStore.prototype, "watch").mockRejectedValueOnce(new Error("later"));
    const poll = vi.spyOn(SyncDestination.prototype, "poll").mockResolvedValue(IDLE);
    await setAssociation("in-mem/m", "app");
    expect((await association("in-mem/m", "app"))?.sync_status).toBe("PENDING");
    poll.mockRestore();
    const result = await ring([
      null,
      7,
      {},
      { destination: 1 },
      "text",
      { destination: "in-mem/none" },
      { destination: "in-mem/m" },
    ]);
    expect(result.explicitAcks).toEqual(["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    // A slow batch continues after it is acknowledged.
    await eventually(async () => expect((await association("in-mem/m", "app"))?.sync_status).toBe("SYNCED"));
  });

  it("acknowledges a message whose object fails, which sends another, and does not delay the others", async () => {
    const poll = SyncDestination.prototype.poll;
    vi.spyOn(SyncDestination.prototype, "poll").mockImplementation(async function (this: SyncDestination, ...given) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      if (ctx.id.name === "in-mem/m") throw new Error("object is down");
      return poll.apply(this, given);
    });
    const result = await ring([{ destination: "in-mem/m" }, { destination: "cloud-a-sm/d" }]);
    expect(result.retryMessages).toEqual([]);
    expect(result.explicitAcks.toSorted()).toEqual(["m0", "m1"]);
  });

  it("only counts dead letters, because the pending rows are kept in the object", async () => {
    const poll = vi.spyOn(SyncDestination.prototype, "poll");
    const result = await ring([{ destination: "in-mem/m" }, null], "sync-work-dead");
    expect(result.explicitAcks).toEqual(["m0", "m1"]);
    expect(poll).not.toHaveBeenCalled();
  });

  it("does not delay later messages behind a slow destination, and completes its task there", async () => {
    const poll = vi.spyOn(SyncDestination.prototype, "poll").mockResolvedValue(IDLE);
    await setWithoutWaiting("cloud-a-sm/d", "app");
    poll.mockRestore();
    await cloudA.fault({ fault: "delay", ms: 4_000, operation: "CreateSecret" });
    const { batch, context, handled } = consume([{ destination: "cloud-a-sm/d" }]);
    await handled;
    await eventually(async () =>
      expect((await cloudA.requests()).at(-1)).toMatchObject({ operation: "CreateSecret", status: null }),
    );
    const result = await getQueueResult(batch, context);
    expect(result.explicitAcks).toEqual(["m0"]);
    // The message of `set` may have come first: then another Worker began the push, and finishes it.
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
  });

  it("polls rarely while another Worker holds all leases of the destination", async () => {
    const host = await openRepoHost();
    await makeDestination("repo-host", "r", host.body);
    const poll = vi.spyOn(SyncDestination.prototype, "poll").mockResolvedValue(IDLE);
    await write("other", { v: 1 });
    for (const secret of ["app", "other"]) await setWithoutWaiting("repo-host/r", secret);
    poll.mockRestore();
    const polls = vi.spyOn(SyncDestination.prototype, "poll");
    await host.fault({ fault: "delay", ms: 6_000, operation: host.writes });
    const [first, second] = [consume([{ destination: "repo-host/r" }]), consume([{ destination: "repo-host/r" }])];
    await Promise.all([first.handled, second.handled]);
    await eventually(async () =>
      expect((await host.requests()).at(-1)).toMatchObject({ operation: host.writes, status: null }),
    );
    await getQueueResult(first.batch, first.context);
    const polled = polls.mock.calls.length;
    await eventually(async () => expect(Object.keys(await host.values())).toHaveLength(2));
    expect(polled).toBeLessThan(12);
  });

  it("pushes once when every message is delivered several times concurrently", async () => {
    const poll = vi.spyOn(SyncDestination.prototype, "poll").mockResolvedValue(IDLE);
    await setWithoutWaiting("cloud-a-sm/d", "app");
    poll.mockRestore();
    await Promise.all(
      Array.from({ length: 6 }, () => ring([{ destination: "cloud-a-sm/d" }, { destination: "cloud-a-sm/d" }])),
    );
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
    const creates = (await cloudA.requests()).filter(({ operation }) => operation === "CreateSecret");
    expect(creates).toHaveLength(1);
  });
});
