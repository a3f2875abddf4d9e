import type { CloudAccount } from "../contracts/cloud-directory.ts";
import type { LeaseRow } from "../contracts/credential-engine.ts";
import type { CredentialIssuer } from "./credential-issuer.ts";
import type { EngineDependencies } from "./dependencies.ts";
import { revocationOf } from "./issue.ts";
import type { LeaseLifecycle } from "./lease-lifecycle.ts";
import { resourcesIn } from "./lease-store.ts";
import { undoOfRole } from "./role-changes.ts";
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
  readonly #deps: EngineDependencies;
  readonly #root: RootAccount;
  readonly #issuer: CredentialIssuer;
  readonly #lifecycle: LeaseLifecycle;

  constructor(deps: EngineDependencies, root: RootAccount, issuer: CredentialIssuer, lifecycle: LeaseLifecycle) {
    this.#deps = deps;
    this.#root = root;
    this.#issuer = issuer;
    this.#lifecycle = lifecycle;
  }

  /**
   * Stops issuing for a while, and revokes all leases.
   * @param again retry leases whose revocation failed before
   * @returns the number of remaining leases, and the failure of one that cannot be revoked
   */
  close(again: boolean): { left: number; failure: Pick<LeaseRow, "id" | "failure"> | null } {
    const { config, leases, jobs, commit } = this.#deps;
    const now = Date.now();
    commit(() => {
      config.closeUntil(now + CLOSING_MS);
      leases.expire(null, now);
      this.#issuer.abandonAll(now);
      this.#lifecycle.revokeLive(now);
      if (again) for (const lease of leases.failures(PAGE)) this.#lifecycle.end(lease, now);
    });
    return { left: leases.count() + jobs.count("issue"), failure: leases.failures(1)[0] ?? null };
  }

  /** Cancels a `close`: the mount stays. */
  reopen(): void {
    this.#deps.commit(() => this.#deps.config.closeUntil(0));
  }

  /** Starts the removal of all resources of a deleted mount, and deletes everything else. Idempotent. */
  destroy(): void {
    const { config, jobs, commit } = this.#deps;
    if (config.isDeleted()) return;
    const now = Date.now();
    const engine = this.#deps.account();
    const account = engine.ok ? engine.value : null;
    commit(() => {
      config.markDeleted();
      for (const job of jobs.ofKind("role")) jobs.delete(job.id);
      this.#root.stopRotation(now);
      this.#issuer.abandonAll(now);
      this.#removeLeases(account, now);
      this.#removeRoles(account, now);
      // Removals in progress keep the account, because the configuration is deleted.
      for (const { id, work } of jobs.ofKind("removal")) {
        if (work.kind === "removal" && !work.account) jobs.put({ id, work: { ...work, account } }, now);
      }
      config.delete();
    });
  }

  #removeLeases(account: CloudAccount | null, now: number): void {
    const { leases, jobs, completion } = this.#deps;
    for (let page = leases.under("", "", PAGE); page.length > 0; page = leases.under("", "", PAGE)) {
      for (const lease of page) {
        jobs.delete(lease.id);
        leases.delete(lease.id);
        const removal = revocationOf(resourcesIn(lease), lease.issued);
        completion.startRemoval(lease.id, removal, "lease of a mount that is gone", account, now);
      }
    }
  }

  #removeRoles(account: CloudAccount | null, now: number): void {
    const { roles, completion } = this.#deps;
    for (const { name, role } of roles.deleteAll()) {
      const removal = undoOfRole(role, now);
      if (removal) completion.startRemoval(`kept ${name}`, removal, "application of a role", account, now);
    }
  }
}
