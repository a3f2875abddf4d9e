import { expect, it, vi } from "vitest";
import type { ObjectContext } from "../platform/durable/object-context.ts";
import { WakeUp, type WakeUpMessage } from "../platform/durable/wake-up.ts";
import type { Associations } from "./associations/associations.ts";
import type { QueueQuota } from "./scheduler/queue-quota.ts";
import type { SyncGate } from "./scheduler/sync-gate.ts";
import { SecretChanges } from "./secret-changes.ts";

it("a report that was refused during a snapshot wakes a Worker when it is repeated", async () => {
  const commit = vi.fn((change: () => void) => change());
  const send = vi.fn(async () => undefined);
  const changes = new SecretChanges(
    { commit, waitUntil: () => undefined } as unknown as ObjectContext,
    { ofSecret: () => [{ wish: "present" }], setDesired: () => undefined } as unknown as Associations,
    { requestForWaiting: async () => undefined } as unknown as QueueQuota,
    { pausedUntil: () => 0 } as unknown as SyncGate,
    new WakeUp({ send } as unknown as Queue<WakeUpMessage>, "in-mem/d"),
  );
  commit.mockImplementationOnce(() => {
    throw new Error("frozen");
  });
  await expect(changes.enqueue("mount", ["a"])).rejects.toThrow("frozen");
  expect(send).not.toHaveBeenCalled();
  await changes.enqueue("mount", ["a"]);
  expect(send).toHaveBeenCalledOnce();
});
