import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { accessControl, kvStore, readReplica } from "../../src/rpc/stubs.ts";
import { AccessControl, KvStore, ReadReplica } from "../../src/worker.ts";
import { attempt, both, cut, insist, type Method } from "../crash/crash-point.ts";
import { accessObject, holderOf, path } from "./access.ts";
import { mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { beforeInvalidation, cutOff, type Place, readAt, replicaAt, sendAt, valueAt } from "./replicas.ts";

/* The order in which readers at two places see changes, while replicas are slow, cut off or killed. */

const SECRET = "/v1/kv/data/app";
const PLACES: readonly Place[] = ["weur", "sam"];
/** The lease with its margin, and time for a busy machine. */
const MAX_MS = 2_100 + 25_000;

clock.moves = true;

let uuid = "";

beforeEach(async () => {
  ({ uuid } = await mountKv());
  await put(SECRET, { data: { v: 1 } });
});

afterEach(() => void vi.restoreAllMocks());

/** By a caller at a place. The replica of a place gives the secret back before its own writes. */
const writeVersion = (v: number, place: Place | "a third place" = "a third place") =>
  place === "a third place" ? put(SECRET, { data: { v } }) : sendAt(place, "PUT", SECRET, "root", { data: { v } });
const warm = async (token = "root") => {
  for (const place of PLACES) expect(await valueAt(place, SECRET, token)).toBe(1);
};
/** As a Worker reads it that cannot reach its replica. */
const valueAtOwner = async (): Promise<number> => {
  const read = await kvStore(env, uuid).read("app", 0);
  return read.ok && read.state === "lives" ? JSON.parse(read.data).v : 0;
};

interface Operation {
  readonly from: number;
  to: number;
  value: number;
}

/** Runs operations without a pause until `over` resolves. The values of each are those of one growing register. */
async function repeat(operation: () => Promise<number>, over: Promise<unknown>, seen: Operation[]): Promise<void> {
  let isOver = false;
  void over.then(() => {
    isOver = true;
  });
  while (!isOver) {
    const entry: Operation = { from: tick(), to: Number.POSITIVE_INFINITY, value: 0 };
    seen.push(entry);
    entry.value = await operation();
    entry.to = tick();
    await scheduler.wait(2);
  }
}

let ticks = 0;
/** A logical clock: all operations run in one isolate. */
const tick = (): number => ++ticks;

/** Pairs of which the later one, which began after the earlier one had ended, saw less. */
function reversed(operations: readonly Operation[]): [Operation, Operation][] {
  return operations.flatMap((earlier) =>
    operations
      .filter((later) => later.from > earlier.to && later.value < earlier.value)
      .map((later): [Operation, Operation] => [earlier, later]),
  );
}

describe("readers at two places and at the owner", () => {
  it.each<[writer: Place | "a third place", slow: Place]>([
    ["a third place", "weur"],
    ["a third place", "sam"],
    ["weur", "sam"],
    ["weur", "weur"],
  ])(
    "never see an old version after a new one by a writer at %s while %s learns of changes late",
    async (writer, slow) => {
      await warm();
      beforeInvalidation({ [slow]: () => scheduler.wait(60) });
      const seen: Operation[] = [];
      const writes = (async () => {
        for (let v = 2; v <= 9; v++) {
          const write: Operation = { from: tick(), to: Number.POSITIVE_INFINITY, value: v };
          expect((await writeVersion(v, writer)).status).toBe(200);
          write.to = tick();
          seen.push(write);
          await scheduler.wait(30);
        }
      })();
      await Promise.all([
        writes,
        ...PLACES.map((place) => repeat(() => valueAt(place, SECRET), writes, seen)),
        repeat(valueAtOwner, writes, seen),
      ]);
      expect(new Set(seen.map(({ value }) => value)).size).toBeGreaterThan(6);
      expect(reversed(seen)).toEqual([]);
    },
  );

  it.each(PLACES)("never accept a token after its refusal while %s learns of the revocation late", async (slow) => {
    const { client_token: token } = await holderOf(path("kv/data/*", "read"));
    await warm(token);
    beforeInvalidation({ [slow]: () => scheduler.wait(100) });
    const seen: Operation[] = [];
    const revoked = (async () => {
      await scheduler.wait(30);
      expect((await put("/v1/auth/token/revoke", { token })).status).toBe(204);
      await scheduler.wait(30);
    })();
    // 1 = accepted, 403 = refused
    await Promise.all([
      ...PLACES.map((place) => repeat(() => valueAt(place, SECRET, token), revoked, seen)),
      repeat(
        async () => ((await accessControl(env).authorize({ token, namespace: "", path: "kv/data/app" })).ok ? 1 : 403),
        revoked,
        seen,
      ),
    ]);
    expect(new Set(seen.map(({ value }) => value))).toEqual(new Set([1, 403]));
    expect(reversed(seen)).toEqual([]);
    for (const place of PLACES) expect(await valueAt(place, SECRET, token)).toBe(403);
  });
});

describe("an answer that a change overtakes", () => {
  it.each([
    ["a secret", KvStore, "readFor", undefined],
    ["a secret that its replica gave back", KvStore, "readFor", "weur"],
    ["a grant", AccessControl, "authorizeFor", undefined],
  ] as const)("about %s serves the reads before the change alone", async (_name, owner, method, writer) => {
    const { client_token: token } = await holderOf(path("kv/data/app", "read"));
    // The replica has leases, and does not know the answer.
    await valueAt("weur", "/v1/kv/data/none");
    const gate = Promise.withResolvers<void>();
    const prototype = owner.prototype as unknown as Record<string, Method>;
    const original = prototype[method] as Method;
    const asked = vi.spyOn(prototype, method).mockImplementationOnce(async function (
      this: ThisParameterType<Method>,
      ...given
    ) {
      const answer = original.apply(this, given);
      await gate.promise;
      return answer;
    });
    const early = valueAt("weur", SECRET, token);
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    const isSecret = owner === KvStore;
    await (isSecret ? writeVersion(2, writer) : put("/v1/auth/token/revoke", { token }));
    const late = valueAt("weur", SECRET, token);
    const expected = isSecret ? 2 : 403;
    expect(await Promise.race([late, scheduler.wait(30_000)])).toBe(expected);
    gate.resolve();
    await early;
    expect(await valueAt("weur", SECRET, token)).toBe(expected);
  });
});

describe("a place that is cut off", () => {
  it("delays a write by its lease, and serves nothing old afterwards", async () => {
    await warm();
    const told = beforeInvalidation({ sam: cutOff });
    const begun = performance.now();
    const order: string[] = [];
    const written = writeVersion(2).then(({ status }) => {
      order.push(`written ${status}`);
      return performance.now() - begun;
    });
    await vi.waitFor(() => expect(told).toHaveBeenCalled());
    // The owner keeps the new version to itself while a replica may serve the old one.
    const atOwner = valueAtOwner().then((value) => order.push(`at the owner ${value}`));
    expect(await valueAt("sam", SECRET)).toBe(1);
    expect(order).toEqual([]);
    const took = await written;
    await atOwner;
    expect(order.toSorted()).toEqual(["at the owner 2", "written 200"]);
    expect(took).toBeGreaterThan(1_000);
    expect(took).toBeLessThan(MAX_MS);
    expect(await Promise.all(PLACES.map((place) => valueAt(place, SECRET)))).toEqual([2, 2]);
  });

  it("delays a revocation by its lease", async () => {
    const { client_token: token } = await holderOf(path("kv/data/*", "read"));
    await warm(token);
    beforeInvalidation({ sam: cutOff });
    const begun = performance.now();
    expect((await put("/v1/auth/token/revoke", { token })).status).toBe(204);
    expect(performance.now() - begun).toBeLessThan(MAX_MS);
    expect(await valueAt("sam", SECRET, token)).toBe(403);
  });

  it("does not delay changes of other secrets' readers", async () => {
    await put("/v1/kv/data/other", { data: { v: 5 } });
    await warm();
    beforeInvalidation({ sam: cutOff });
    const written = writeVersion(2);
    expect(await Promise.race([valueAt("weur", "/v1/kv/data/other"), written.then(() => "written")])).toBe(5);
    await written;
  });
});

describe("a replica that is killed", () => {
  it("delays a write by its lease: its memory may still serve", async () => {
    // So that the lease has all of its time left, however busy the machine is.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
    await warm();
    await runInDurableObject(replicaAt("sam"), (_object, state) => state.abort("killed")).catch(() => undefined);
    const begun = performance.now();
    expect((await writeVersion(2)).status).toBe(200);
    expect(performance.now() - begun).toBeGreaterThan(2_000);
    expect(await Promise.all(PLACES.map((place) => valueAt(place, SECRET)))).toEqual([2, 2]);
  });

  it("is replaced by the owners for the requests that it was serving", async () => {
    const happened = cut(["ReadReplica", "authorizeAsText", "before"]);
    expect(await valueAt("weur", SECRET)).toBe(1);
    expect(happened()).toBe(true);
  });

  it("answers a Worker of version 0.2.0 with values", async () => {
    const ask = { token: "root", namespace: "", path: SECRET.slice("/v1/".length) };
    const read = { version: 0, result: { ok: true, data: '{"v":1}' } };
    expect(await readReplica(env, "weur-0").authorize(ask, 0)).toMatchObject({
      ok: true,
      capabilities: ["root"],
      read,
    });
    expect(await readReplica(env, "weur-0").authorize(ask, null, true)).toMatchObject({
      ok: true,
      givenBack: { key: "app" },
    });
    expect(await readReplica(env, "weur-0").authorize({ ...ask, token: "none" }, 0)).toMatchObject({
      reason: "denied",
    });
  });

  it("is left out while it fails", async () => {
    const failing = vi.spyOn(ReadReplica.prototype, "authorizeAsText").mockRejectedValue(new Error("overloaded"));
    await warm();
    await writeVersion(2);
    expect(await valueAt("weur", SECRET)).toBe(2);
    expect(failing).toHaveBeenCalled();
  });
});

/** After a crash in the middle of a change, readers see it or not, and see it from then on. */
async function expectOneOrder(written: boolean): Promise<void> {
  const seen: number[] = written ? [2] : [];
  for (let round = 0; round < 4; round++) {
    for (const place of PLACES) {
      seen.push((await insist(() => readAt(place, SECRET))).body.data.data.v);
    }
    seen.push(await valueAtOwner().catch(() => seen.at(-1) ?? 1));
  }
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
}

describe("a write with a crash", () => {
  it.each([
    ...both("KvStore", "put", "readFor"),
    ...both("AccessControl", "authorizeFor"),
    ...both("ReadReplica", "invalidate", "authorizeAsText"),
  ])("in %s.%s (%s) is seen in one order", async (...where) => {
    await warm();
    const happened = cut(where);
    const written = await attempt(writeVersion(2));
    await expectOneOrder(written?.status === 200);
    if (where[0] !== "AccessControl") expect(happened()).toBe(true);
  });

  it("of the store between its commit and the first acknowledgement is seen in one order", async () => {
    await warm();
    let killed = false;
    const kill = async () => {
      if (killed) return;
      killed = true;
      const store = env.KV_STORE.getByName(uuid) as DurableObjectStub;
      await runInDurableObject(store, (_object, state) => state.abort("killed")).catch(() => undefined);
      throw new Error("lost");
    };
    beforeInvalidation({ weur: kill, sam: cutOff });
    const written = await attempt(writeVersion(2));
    // The store shows the new version when no replica can show the old one.
    const atOwner = await vi.waitFor(valueAtOwner);
    expect(await Promise.all(PLACES.map((place) => valueAt(place, SECRET)))).toEqual([atOwner, atOwner]);
    await expectOneOrder(written?.status === 200);
  });
});

describe("a revocation with a crash of AccessControl between its commit and the acknowledgements", () => {
  it("is seen everywhere once it is seen", async () => {
    const { client_token: token } = await holderOf(path("kv/data/*", "read"));
    await warm(token);
    let killed = false;
    const kill = async () => {
      if (killed) return;
      killed = true;
      await runInDurableObject(accessObject(), (_object, state) => state.abort("killed")).catch(() => undefined);
      throw new Error("lost");
    };
    beforeInvalidation({ weur: kill });
    await attempt(put("/v1/auth/token/revoke", { token }));
    const ask = { token, namespace: "", path: "kv/data/app" };
    const grant = await vi.waitFor(() => accessControl(env).authorize(ask));
    expect(killed).toBe(true);
    expect(grant.ok).toBe(false);
    for (const place of PLACES) expect(await valueAt(place, SECRET, token)).toBe(403);
  });
});
