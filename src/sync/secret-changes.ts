import type { ObjectContext } from "../platform/durable/object-context.ts";
import type { WakeUp } from "../platform/durable/wake-up.ts";
import type { Associations } from "./associations/associations.ts";
import type { QueueQuota } from "./scheduler/queue-quota.ts";
import type { SyncGate } from "./scheduler/sync-gate.ts";

/**
 * Enqueues pushes of secrets whose mount reports a change. Owned by `SyncDestination`. Never refused: without quota the
 * rows wait. A report costs one transaction.
 */
export class SecretChanges {
  constructor(
    private readonly object: ObjectContext,
    private readonly associations: Associations,
    private readonly quota: QueueQuota,
    private readonly gate: SyncGate,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Wakes a Worker for stored rows, unless syncing is paused or a message is on its way. */
  wake(): void {
    if (this.#mayNotify(Date.now())) this.object.waitUntil(this.wakeUp.notify());
  }

  async enqueue(mountUuid: string, secretNames: readonly string[]): Promise<void> {
    const rows = secretNames
      .flatMap((secretName) => this.associations.ofSecret(mountUuid, secretName))
      .filter((row) => row.wish === "present");
    if (rows.length === 0) return;
    const now = Date.now();
    const notifies = this.#mayNotify(now);
    try {
      this.object.commit(() => {
        for (const row of rows) this.associations.setDesired(row, "present", now);
      });
    } catch (failure) {
      // The mount delivers again, and no message is on its way.
      if (notifies) this.wakeUp.resume();
      throw failure;
    }
    await this.quota.requestForWaiting();
    // Sent after the response: the mount's delivery is complete once the rows are stored.
    if (notifies) this.object.waitUntil(this.wakeUp.notify());
  }

  #mayNotify(now: number): boolean {
    return this.gate.pausedUntil() <= now && this.wakeUp.shouldNotify(now);
  }
}
