import { createScheduledController, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { storeDueSnapshot } from "../../src/backup/scheduled-snapshots.ts";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import { clearSnapshotCache, snapshotState } from "../../src/monitoring/snapshots.ts";
import { AccessControl } from "../../src/objects/access-control.ts";
import { KvStore } from "../../src/objects/kv-store.ts";
import { takeCounts } from "../../src/platform/observability/metrics/isolate-counters.ts";
import type { Series } from "../../src/platform/observability/metrics/series.ts";
import { settings } from "../../src/platform/settings.ts";
import { snapshotName, storedSnapshots } from "../../src/platform/snapshot-bucket.ts";
import { accessControl, metrics } from "../../src/rpc/stubs.ts";
import worker from "../../src/worker.ts";
import { loseEverything } from "./backup-world.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deployment } from "./deployment.ts";
import { eventually } from "./sync-helpers.ts";

/** docs/operate/backup.md, "Scheduled snapshots". The bucket `FILES` of the tests stands for any. */
clock.moves = true;

const bucket = env.FILES as R2Bucket;
const HOUR_MS = 3_600_000;

const deployed = (own: object = {}): Env => ({
  ...env,
  ...({ SNAPSHOT_CRON: "0 2 * * *", SNAPSHOT_KEEP: "3", SNAPSHOT_BUCKET: bucket } as object),
  ...own,
});

/** Runs with another time of day, without a change of the clocks of objects between two calls. */
async function at<T>(time: number, run: () => Promise<T>): Promise<T> {
  const moved = vi.spyOn(Date, "now").mockReturnValue(time);
  try {
    return await run();
  } finally {
    moved.mockRestore();
    clearSnapshotCache();
    clearHealthCache();
  }
}

const clusterId = async (): Promise<string> => (await accessControl(env).status()).clusterId;

/** Puts objects with the names of snapshots that were taken these hours ago. */
async function takenBefore(...hours: number[]): Promise<string[]> {
  const cluster = await clusterId();
  const names = hours.map((ago) => snapshotName(cluster, Date.now() - ago * HOUR_MS));
  for (const name of names) await bucket.put(name, "x");
  return names;
}

const names = async (): Promise<string[]> => (await storedSnapshots(bucket)).map(({ name }) => name);

const counted = (): string[] => [...takeCounts().keys()].filter((key) => key.startsWith("sallyport_snapshots_total"));

beforeEach(async () => {
  for (const { key } of (await bucket.list()).objects) await bucket.delete(key);
  takeCounts();
});

describe("a scheduled snapshot", () => {
  it("is stored at once by the first trigger, and then when it is due", async () => {
    await mountKv();
    await worker.scheduled(createScheduledController(), deployed());
    const [first = "", ...more] = await names();
    expect(more).toEqual([]);
    expect(first).toMatch(new RegExp(`^${await clusterId()}/sallyport-\\d{8}T\\d{6}Z\\.snapshot$`));
    expect(await storeDueSnapshot(deployed())).toBe("not-due");
    expect(await names()).toEqual([first]);
  });

  it.each([
    [1, "not-due"],
    [25, "ok"],
  ] as const)("after one of %i hours ago is %s", async (hours, outcome) => {
    const noon = Date.UTC(2026, 10, 25, 12);
    const cluster = await clusterId();
    await bucket.put(snapshotName(cluster, noon - hours * HOUR_MS), "x");
    vi.setSystemTime(noon);
    expect(await storeDueSnapshot(deployed())).toBe(outcome);
  });

  it("leaves the newest SNAPSHOT_KEEP of its own deployment, and every other object", async () => {
    const old = await takenBefore(96, 72, 48, 36);
    const others = ["other/sallyport-20200101T000000Z.snapshot", "notes.txt", `${await clusterId()}/by-hand.snapshot`];
    for (const key of others) await bucket.put(key, "x");
    expect(await storeDueSnapshot(deployed())).toBe("ok");
    const kept = (await bucket.list()).objects.map(({ key }) => key);
    expect(kept.filter((key) => !others.includes(key) && !old.includes(key))).toHaveLength(1);
    expect(kept).toHaveLength(6);
    expect(kept).toEqual(expect.arrayContaining([...others, ...old.slice(2)]));
  });

  it("deletes old ones in parts, beside those that a lock rule of the bucket holds", async () => {
    const old = await takenBefore(...Array.from({ length: 120 }, (_, at) => 200 - at));
    const locked = old[3] ?? "";
    const parts: number[] = [];
    const deleteKeys = async (given: string | string[]): Promise<void> => {
      const keys = [given].flat();
      parts.push(keys.length);
      if (keys.includes(locked)) throw new Error("the object is locked");
      await bucket.delete(keys);
    };
    const own = {
      list: (options: R2ListOptions) => bucket.list(options),
      put: (key: string, value: Uint8Array) => bucket.put(key, value),
      delete: deleteKeys,
    };
    expect(await storeDueSnapshot(deployed({ SNAPSHOT_BUCKET: own }))).toBe("ok");
    const left = await names();
    expect(left).toHaveLength(4);
    expect(left).toEqual(expect.arrayContaining([locked, ...old.slice(-2)]));
    expect(Math.max(...parts)).toBeLessThanOrEqual(1_000);
  });

  it("of several parts is restored by the name of its object", { timeout: 180_000 }, async () => {
    await mountKv();
    for (let n = 0; n < 6; n++) await put(`/v1/kv/data/big-${n}`, { data: { v: `${n}`.repeat(900_000) } });
    const abort = vi.fn(async () => undefined);
    const uploadPart = () => Promise.reject(new Error("the bucket is down"));
    const down = { list: () => bucket.list(), createMultipartUpload: async () => ({ uploadPart, abort }) };
    expect(await storeDueSnapshot(deployed({ SNAPSHOT_BUCKET: down }))).toBe("failed");
    expect(abort).toHaveBeenCalledTimes(1);
    const uploads = vi.spyOn(Object.getPrototypeOf(bucket) as R2Bucket, "createMultipartUpload");
    expect(await storeDueSnapshot(deployed())).toBe("ok");
    expect(uploads).toHaveBeenCalledTimes(1);
    const [stored] = await storedSnapshots(bucket);
    expect(stored?.bytes).toBeGreaterThan(5 * 1024 * 1024);
    const file = await (await bucket.get(stored?.name ?? ""))?.arrayBuffer();

    await loseEverything();
    await bucket.put(stored?.name ?? "", file ?? "");
    const ask = deployment({ SNAPSHOT_BUCKET: bucket });
    const list = await ask("/v1/sys/snapshot?list=true");
    expect(JSON.parse(list.text).data.keys).toEqual([stored?.name]);
    expect(JSON.parse(list.text).data.key_info[stored?.name ?? ""].bytes).toBe(stored?.bytes);
    const restored = await ask(`/v1/sys/snapshot?object=${encodeURIComponent(stored?.name ?? "")}`, { method: "POST" });
    expect(restored.status, restored.text).toBe(200);
    expect((await get("/v1/kv/data/big-5")).body.data.data.v).toBe("5".repeat(900_000));
  });

  it("is busy beside another one, which it does not disturb", async () => {
    const conflict = { ok: false, reason: "conflict", message: "snapshot: another is being read" } as const;
    vi.spyOn(AccessControl.prototype, "prepareCut").mockReturnValue(conflict);
    expect(await storeDueSnapshot(deployed())).toBe("busy");
    expect(await names()).toEqual([]);
  });
});

describe("a failed snapshot", () => {
  const fails: [string, (own: typeof deployed) => Env][] = [
    ["the bucket refuses writes", (own) => own({ SNAPSHOT_BUCKET: refusing("put") })],
    ["the bucket cannot be listed", (own) => own({ SNAPSHOT_BUCKET: refusing("list") })],
    ["no bucket is bound", (own) => own({ SNAPSHOT_BUCKET: undefined })],
    ["the deployment is sealed", (own) => own({ MASTER_KEY: undefined })],
  ];

  function refusing(method: "put" | "list"): R2Bucket {
    const down = () => Promise.reject(new Error("the bucket is down"));
    return { list: () => bucket.list(), put: down, ...(method === "list" && { list: down }) } as unknown as R2Bucket;
  }

  it.each(fails)("when %s is counted, deletes nothing, and is taken again", async (_name, broken) => {
    const old = await takenBefore(96, 72, 48, 36);
    expect(await storeDueSnapshot(broken(deployed))).toBe("failed");
    expect(counted()).toEqual([expect.stringContaining("failed")]);
    expect((await names()).sort()).toEqual(old.sort());
    expect(await storeDueSnapshot(deployed())).toBe("ok");
  });

  it("in the middle leaves no object and no frozen one", async () => {
    const { uuid } = await mountKv();
    await put("/v1/kv/data/a", { data: { v: "1" } });
    const cut = vi.spyOn(KvStore.prototype, "cutPart").mockRejectedValue(new Error("gone"));
    expect(await storeDueSnapshot(deployed())).toBe("failed");
    cut.mockRestore();
    expect(await names()).toEqual([]);
    expect((await put("/v1/kv/data/a", { data: { v: "2" } })).status).toBe(200);
    const tables = await runInDurableObject(env.KV_STORE.getByName(uuid), (_object, { storage }) =>
      storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE name GLOB '*:*'").toArray(),
    );
    expect(tables).toEqual([]);
  });

  it("does not happen without SNAPSHOT_CRON", async () => {
    expect(await storeDueSnapshot(deployed({ SNAPSHOT_CRON: undefined }))).toBe("not-due");
    expect(counted()).toEqual([]);
    expect(await snapshotState(deployed({ SNAPSHOT_CRON: undefined }))).toBeNull();
  });
});

describe("health and metrics of snapshots", () => {
  const valueIn = (name: string, series: readonly Series[] = []) => series.find((each) => each.name === name)?.value;
  const degraded = async (own: Env): Promise<string[]> => {
    clearHealthCache();
    const { status, text } = await deployment({ ...own })("/v1/sys/health", { token: null });
    expect(status).toBe(200);
    return JSON.parse(text).degraded;
  };

  it("name a snapshot that is due for more than an hour, whatever the reason", async () => {
    expect(await degraded(deployed())).toEqual(["snapshots"]);
    expect(await degraded(deployed({ SNAPSHOT_BUCKET: undefined }))).toEqual(["snapshots"]);
    expect(await storeDueSnapshot(deployed())).toBe("ok");
    expect(await degraded(deployed())).toEqual([]);
    expect(await degraded(env)).toEqual([]);
    const dueAt = new Date();
    dueAt.setUTCHours(dueAt.getUTCHours() >= 2 ? 26 : 2, 0, 0, 0);
    const lateAt = (minutes: number) =>
      at(dueAt.getTime() + minutes * 60_000, async () => {
        clearSnapshotCache();
        return (await snapshotState(deployed()))?.isLate;
      });
    expect(await lateAt(59)).toBe(false);
    expect(await lateAt(61)).toBe(true);
  });

  it("give number, age and size of what the bucket has", async () => {
    const [, newest = ""] = await takenBefore(30, 5);
    await bucket.put(newest, "twelve bytes");
    clearSnapshotCache();
    const { series = [] } = (await snapshotState(deployed({ SNAPSHOT_CRON: "0 0 1 1 *" }))) ?? {};
    expect(valueIn("sallyport_snapshots_stored", series)).toBe(2);
    expect(valueIn("sallyport_snapshot_size_bytes", series)).toBe(12);
    expect(Math.round(Number(valueIn("sallyport_snapshot_age_seconds", series)) / 600)).toBe(30);
    expect(valueIn("sallyport_snapshot_late", series)).toBe(0);
  });

  it("are scraped", async () => {
    const own = await runInDurableObject(
      env.METRICS.getByName("main"),
      (object) => (object as unknown as { env: Env }).env,
    );
    Object.assign(own, { SNAPSHOT_BUCKET: bucket });
    Object.assign(settings(own), { SNAPSHOT_CRON: "0 2 * * *" });
    clearSnapshotCache();
    try {
      await eventually(async () => expect(valueIn("sallyport_snapshot_late", await metrics(env).read())).toBe(1));
    } finally {
      Object.assign(own, { SNAPSHOT_BUCKET: undefined });
      Object.assign(settings(own), { SNAPSHOT_CRON: undefined });
    }
  });
});

describe("a restore from the bucket", () => {
  it.each([
    ["no bucket is bound", { SNAPSHOT_BUCKET: undefined }, "object: no bucket is bound as SNAPSHOT_BUCKET"],
    [
      "the object is missing",
      { SNAPSHOT_BUCKET: bucket },
      "object: the bucket SNAPSHOT_BUCKET has no object of this name",
    ],
  ])("is refused with 400 when %s", async (_name, own, message) => {
    const { status, text } = await deployment(own)("/v1/sys/snapshot?object=nothing", { method: "POST" });
    expect([status, JSON.parse(text).errors]).toEqual([400, [message]]);
  });

  it("refuses an object that is no snapshot, and leaves the deployment as it was", async () => {
    await bucket.put("notes", "hello");
    const ask = deployment({ SNAPSHOT_BUCKET: bucket });
    expect((await ask("/v1/sys/snapshot?object=notes", { method: "POST" })).status).toBe(400);
    expect((await get("/v1/sys/mounts")).status).toBe(200);
  });
});
