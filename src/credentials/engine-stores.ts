import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { WorkQueue } from "../platform/durable/work-queue.ts";
import type { EngineEvents } from "./engine-events.ts";
import { JobStore } from "./jobs/job-store.ts";
import { LeaseStore } from "./leases/lease-store.ts";
import { ConfigStore } from "./mount/config-store.ts";
import { RoleStore } from "./mount/role-store.ts";

/** The rows of one engine, one store a table. */
export class EngineStores {
  /** Prefix of the engine's warnings, audit records and sealing contexts. */
  readonly scope: string;
  readonly keys: DataKeys;
  readonly work: WorkQueue;
  readonly config: ConfigStore;
  readonly jobs: JobStore;
  readonly leases: LeaseStore;
  readonly roles: RoleStore;
  readonly events: EngineEvents;

  constructor(sql: SqlStorage, keys: DataKeys, scope: string, events: EngineEvents) {
    this.scope = scope;
    this.keys = keys;
    this.work = new WorkQueue(sql);
    this.config = new ConfigStore(sql, keys, scope);
    this.jobs = new JobStore(sql, keys, this.work, scope);
    this.leases = new LeaseStore(sql);
    this.roles = new RoleStore(sql);
    this.events = events;
  }
}
