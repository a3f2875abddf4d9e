import { describe, expect, it } from "vitest";
import type { ObjectTask, Setup, SyncTask, UpdatePolicy } from "../../contracts/sync-tasks.ts";
import { isCall } from "../scheduler/retry-policy.ts";
import { performTask } from "./task.ts";
import { TASK_MS } from "./task-run.ts";

const task: SyncTask = {
  lease: { id: "a", generation: 1, lease: "lease", leaseUntil: Number.MAX_SAFE_INTEGER },
  desired: "absent",
  mountUuid: "m",
  secretName: "s",
  granularity: "secret-path",
  idempotencyToken: "t",
  copies: [
    {
      subKey: "",
      name: "NAME",
      obsolete: false,
      ours: "certainly",
      outside: 1,
      knownToExist: true,
      fingerprint: null,
      reference: null,
      previousTagKeys: [],
      blocked: false,
      unsureSince: null,
      unclaimed: false,
    },
  ],
};

/** Removes the object at a destination that never confirmed a push. @returns its state, and the number of calls tried */
async function removal(updatePolicy: UpdatePolicy, changes: Partial<ObjectTask> = {}) {
  const copies = task.copies.map((copy) => ({ ...copy, ...changes }));
  const { result, calls } = await perform(updatePolicy, { ...task, copies }, null);
  return { state: result.copies[0]?.state, calls, counts: result.copies.some(isCall) };
}

/** Performs a task without a network. @param data of the secret; null: it is deleted */
async function perform(updatePolicy: UpdatePolicy, given: SyncTask, data: string | null) {
  let calls = 0;
  const setup: Setup = {
    namespace: "",
    type: "repo-host",
    tags: {},
    updatePolicy,
    retain: false,
    fingerprintKey: "k",
    atOnce: 1,
    connection: { access_token: "ghp_1", repository_owner: "acme", repository_name: "web" },
  };
  const result = await performTask(
    {
      object: { plan: async () => [...given.copies] },
      settings: {},
      // No call leaves: syncing is paused.
      permit: async () => {
        calls += 1;
        return false;
      },
      apps: async () => ({ ok: false, reason: "missing", message: "" }),
      identities: async () => Promise.reject(new Error("no identity is needed")),
      isDeleted: async () => false,
    },
    setup,
    {
      task: given,
      secret: Promise.resolve(data === null ? null : { ok: true, value: { version: 2, data } }),
      end: Date.now() + TASK_MS,
    },
  );
  return { result, calls };
}

describe("the removal of an object", () => {
  it("spares an object of another writer, unless the policy is to replace objects", async () => {
    expect(await removal("owned-only")).toMatchObject({ state: "absent", calls: 0 });
    expect(await removal("if-not-exists")).toMatchObject({ state: "absent", calls: 0 });
    expect(await removal("replace")).toMatchObject({ state: "failed", calls: 1 });
  });

  it("makes no call that the breaker, the pace or the audit log would count, for an object that is known to be absent", async () => {
    const none = { state: "absent", calls: 0, counts: false };
    expect(await removal("replace", { outside: null })).toEqual(none);
    expect(await removal("replace", { ours: "no" })).toEqual(none);
  });
});

describe("an object whose successor cannot be pushed", () => {
  const [whole] = task.copies as [ObjectTask];
  const large = "x".repeat(60_000);
  const old = (subKey: string): ObjectTask => ({ ...whole, subKey, name: `OLD_${subKey}`, obsolete: true });
  const next = (subKey: string, blocked = false): ObjectTask => ({
    ...whole,
    subKey,
    outside: null,
    ours: "no",
    blocked,
  });

  it.each<[string, SyncTask["granularity"], object, ObjectTask[], number]>([
    ["a new name, a value that is too large", "secret-path", { a: large }, [next(""), old("")], 0],
    ["a change from keys to one object", "secret-path", { a: large }, [next(""), old("a"), old("b")], 0],
    ["a change from one object to keys", "secret-key", { a: large }, [next("a"), old("")], 0],
    ["a new name of a key that is taken", "secret-key", { a: "1" }, [next("a", true), old("a")], 0],
    ["a key that is removed beside one that is too large", "secret-key", { a: large }, [next("a"), old("b")], 1],
    [
      "an object whose successor exists with its last content",
      "secret-path",
      { a: large },
      [{ ...next(""), ours: "certainly", outside: 1 }, old("")],
      1,
    ],
  ])("stays, unless it is not replaced: %s", async (_what, granularity, data, copies, calls) => {
    const tried = await perform("replace", { ...task, desired: "present", granularity, copies }, JSON.stringify(data));
    expect(tried.calls).toBe(calls);
    const states = tried.result.copies.map(({ state }) => state);
    expect(states).toEqual(copies.map((_, at) => (at > 0 && calls > 0 ? "failed" : "untouched")));
  });
});
