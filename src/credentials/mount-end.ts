import type { CloudAccount } from "../contracts/cloud-directory.ts";
import type { LeaseRow } from "../contracts/credential-engine.ts";
import { endOf } from "./issue.ts";
import type { Issues } from "./issues.ts";
import type { LeaseEnds } from "./lease-lifecycle.ts";
import { holdingIn } from "./leases.ts";
import type { EngineParts } from "./parts.ts";
import { undoOfRole } from "./role-changes.ts";
import type { RootAccount } from "./root-account.ts";

/** While a mount is being disabled it gives out nothing new; should that come to nothing, it does again after this. */
const CLOSING_MS = 2 * 60_000;
const PAGE = 1_000;

interface Host {
  readonly root: RootAccount;
  readonly issues: Issues;
  readonly leaseEnds: LeaseEnds;
}

/** How a mount is disabled, and what is left to do when it is gone. */
export class MountEnd {
  readonly #parts: EngineParts;
  readonly #host: Host;

  constructor(parts: EngineParts, host: Host) {
    this.#parts = parts;
    this.#host = host;
  }

  /**
   * Gives out nothing new for a while, and has all leases revoked.
   * @param again those, too, that could not be revoked before
   * @returns how many are left, and why if one cannot be
   */
  close(again: boolean): { left: number; failure: Pick<LeaseRow, "id" | "failure"> | null } {
    const { config, leases, jobs, commit } = this.#parts;
    const { issues, leaseEnds } = this.#host;
    const now = Date.now();
    commit(() => {
      config.closeUntil(now + CLOSING_MS);
      leases.expire(null, now);
      issues.abandonAll(now);
      leaseEnds.endLiving(now);
      if (again) for (const lease of leases.failures(PAGE)) leaseEnds.end(lease, now);
    });
    return { left: leases.count() + jobs.count("issue"), failure: leases.failures(1)[0] ?? null };
  }

  /** The mount stays after all. */
  reopen(): void {
    this.#parts.commit(() => this.#parts.config.closeUntil(0));
  }

  /** The mount is gone: takes away what it still has at the cloud, and forgets everything else. Idempotent. */
  destroy(): void {
    const { config, jobs, account, commit } = this.#parts;
    if (config.isGone()) return;
    const now = Date.now();
    const engine = account();
    const whoever = engine.ok ? engine.value : null;
    commit(() => {
      config.leave();
      for (const job of jobs.ofKind("role")) jobs.delete(job.id);
      this.#host.root.stopRotation(now);
      this.#host.issues.abandonAll(now);
      this.#removeLeases(whoever, now);
      this.#removeRoles(whoever, now);
      // What was under way already needs somebody to act as, too.
      for (const { id, work } of jobs.ofKind("removal")) {
        if (work.kind === "removal" && !work.account) jobs.put({ id, work: { ...work, account: whoever } }, now);
      }
      config.delete();
    });
  }

  #removeLeases(whoever: CloudAccount | null, now: number): void {
    const { leases, jobs, endings } = this.#parts;
    for (let page = leases.under("", "", PAGE); page.length > 0; page = leases.under("", "", PAGE)) {
      for (const lease of page) {
        jobs.delete(lease.id);
        leases.delete(lease.id);
        const removal = endOf(holdingIn(lease), lease.issued);
        endings.remove(lease.id, removal, "lease of a mount that is gone", whoever, now);
      }
    }
  }

  #removeRoles(whoever: CloudAccount | null, now: number): void {
    const { roles, endings } = this.#parts;
    for (const { name, role } of roles.takeAll()) {
      const removal = undoOfRole(role, now);
      if (removal) endings.remove(`kept ${name}`, removal, "application of a role", whoever, now);
    }
  }
}
