import type { LeaseRow, MountTtls, Renewed, Started } from "../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../lib/result.ts";
import { recordAction } from "../platform/observability/audit/actions.ts";
import { warn } from "../platform/observability/log.ts";
import { endOf } from "./issue.ts";
import type { Work } from "./job.ts";
import { renewed } from "./lease-ttl.ts";
import { holdingIn, secondsLeft } from "./leases.ts";
import type { EngineParts } from "./parts.ts";

const AT_A_TIME = 100;

/** When leases end: they are renewed, run out, and are revoked. */
export class LeaseEnds {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Extends a lease. @param increment seconds, 0 = what its role says */
  renew(id: string, increment: number, mount: MountTtls): Result<Renewed> {
    const { scope, leases, roles, commit } = this.#parts;
    const now = Date.now();
    const lease = leases.find(id);
    if (!lease) return refuse("invalid", "lease not found");
    if (lease.state === "irrevocable") {
      return refuse("invalid", "lease is expired and has failed previous revocation attempts");
    }
    if (lease.state !== "live" || lease.expires <= now) return refuse("invalid", "lease expired");
    const role = roles.find(lease.role);
    const ttl = secondsLeft(lease.expires, now);
    if (!role) return ok({ ttl, renewable: false, warnings: ["the role is deleted; the lease was not extended"] });
    if (lease.renewable !== 1) return refuse("invalid", "lease is not renewable");
    const times = { issued: lease.issued, expires: lease.expires, keyEnds: lease.key_ends };
    const next = renewed(times, role, mount, increment, now);
    if (!next.ok) return next;
    const { expires, renewable, warnings } = next.value;
    commit(() => leases.extend(id, expires, renewable, now));
    recordAction("lease-renewed", { engine: scope, lease: id, expires });
    return ok({ ttl: secondsLeft(expires, now), renewable, warnings });
  }

  /** Begins to revoke a lease, or tries again. @returns null when there is none of this id */
  revoke(id: string): Started | null {
    const { leases, desk, commit } = this.#parts;
    const lease = leases.find(id);
    if (!lease) return null;
    const now = Date.now();
    return commit(() => {
      this.end(lease, now);
      return desk.claimed({ job: id, kind: "removal" }, now);
    });
  }

  /** Has leases revoked as soon as may be. */
  revokeSoon(ids: readonly string[]): void {
    const now = Date.now();
    this.#parts.commit(() => {
      for (const id of ids) {
        const lease = this.#parts.leases.find(id);
        if (lease) this.end(lease, now);
      }
    });
  }

  /** Forgets leases, and what of them could not be removed; a removal that has not failed goes on without its lease. */
  forget(ids: readonly string[]): void {
    const { scope, leases, jobs, commit } = this.#parts;
    commit(() => {
      for (const id of ids) {
        if (!leases.find(id)) continue;
        const job = jobs.findReadable(id);
        if (job?.work.kind !== "removal" || job.failures > 0) jobs.delete(id);
        else jobs.keep(job, { work: { ...job.work, lease: false } });
        leases.delete(id);
        warn("lease-forgotten", { engine: scope, lease: id });
      }
    });
  }

  /** Ends some of those whose time is over, or whose answer has not left; inside a transaction. */
  endExpired(now: number): void {
    const { leases, scope } = this.#parts;
    for (const lease of leases.expired(now, AT_A_TIME)) this.end(lease, now);
    for (const lease of leases.notHandedOver(now, AT_A_TIME)) {
      recordAction("lease-not-handed-over", { engine: scope, lease: lease.id, token: lease.token });
      this.end(lease, now);
    }
  }

  /** Ends some of those that live, whatever time they have; inside a transaction. */
  endLiving(now: number): void {
    for (const lease of this.#parts.leases.under("", "", AT_A_TIME, "live")) this.end(lease, now);
  }

  /** From now on it is being revoked; inside a transaction. */
  end(lease: LeaseRow, now: number): void {
    const { scope, leases, jobs } = this.#parts;
    leases.end(lease.id);
    if (jobs.kindOf(lease.id) !== null) {
      jobs.retry(lease.id, now);
      return;
    }
    const removal = endOf(holdingIn(lease), lease.issued);
    const work: Work = { kind: "removal", removal, because: "lease", account: null, lease: true };
    jobs.put({ id: lease.id, work }, now);
    recordAction("lease-ends", { engine: scope, lease: lease.id, token: lease.token });
  }
}
