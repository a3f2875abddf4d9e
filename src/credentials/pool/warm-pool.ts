import { recordAction } from "../../platform/observability/audit/actions.ts";
import { type Series, series } from "../../platform/observability/metrics/series.ts";
import type { EngineStores } from "../engine-stores.ts";
import type { EngineStates } from "../engines/engine-type.ts";
import { type JobOutcomes, UNLEASED } from "../jobs/job-outcome.ts";
import type { EngineAccounts } from "../mount/engine-accounts.ts";
import type { Pooling } from "./pool-saga.ts";
import { nextFill, type PoolRow, type Ready } from "./pool-store.ts";

/** Time limit for credentials of a pool: no request waits for them. */
const FILL_MS = 10 * 60_000;
/** Credentials being made at a time for all pools of a mount. Requests and removals have the rest of the provider's rate. */
const MAX_FILLING = 4;
/** A mount that issues nothing now is asked again after this time. */
const CLOSED_MS = 60_000;
/** A pool waits this long for those of other roles. */
const TURN_MS = 5_000;

/**
 * Fills the pools of one mount, and removes credentials that no caller will be given. Owns no state: credentials that are
 * made are jobs, those that are ready are rows of `PoolStore`.
 *
 *     fill ──job──► ready ──hand-over──► lease
 *      │              ├──older than the TTL, role changed, revoked──► removal
 *      └──failed──► removal, and another try after a delay
 */
export class WarmPool {
  constructor(
    private readonly stores: EngineStores,
    private readonly outcomes: JobOutcomes,
    private readonly accounts: EngineAccounts,
  ) {
    // Credentials of another identity are not handed over.
    accounts.watch((former) => this.emptyAll(Date.now(), former));
  }

  /** Removes what no caller will be given, and begins what is missing. Runs inside a transaction. */
  tick(now: number): void {
    const { pool, config, accounts } = this.stores;
    const due = pool.nextDue();
    if (due === null || due > now || config.isDeleted()) return;
    this.accounts.follow();
    const made = accounts.current();
    for (const role of pool.roles()) for (const ready of pool.unfit(role, now)) this.#end(ready, now, made);
    for (const row of pool.all()) if (row.due === null || row.due <= now) this.#fill(row, now);
  }

  /** Begins what a pool lacks. */
  #fill(row: PoolRow, now: number): void {
    const { type, config, roles, jobs, pool } = this.stores;
    const role = roles.find(row.role);
    this.#stop(row.role, now, ({ content }) => content !== row.content || row.size === 0);
    if (!role || !type.pool || row.size === 0) {
      pool.delete(row.role);
      return;
    }
    const account = this.accounts.account();
    if (config.refusesNew(now) || !account.ok) {
      pool.setDue(row.role, now + CLOSED_MS);
      return;
    }
    const filling = jobs.idsUnder(fillPrefix(row.role), "pool").length;
    const missing = row.size - pool.count(row.role) - filling;
    // The end of a job makes its pool due again.
    const begun = Math.max(Math.min(missing, MAX_FILLING - jobs.count("pool")), 0);
    pool.setDue(row.role, missing > 0 && filling + begun === 0 ? now + TURN_MS : null);
    for (let n = 0; n < begun; n++) this.#begin(row, role, account.value, now);
  }

  #begin(row: PoolRow, role: EngineStates["role"], account: EngineStates["account"], now: number): void {
    const { type, jobs, pool } = this.stores;
    const lifeMs = row.life + row.ttl + FILL_MS;
    const at = type.description.paths.issue[0]?.slice(1) ?? "";
    const context = {
      account,
      lifeMs,
      ttlMs: lifeMs,
      maxTtlMs: lifeMs,
      name: row.role,
      at,
      displayName: "",
      request: {},
    };
    const begun = type.issue.begin(role, context);
    if (!begun.ok) {
      pool.failed(row.role, begun.message, nextFill(row, null, now));
      return;
    }
    const pooling = { role: row.role, content: row.content, issue: begun.value, made: null, logins: 0, next: 0 };
    const lock = type.issue.lock?.(begun.value) ?? null;
    const id = `${fillPrefix(row.role)}${crypto.randomUUID()}`;
    jobs.add({ id, work: { kind: "pool", pooling }, lock, deadline: now + FILL_MS }, now);
  }

  /** Ends the pool of a deleted role. Runs inside a transaction. */
  roleDeleted(role: string, now: number): void {
    this.stores.pool.delete(role);
    this.#empty(role, now);
  }

  /**
   * Replaces all credentials of pools whose path of leases has a prefix: they may be known to others. Runs inside a
   * transaction.
   */
  revoke(prefix: string, now: number): void {
    const { type, pool } = this.stores;
    const [path = ""] = type.description.paths.issue;
    for (const { role } of pool.all()) {
      if (!`${path.slice(1)}/${role}/`.startsWith(prefix)) continue;
      this.#empty(role, now);
      pool.setDue(role, now);
    }
  }

  /** Ends all pools, with those of a mount that is gone. Runs inside a transaction. */
  destroy(now: number): void {
    const { pool } = this.stores;
    this.emptyAll(now);
    for (const { role } of pool.all()) pool.delete(role);
  }

  /**
   * Removes the credentials of all pools. Pools of a mount that goes on are filled again. Runs inside a transaction.
   * @param account id of the identity that made them
   */
  emptyAll(now: number, account = this.stores.accounts.current()): void {
    const { pool } = this.stores;
    for (const { role } of pool.all()) {
      this.#empty(role, now, account);
      pool.setDue(role, now);
    }
    for (const role of pool.roles()) this.#empty(role, now, account);
  }

  /** Makes pools due that wait for a later time: the mount may issue again. Runs inside a transaction. */
  refill(now: number): void {
    const { pool } = this.stores;
    for (const { role, due } of pool.all()) if (due !== null && due > now) pool.setDue(role, now);
  }

  /** Sizes of pools, and ready credentials. The caller prepends the label `mount`. */
  measured(): Series[] {
    const { pool } = this.stores;
    return pool
      .all()
      .flatMap(({ role, size }) => [
        series("sallyport_engine_pool_size", size, role),
        series("sallyport_engine_pool_ready", pool.count(role), role),
      ]);
  }

  #empty(role: string, now: number, account = this.stores.accounts.current()): void {
    this.#stop(role, now);
    for (const ready of this.stores.pool.ofRole(role)) this.#end(ready, now, account);
  }

  /** Gives up credentials in the making: all, or those that a condition holds for. */
  #stop(role: string, now: number, condition: (pooling: Pooling) => boolean = () => true): void {
    const { type, jobs } = this.stores;
    for (const id of jobs.idsUnder(fillPrefix(role), "pool")) {
      const job = jobs.find(id);
      if (job?.work.kind !== "pool" || !condition(job.work.pooling)) continue;
      this.outcomes.abandon({ ...job, because: UNLEASED }, type.issue.undo(job.work.pooling.issue, now), now);
    }
  }

  #end(ready: Ready, now: number, account: number): void {
    const { type, pool, scope } = this.stores;
    pool.remove(ready);
    recordAction("pooled-credentials-end", { engine: scope, role: ready.role, pooled: ready.id });
    const removal = type.removal.ofLease(ready.resources, ready.made);
    this.outcomes.startRemoval({ id: ready.id, account, because: UNLEASED }, removal, now);
  }
}

/** Begins the ids of the jobs that make credentials for the pool of a role. No name of a role has a space. */
const fillPrefix = (role: string): string => `pool-fill ${role} `;
