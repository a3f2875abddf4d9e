import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SecretWrites } from "../../src/kv/secret-writes.ts";
import { kvStore } from "../../src/rpc/stubs.ts";
import { KvStore } from "../../src/worker.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { beforeInvalidation, readAt, valueAt } from "./replicas.ts";

/* Writes of secrets that arrive together are one commit. */

clock.moves = true;

let uuid = "";

beforeEach(async () => {
  ({ uuid } = await mountKv());
});
afterEach(() => void vi.restoreAllMocks());

const RIGHTS = { create: true, update: true };
/** Numbers of secrets that are written at a time. */
const some = Array.from({ length: 12 }, (_, number) => number);
/** Sends writes at the same moment, as Workers of other callers do. */
const write = (numbers: readonly number[], v: number) => {
  const store = kvStore(env, uuid);
  return Promise.allSettled(numbers.map((number) => store.put(`s${number}`, JSON.stringify({ v }), null, RIGHTS)));
};
const fulfilled = (results: readonly PromiseSettledResult<unknown>[]) => results.map(({ status }) => status);

/** Counts the commits of stores, with the paths of each. */
function commits(): readonly (readonly string[])[] {
  const paths: string[][] = [];
  const prototype = KvStore.prototype as unknown as { onChange(keys: string[]): void };
  const { onChange } = prototype;
  vi.spyOn(prototype, "onChange").mockImplementation(function (this: KvStore, keys) {
    paths.push(keys);
    onChange.call(this, keys);
  });
  return paths;
}

describe("writes that arrive together", () => {
  it("are fewer commits than writes, and each has its answer and its version", async () => {
    const paths = commits();
    for (let round = 1; round <= 3; round++) {
      const written = await write(some, round);
      expect(
        written.map((each) => each.status === "fulfilled" && each.value.ok && each.value.value.metadata.version),
      ).toEqual(some.map(() => round));
    }
    expect(paths.length).toBeLessThan(some.length);
    expect(paths.flat().toSorted()).toEqual([...some, ...some, ...some].map((number) => `s${number}`).toSorted());
  });

  it("of one secret get their versions in the order of their arrival", async () => {
    const store = kvStore(env, uuid);
    const written = await Promise.all(some.map((v) => store.put("one", JSON.stringify({ v }), null, RIGHTS)));
    expect(written.map((each) => each.ok && each.value.metadata.version)).toEqual(some.map((v) => v + 1));
    // A secret keeps ten versions.
    for (const v of some.slice(2))
      expect((await get(`/v1/kv/data/one?version=${v + 1}`)).body.data.data).toEqual({ v });
  });

  it("are refused one by one", async () => {
    const store = kvStore(env, uuid);
    const written = await Promise.all(some.map((v) => store.put("cas", JSON.stringify({ v }), 0, RIGHTS)));
    expect(written.map(({ ok }) => ok)).toEqual(some.map((v) => v === 0));
    expect((await get("/v1/kv/data/cas")).body.data.data).toEqual({ v: 0 });
  });

  it("fail one by one, and a failed one is not stored", async () => {
    const { put: original } = SecretWrites.prototype;
    vi.spyOn(SecretWrites.prototype, "put").mockImplementation(function (this: SecretWrites, ...given) {
      const written = original.apply(this, given);
      if (given[0] === "s5") throw new Error("defect");
      return written;
    });
    const written = await write(some, 1);
    expect(fulfilled(written)).toEqual(some.map((number) => (number === 5 ? "rejected" : "fulfilled")));
    vi.restoreAllMocks();
    for (const number of some) expect((await get(`/v1/kv/data/s${number}`)).body.data?.data.v ?? 0).toBe(1);
  });

  it("are stored once each when the commit of their group fails", async () => {
    const prototype = KvStore.prototype as unknown as { onChange(keys: string[]): void };
    const { onChange } = prototype;
    let failures = 0;
    vi.spyOn(prototype, "onChange").mockImplementation(function (this: KvStore, keys) {
      if (keys.length > 1) {
        failures += 1;
        throw new Error("the disk is full");
      }
      onChange.call(this, keys);
    });
    expect(fulfilled(await write(some, 1))).toEqual(some.map(() => "fulfilled"));
    expect(failures).toBeGreaterThan(0);
    for (const number of some) expect((await get(`/v1/kv/data/s${number}`)).body.data.metadata.version).toBe(1);
  });

  it("are seen by the next read at every place", async () => {
    await Promise.all(some.map((number) => put(`/v1/kv/data/s${number}`, { data: { v: 0 } })));
    // A write waits for the slowest replica that has its secret.
    beforeInvalidation({ weur: () => scheduler.wait(60) });
    for (let v = 1; v <= 4; v++) {
      for (const place of ["weur", "sam"] as const) {
        await Promise.all(some.map((number) => readAt(place, `/v1/kv/data/s${number}`)));
      }
      const reads = some.map(async (number) => {
        const written = await kvStore(env, uuid).put(`s${number}`, JSON.stringify({ v }), null, RIGHTS);
        expect(written.ok).toBe(true);
        // While others of the group are not answered.
        return [await valueAt("weur", `/v1/kv/data/s${number}`), await valueAt("sam", `/v1/kv/data/s${number}`)];
      });
      expect(await Promise.all(reads)).toEqual(some.map(() => [v, v]));
    }
  });
});

describe("a store that is killed", () => {
  type Killed = { ctx: DurableObjectState };
  const end = (store: Killed): never => {
    store.ctx.abort("killed");
    throw new Error("killed");
  };
  /** The versions of the secrets by now. */
  const versions = () =>
    Promise.all(some.map(async (number) => (await get(`/v1/kv/data/s${number}`)).body.data?.metadata.version ?? 0));

  it("within a commit has stored and answered none of its writes", async () => {
    const spy = vi.spyOn(KvStore.prototype as unknown as { onChange(): void }, "onChange");
    spy.mockImplementationOnce(function (this: unknown) {
      end(this as Killed);
    });
    expect(fulfilled(await write(some, 1))).toEqual(some.map(() => "rejected"));
    expect(await versions()).toEqual(some.map(() => 0));
    expect(fulfilled(await write(some, 2))).toEqual(some.map(() => "fulfilled"));
    expect(await versions()).toEqual(some.map(() => 1));
  });

  it("before its writes are committed has answered none of them", async () => {
    type Grouping = { grouped(...given: unknown[]): unknown };
    const { grouped } = KvStore.prototype as unknown as Grouping;
    let calls = 0;
    vi.spyOn(KvStore.prototype as unknown as Grouping, "grouped").mockImplementation(function (
      this: Grouping,
      ...given
    ) {
      calls += 1;
      const answer = grouped.apply(this, given);
      if (calls === some.length) end(this as unknown as Killed);
      return answer;
    });
    const answered = fulfilled(await write(some, 1));
    vi.restoreAllMocks();
    const stored = await versions();
    // A write that was answered is stored.
    for (const number of some) if (answered[number] === "fulfilled") expect(stored[number]).toBe(1);
    expect(answered).toContain("rejected");
    expect(Math.max(...stored)).toBeLessThan(2);
  });
});
