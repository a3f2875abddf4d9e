import type { LeaseRow } from "../../contracts/credential-engine.ts";
import type { EngineJobs } from "../engine-jobs.ts";
import { ownedBy } from "../engines/description.ts";
import type { CredentialIssuer } from "../leases/credential-issuer.ts";
import type { LeaseLifecycle } from "../leases/lease-lifecycle.ts";
import { resourcesIn } from "../leases/lease-store.ts";
import type { WarmPool } from "../pool/warm-pool.ts";
import type { RootAccount } from "./root-account.ts";

/** A mount issues nothing while it is being disabled. If disabling is interrupted, it issues again after this time. */
const CLOSING_MS = 2 * 60_000;
const PAGE = 1_000;

/**
 * Disables a mount, and removes its cloud resources after deletion.
 *
 *     open ──close──► closing ──all leases revoked──► destroy ──► gone
 *       ▲                │
 *       └─reopen, 2 min──┘
 */
export class MountTeardown {
  constructor(
    private readonly jobs: EngineJobs,
    private readonly root: RootAccount,
    private readonly issuer: CredentialIssuer,
    private readonly lifecycle: LeaseLifecycle,
    private readonly pool: WarmPool,
  ) {}

  /**
   * Stops issuing for a while, and revokes all leases.
   * @param again retry leases whose revocation failed before
   * @returns the number of remaining leases, and the failure of one that cannot be revoked
   */
  close(again: boolean): { left: number; failure: Pick<LeaseRow, "id" | "failure"> | null } {
    const { config, leases, jobs } = this.jobs.stores;
    const now = Date.now();
    this.jobs.commit(() => {
      config.closeUntil(now + CLOSING_MS);
      leases.expire(null, now);
      this.issuer.abandonAll(now);
      this.lifecycle.revokeLive(now);
      this.pool.emptyAll(now);
      if (again) for (const lease of leases.failures(PAGE)) this.lifecycle.end(lease, now);
    });
    // A pool that cannot be emptied goes on after the mount, as unfinished credentials do.
    const left = leases.count() + jobs.count("issue") + jobs.countUntried("pooled ");
    return { left, failure: leases.failures(1)[0] ?? null };
  }

  /** Cancels a `close`: the mount stays. */
  reopen(): void {
    this.jobs.commit(() => {
      this.jobs.stores.config.closeUntil(0);
      this.pool.refill(Date.now());
    });
  }

  /** Starts the removal of all resources of a deleted mount, and deletes everything else. Idempotent. */
  destroy(): void {
    const { config, jobs, accounts } = this.jobs.stores;
    if (config.isDeleted()) return;
    const now = Date.now();
    this.jobs.commit(() => {
      // Later removals keep their identity, because the configuration is deleted.
      this.jobs.accounts.follow();
      config.markDeleted();
      for (const job of jobs.ofKind("renewal")) jobs.delete(job.id);
      this.#stopWrites(now);
      this.root.stopRotation(now);
      this.issuer.abandonAll(now);
      this.pool.destroy(now);
      this.#removeLeases(now);
      this.#removeRoles(now);
      config.delete();
      for (const id of accounts.all().keys()) this.jobs.stores.pruneAccount(id);
    });
  }

  /** Abandons writes of roles, and removes what they have made. */
  #stopWrites(now: number): void {
    const { type, jobs } = this.jobs.stores;
    for (const job of jobs.ofKind("role")) {
      if (job.work.kind !== "role") continue;
      const undo = type.roles.undo(job.work.write, null, now);
      const owner = { ...job, because: "unfinished role" };
      if (undo && "removal" in undo) this.jobs.outcomes.abandon(owner, undo.removal, now);
      else jobs.delete(job.id);
    }
  }

  #removeLeases(now: number): void {
    const { type, leases, jobs } = this.jobs.stores;
    for (let page = leases.under("", "", PAGE); page.length > 0; page = leases.under("", "", PAGE)) {
      for (const lease of page) {
        jobs.delete(lease.id);
        leases.delete(lease.id);
        const removal = type.removal.ofLease(resourcesIn(lease), lease.issued);
        this.jobs.outcomes.startRemoval({ ...lease, because: "lease of a mount that is gone" }, removal, now);
      }
    }
  }

  #removeRoles(now: number): void {
    const { type, roles, kept } = this.jobs.stores;
    kept.deleteAll();
    for (const { name, role, account } of roles.deleteAll()) {
      const removal = type.roles.undoOfRole(role, now);
      const owner = { id: `kept ${name}`, account, because: ownedBy(type.description, name) };
      if (removal) this.jobs.outcomes.startRemoval(owner, removal, now);
    }
  }
}
