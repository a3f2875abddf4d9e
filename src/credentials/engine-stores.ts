import type { DataKeys } from "../platform/crypto/data-keys.ts";
import { DeploymentState } from "../platform/durable/deployment-state.ts";
import { Memo } from "../platform/durable/memo.ts";
import { WorkQueue } from "../platform/durable/work-queue.ts";
import type { EngineEvents } from "./engine-events.ts";
import type { EngineType } from "./engines/engine-type.ts";
import { engineType, FIRST_TYPE } from "./engines/index.ts";
import { JobStore } from "./jobs/job-store.ts";
import { UnstoredJobs } from "./jobs/unstored-jobs.ts";
import { LeaseStore } from "./leases/lease-store.ts";
import { LeaseUsers } from "./leases/lease-users.ts";
import { AccountStore } from "./mount/account-store.ts";
import { ConfigStore } from "./mount/config-store.ts";
import { KeptCredentials } from "./mount/kept-credentials.ts";
import { RoleStore } from "./mount/role-store.ts";
import { PoolStore } from "./pool/pool-store.ts";

/** The rows of one engine, one store a table, its jobs without a row, and its type. */
export class EngineStores {
  readonly #types: TypeRecord;
  readonly work: WorkQueue;
  readonly accounts: AccountStore;
  readonly config: ConfigStore;
  readonly jobs: JobStore;
  readonly unstored = new UnstoredJobs();
  readonly leases: LeaseStore;
  readonly leaseUsers: LeaseUsers;
  readonly roles: RoleStore;
  readonly kept: KeptCredentials;
  readonly pool: PoolStore;

  /** @param restored see `PoolStore` */
  constructor(
    sql: SqlStorage,
    readonly keys: DataKeys,
    /** Prefix of the engine's warnings, audit records and sealing contexts. */
    readonly scope: string,
    readonly events: EngineEvents,
    restored: () => string,
  ) {
    this.#types = new TypeRecord(sql);
    this.work = new WorkQueue(sql);
    this.accounts = new AccountStore(sql, keys, scope);
    this.config = new ConfigStore(sql, keys, scope);
    this.jobs = new JobStore(sql, keys, { work: this.work, accounts: this.accounts }, scope);
    this.leases = new LeaseStore(sql);
    this.leaseUsers = new LeaseUsers(sql);
    this.roles = new RoleStore(sql);
    this.kept = new KeptCredentials(sql, keys, scope);
    this.pool = new PoolStore(sql, keys, scope, restored);
  }

  get type(): EngineType {
    return this.#types.get();
  }

  /** Whether the type of the mount is still to be recorded. */
  isUnsettled(type: string): boolean {
    return this.#types.isUnsettled(type);
  }

  /** Records the type of the mount. Runs inside the object's transaction. */
  settle(type: string): void {
    this.#types.settle(type);
  }

  /** Deletes a former identity that nothing is left of. Runs inside the object's transaction. */
  pruneAccount(id: number): void {
    const { accounts, config, roles, type } = this;
    if (id === accounts.current() && !config.isDeleted()) return;
    if (!accounts.all().has(id) || accounts.isUsed(id)) return;
    if (roles.ofAccount(id).every((role) => type.roles.undoOfRole(role, 0) === null)) accounts.delete(id);
  }

  /** Drops the values cached from rows; called after a rollback. */
  forgetMemos(): void {
    const { work, jobs, leases, accounts, config, kept, pool } = this;
    for (const part of [this.#types, work, jobs, leases, accounts, config, kept, pool]) part.forgetMemos();
  }
}

/** The type of the mount, a row of its object: mounts of the first type have none. */
class TypeRecord {
  readonly #state: DeploymentState;
  readonly #type: Memo<EngineType>;

  constructor(sql: SqlStorage) {
    this.#state = new DeploymentState(sql);
    this.#type = new Memo(() => engineType(this.#state.get("type") ?? FIRST_TYPE));
  }

  get(): EngineType {
    return this.#type.get();
  }

  isUnsettled(type: string): boolean {
    return this.get().type !== type && this.#state.get("type") === null;
  }

  settle(type: string): void {
    this.#state.set("type", engineType(type).type);
    this.#type.forget();
  }

  forgetMemos(): void {
    this.#type.forget();
  }
}
