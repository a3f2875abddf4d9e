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
      object: { plan: async () => null },
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
      task: { ...task, copies: task.copies.map((copy) => ({ ...copy, ...changes })) },
      secret: Promise.resolve(null),
      end: Date.now() + TASK_MS,
    },
  );
  return { state: result.copies[0]?.state, calls, counts: result.copies.some(isCall) };
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
