import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SecretsTokens } from "../../src/access/tokens/secrets-tokens.ts";
import type { AccessControl } from "../../src/objects/access-control.ts";
import { REVIEW_MS } from "../../src/read-leases/lease-table.ts";
import { accessObject, holderOf, issue, path } from "./access.ts";
import { mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import {
  beforeInvalidation,
  cutOff,
  PLACES,
  type Place,
  questions,
  readAt,
  throughReplicas,
  valueAt,
} from "./replicas.ts";
import { FIRST_KEY } from "./sealing-helpers.ts";

clock.moves = true;

/* The bounds of a replica's memory, the end of entries by time, and the cost for their owners. */

const SECRET = "/v1/kv/data/app";
const both = Object.keys(PLACES) as Place[];

let uuid = "";

beforeEach(async () => {
  ({ uuid } = await mountKv());
  await put(SECRET, { data: { v: 1 } });
});

afterEach(() => {
  vi.restoreAllMocks();
  throughReplicas(1);
  vi.useRealTimers();
});

/** Lets leases go on for as long as a test takes, however busy the machine is. */
const freezeTime = () => void vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });

/** Entries of leases in the storage of an owner, without the reservation of numbers. */
const leasesOf = (owner: unknown): Promise<string[]> =>
  runInDurableObject(owner as DurableObjectStub, (_object, { storage }) =>
    [...storage.kv.list({ prefix: "lease-" })].map(([key]) => key).filter((key) => key !== "lease-seq"),
  );

describe("a flood of requests", () => {
  beforeEach(freezeTime);

  it("with one unknown token asks AccessControl once, whatever the paths", async () => {
    expect(await valueAt("weur", SECRET, "stranger")).toBe(403);
    const asked = questions();
    for (let n = 0; n < 60; n++) expect(await valueAt("weur", `/v1/kv/data/${n}`, "stranger")).toBe(403);
    expect(asked.take()).toEqual([0, 0, 0]);
  });

  it("with many unknown tokens asks once for each, and drives out nothing that is there", async () => {
    expect(await valueAt("weur", SECRET)).toBe(1);
    const asked = questions();
    for (let n = 0; n < 120; n++) expect(await valueAt("weur", SECRET, `stranger ${n % 40}`)).toBe(403);
    expect(asked.take()).toEqual([40, 0, 0]);
    expect(await valueAt("weur", SECRET)).toBe(1);
    expect(asked.take()).toEqual([0, 0, 0]);
  });

  it("for secrets that do not exist asks the store once for each", async () => {
    const asked = questions();
    for (let n = 0; n < 120; n++) expect(await valueAt("weur", `/v1/kv/data/none-${n % 40}`)).toBe(404);
    expect(asked.take()).toEqual([40, 40, 0]);
  });
});

describe("a token with limited uses", () => {
  it("is counted by every read", async () => {
    const { client_token: token } = await issue({ policies: ["root"], num_uses: 3 });
    const seen: number[] = [];
    for (let n = 0; n < 5; n++) seen.push(await valueAt(both[n % 2] as Place, SECRET, token));
    expect(seen).toEqual([1, 1, 1, 403, 403]);
  });

  it("is counted by reads that are refused", async () => {
    const { client_token: token } = await issue({ policies: ["none"], no_default_policy: true, num_uses: 2 });
    const errors: string[] = [];
    for (let n = 0; n < 3; n++) errors.push((await readAt("weur", SECRET, token)).body.errors[0]);
    expect(errors).toEqual(["permission denied", "permission denied", "permission denied: invalid token"]);
  });

  it("is counted by reads that come together", async () => {
    const { client_token: token } = await issue({ policies: ["root"], num_uses: 4 });
    const seen = await Promise.all(Array.from({ length: 12 }, (_, n) => valueAt(both[n % 2] as Place, SECRET, token)));
    expect(seen.toSorted((a, b) => a - b)).toEqual([1, 1, 1, 1, ...Array.from({ length: 8 }, () => 403)]);
  });
});

describe("time", () => {
  it("ends a version that deletes itself, under a lease that goes on", async () => {
    await put("/v1/kv/config", { delete_version_after: "5s" });
    await put("/v1/kv/data/brief", { data: { v: 2 } });
    const { metadata } = (await readAt("weur", "/v1/kv/data/brief")).body.data;
    const ends = Date.parse(metadata.deletion_time);
    const seen: [number, number][] = [];
    // Reads of another secret extend the lease.
    while (Date.now() < ends + 300) {
      await valueAt("weur", `/v1/kv/data/${seen.length}`);
      seen.push([Date.now(), await valueAt("weur", "/v1/kv/data/brief")]);
      await scheduler.wait(20);
    }
    expect(seen[0]?.[1]).toBe(2);
    expect(seen.filter(([at, value]) => at >= ends && value !== 404)).toEqual([]);
  });

  it("ends a token, without a change of AccessControl", async () => {
    const { client_token: token } = await holderOf(path("kv/data/*", "read"), { ttl: "5s" });
    const ends = Date.now() + 5_000;
    vi.spyOn(SecretsTokens.prototype, "expire").mockReturnValue(0);
    const seen: [number, number][] = [];
    while (Date.now() < ends + 300) {
      await valueAt("weur", `/v1/kv/data/${seen.length}`);
      seen.push([Date.now(), await valueAt("weur", SECRET, token)]);
      await scheduler.wait(20);
    }
    expect(seen[0]?.[1]).toBe(1);
    expect(seen.filter(([at, value]) => at >= ends && value !== 403)).toEqual([]);
  });
});

describe("a service that is sealed", () => {
  afterEach(async () => {
    await restartSealed(FIRST_KEY);
  });

  /** Deploys AccessControl alone, so that replicas stay warm. */
  async function restartSealed(key: string | undefined): Promise<void> {
    await runInDurableObject(accessObject() as DurableObjectStub<AccessControl>, (object, state) => {
      Object.assign((object as unknown as { env: Env }).env, { MASTER_KEY: key });
      state.abort("deployed anew");
    }).catch(() => undefined);
  }

  it("is sealed for every reader once one has seen it", async () => {
    for (const place of both) expect(await valueAt(place, SECRET)).toBe(1);
    await restartSealed(undefined);
    expect(await valueAt("weur", "/v1/kv/data/cold")).toBe(503);
    for (const place of both) expect(await valueAt(place, SECRET)).toBe(503);
  });
});

describe("rows of leases", () => {
  it("are not written by changes without readers", async () => {
    throughReplicas(0);
    const mount = await mountKv("quiet");
    await put("/v1/quiet/data/x", { data: { v: 1 } });
    await put("/v1/quiet/data/x", { data: { v: 2 } });
    expect(await leasesOf(env.KV_STORE.getByName(mount.uuid))).toEqual([]);
  });

  it("are one for each replica that reads, and none is left of a settled change a moment later", async () => {
    for (const place of both) await valueAt(place, SECRET);
    await put(SECRET, { data: { v: 2 } });
    await vi.waitFor(async () => {
      const rows = await leasesOf(env.KV_STORE.getByName(uuid));
      expect(rows.map((row) => row.replace(/ .*/, ""))).toEqual(["lease-holder:sam-0", "lease-holder:weur-0"]);
    });
  });

  it("are not written, and no replica is called, for changes of secrets that no replica has read since their last one", async () => {
    freezeTime();
    const store = env.KV_STORE.getByName(uuid);
    for (const place of both) await valueAt(place, SECRET);
    await put(SECRET, { data: { v: 2 } });
    const changes = async () => (await leasesOf(store)).filter((row) => row.startsWith("lease-change:"));
    await vi.waitFor(async () => expect(await changes()).toEqual([]));
    const recalled = beforeInvalidation({});
    for (let version = 3; version < 6; version++) await put(SECRET, { data: { v: version } });
    await put("/v1/kv/data/other", { data: { v: 1 } });
    expect([recalled.mock.calls.length, await changes()]).toEqual([0, []]);
    for (const place of both) expect(await valueAt(place, SECRET)).toBe(5);
    await put(SECRET, { data: { v: 6 } });
    expect(recalled).toHaveBeenCalledTimes(both.length);
    for (const place of both) expect(await valueAt(place, SECRET)).toBe(6);
  });

  it("are deleted by the alarm of the object when its readers stay away", async () => {
    const store = env.KV_STORE.getByName(uuid);
    for (const place of both) await valueAt(place, SECRET);
    const due = await runInDurableObject(store, (object) => object.nextDue());
    expect((due ?? 0) - Date.now()).toBeLessThanOrEqual(REVIEW_MS);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + REVIEW_MS });
    for (const owner of [store, accessObject()]) {
      expect(await runDurableObjectAlarm(owner as DurableObjectStub)).toBe(true);
      expect(await leasesOf(owner)).toEqual([]);
    }
    expect(await runInDurableObject(store, (object) => object.nextDue())).toBeNull();
  });

  it("hold a change until it is settled", async () => {
    for (const place of both) await valueAt(place, SECRET);
    const told = beforeInvalidation({ sam: cutOff });
    const written = put(SECRET, { data: { v: 2 } });
    await vi.waitFor(() => expect(told).toHaveBeenCalled());
    const changes = async () =>
      (await leasesOf(env.KV_STORE.getByName(uuid))).filter((row) => row.startsWith("lease-change:"));
    expect(await changes()).toHaveLength(1);
    expect((await written).status).toBe(200);
    await vi.waitFor(async () => expect(await changes()).toEqual([]));
  });
});
