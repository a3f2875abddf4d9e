import type { Outbox } from "../platform/durable/outbox.ts";
import type { WakeUp } from "../platform/durable/wake-up.ts";
import type { WorkQueue } from "../platform/durable/work-queue.ts";
import type { Associations } from "./associations.ts";
import type { Breaker } from "./breaker.ts";
import type { DestinationRecord } from "./destination-record.ts";
import type { Neighbours } from "./neighbours.ts";
import type { Purge } from "./purge.ts";
import type { QueueQuota } from "./queue-quota.ts";
import type { RemoteObjects } from "./remote-objects.ts";
import type { Resync } from "./resync.ts";
import type { StoredObjects } from "./stored-objects.ts";
import type { SyncGate } from "./sync-gate.ts";
import type { TaskLeasing } from "./task-leasing.ts";

/** The dependencies that the classes of one destination share. Built by `SyncDestination`. */
export interface DestinationDependencies {
  readonly env: Env;
  /** The destination object's name. */
  readonly self: string;
  readonly sql: SqlStorage;
  readonly outbox: Outbox;
  readonly record: DestinationRecord;
  readonly work: WorkQueue;
  readonly remoteObjects: RemoteObjects;
  readonly associations: Associations;
  readonly storedObjects: StoredObjects;
  readonly breaker: Breaker;
  readonly quota: QueueQuota;
  readonly gate: SyncGate;
  readonly purge: Purge;
  readonly resync: Resync;
  readonly leasing: TaskLeasing;
  readonly wakeUp: WakeUp;
  readonly neighbours: Neighbours;
  readonly commit: <T>(change: () => T) => T;
  /** Continues work after the response was sent. */
  readonly waitUntil: (work: Promise<unknown>) => void;
}
