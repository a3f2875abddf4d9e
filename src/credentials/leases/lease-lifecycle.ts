import type { LeaseRow, MountTtls, Renewed, Started } from "../../contracts/credential-engine.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { warn } from "../../platform/observability/log.ts";
import { OWN_TRACE } from "../../platform/observability/otlp/trace-context.ts";
import type { EngineJobs } from "../engine-jobs.ts";
import type { Work } from "../jobs/job.ts";
import type { NewJob } from "../jobs/job-store.ts";
import { isEmpty } from "../runner/removal.ts";
import { REQUEST_MS } from "../runner/saga-runner.ts";
import { resourcesIn, secondsLeft } from "./lease-store.ts";
import { renewed } from "./lease-ttl.ts";
import { lastEnd } from "./lease-users.ts";

const BATCH = 250;

/**
 * Renews, revokes and expires the leases of one mount. Owns no state: each revocation is a removal job under the
 * lease's id.
 *
 *     live ──expiry, revoke, no hand-over──► ending ──removal──► deleted
 *                                              │ LEASE_ROUNDS failed rounds
 *                                              ▼
 *                                         irrevocable ──daily retry, revoke──► deleted
 */
export class LeaseLifecycle {
  constructor(private readonly jobs: EngineJobs) {}

  /** Extends a lease. @param increment seconds; 0 means the TTL of its role */
  renew(id: string, increment: number, mount: MountTtls): Result<Renewed | Started> {
    const { type, config, leases, leaseUsers, roles } = this.jobs.stores;
    const now = Date.now();
    const lease = leases.find(id);
    if (!lease) return refuse("invalid", "lease not found");
    if (lease.state === "irrevocable") {
      return refuse("invalid", "lease is expired and has failed previous revocation attempts");
    }
    if (lease.state !== "live" || lease.expires <= now) return refuse("invalid", "lease expired");
    const role = roles.find(lease.role);
    const ttl = secondsLeft(lease.expires, now);
    const resources = resourcesIn(lease);
    const stored = () => config.find();
    const ttls = type.roles.ttlsOfLease?.(resources, stored) ?? (role && type.roles.ttls(role, stored));
    if (!ttls) return ok({ ttl, renewable: false, warnings: ["the role is deleted; the lease was not extended"] });
    if (lease.renewable !== 1) return refuse("invalid", "lease is not renewable");
    const keyEnds = lastEnd(lease.key_ends, leaseUsers.of(id));
    const times = { issued: lease.issued, expires: lease.expires, keyEnds };
    const next = renewed(times, ttls, mount, increment, now);
    if (!next.ok) return next;
    const { expires, renewable, warnings } = next.value;
    if (type.renewal) {
      const renewal = type.renewal.begin(resources, expires, lease.issued);
      const work: Work = { kind: "renewal", renewal, lease: id, from: lease.expires, expires, renewable, warnings };
      // Renewals of one lease take effect in the order of their ends.
      const job = {
        id: `renewal ${crypto.randomUUID()}`,
        work,
        lock: `lease ${id}`,
        deadline: now + REQUEST_MS,
        account: lease.account,
      };
      return ok(this.jobs.commit(() => this.jobs.runner.start(job, now)));
    }
    this.jobs.commit(() => this.jobs.outcomes.extend(id, expires, renewable, now));
    return ok({ ttl: secondsLeft(expires, now), renewable, warnings });
  }

  /**
   * Starts or retries the revocation of a lease.
   * @param trace of the request, see `tracedWork`
   * @returns null without a lease of this id, or when no call is needed
   */
  revoke(id: string, trace?: string | null): Started | null {
    const { leases } = this.jobs.stores;
    const lease = leases.find(id);
    if (!lease) return null;
    const now = Date.now();
    return this.jobs.commit(() => {
      const job = this.#endOf(lease, now, trace);
      if (job) return this.jobs.runner.startNew(job, now);
      return leases.find(id) ? this.jobs.runner.begin({ job: id, kind: "removal" }, now) : null;
    });
  }

  /** Schedules the revocation of leases without waiting for it. */
  revokeSoon(ids: readonly string[], trace?: string | null): void {
    const now = Date.now();
    this.jobs.commit(() => {
      for (const id of ids) {
        const lease = this.jobs.stores.leases.find(id);
        if (lease) this.end(lease, now, trace);
      }
    });
  }

  /** Deletes leases without their resources. A removal without failures continues, detached from its lease. */
  forget(ids: readonly string[]): void {
    const { scope, leases, jobs, events } = this.jobs.stores;
    this.jobs.commit(() => {
      for (const id of ids) {
        const lease = leases.find(id);
        if (!lease) continue;
        const job = jobs.findReadable(id);
        if (job?.work.kind !== "removal" || job.failures > 0) jobs.delete(id);
        else jobs.keep(job, { work: { ...job.work, lease: false } });
        leases.delete(id);
        this.jobs.stores.pruneAccount(lease.account);
        events.lease("LeaseForgotten", id);
        warn("lease-forgotten", { engine: scope, lease: id });
      }
    });
  }

  /** Revokes up to `BATCH` expired leases, and as many whose responses were never sent. Runs inside a transaction. */
  revokeExpired(now: number): void {
    const { leases, scope, events } = this.jobs.stores;
    for (const lease of leases.expired(now, BATCH)) {
      events.lease("LeaseExpired", lease.id);
      this.end(lease, now, OWN_TRACE);
    }
    for (const lease of leases.notHandedOver(now, BATCH)) {
      recordAction("lease-not-handed-over", { engine: scope, lease: lease.id, token: lease.token });
      this.end(lease, now, OWN_TRACE);
    }
  }

  /** Revokes up to `BATCH` live leases regardless of their expiry. Runs inside a transaction. */
  revokeLive(now: number): void {
    for (const lease of this.jobs.stores.leases.under("", "", BATCH, "live")) this.end(lease, now);
  }

  /** Moves a lease to `ending`, and starts or retries its removal job. Runs inside a transaction. */
  end(lease: LeaseRow, now: number, trace?: string | null): void {
    const job = this.#endOf(lease, now, trace);
    if (job) this.jobs.stores.jobs.add(job, now);
  }

  /** @returns the removal job to start; null when there was one, which is retried, or when the lease needs none */
  #endOf(lease: LeaseRow, now: number, trace?: string | null): NewJob | null {
    const { type, scope, leases, jobs } = this.jobs.stores;
    const { id, token } = lease;
    leases.end(id);
    if (jobs.kindOf(id) !== null) {
      jobs.retry(id, now);
      return null;
    }
    const removal = type.removal.ofLease(resourcesIn(lease), lease.issued);
    recordAction("lease-ends", { engine: scope, lease: id, token });
    if (isEmpty(removal)) {
      this.jobs.outcomes.leaseRevoked(id, "lease");
      return null;
    }
    const work: Work = { kind: "removal", removal, because: "lease", account: null, lease: true, trace };
    return { id, work, account: lease.account };
  }
}
