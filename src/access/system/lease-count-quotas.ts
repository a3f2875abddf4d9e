import type { CountedLeaseQuota, LeaseQuota, LeaseQuotaBody } from "../../contracts/quotas.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { type Series, series } from "../../platform/observability/metrics/series.ts";
import type { PathResolver } from "../paths/path-resolver.ts";
import type { LeasePlace } from "../tokens/token-lease-counts.ts";
import type { CountedLeases, LeaseCounts } from "./lease-counts.ts";
import { type QuotaKind, QuotaScopes, StoredQuotas } from "./quota-scopes.ts";

interface Stored extends LeaseQuota {
  readonly kind: QuotaKind;
}

/** Auth methods store the names of their roles and users in lower case. */
const comparedRole = (role: string): string => role.toLowerCase();

/**
 * Lease-count quotas (https://developer.hashicorp.com/vault/api-docs/system/lease-count-quotas): stored settings, checked
 * for each lease before anything is created for it. A quota counts all leases of its path; only the most specific quota
 * of a path may refuse. Without a quota, nothing is counted.
 */
export class LeaseCountQuotas {
  readonly #scopes: QuotaScopes;
  readonly #violations = new Map<string, number>();
  readonly #quotas: StoredQuotas<Stored>;

  constructor(
    state: DeploymentState,
    private readonly paths: PathResolver,
    private readonly counts: LeaseCounts,
    commit: ObjectContext["commit"],
  ) {
    this.#scopes = new QuotaScopes(paths);
    // Older rows hold roles as they were sent.
    const opened = (quota: Stored): Stored => ({ ...quota, role: comparedRole(quota.role) });
    this.#quotas = new StoredQuotas(state, "lease_count_quotas", commit, opened);
  }

  /** Whether any quota exists. */
  get exist(): boolean {
    return this.#quotas.all().length > 0;
  }

  /** Drops the copies in memory, after a rollback or when the rows were replaced. */
  forget(): void {
    this.#quotas.forget();
    this.counts.forget();
  }

  names(): string[] {
    return this.#quotas
      .all()
      .map(({ name }) => name)
      .sort();
  }

  /** A quota with its leases as of now. */
  async read(name: string): Promise<Result<CountedLeaseQuota>> {
    const quota = this.#quotas.find(name);
    if (!quota) return refuse("missing");
    const counted = this.#leasesOf(quota);
    await this.counts.refresh(counted);
    const { kind: _kind, ...shown } = quota;
    return ok({ ...shown, counter: this.counts.count(counted) });
  }

  put(name: string, given: LeaseQuotaBody): Result<null> {
    const body = { ...given, role: comparedRole(given.role) };
    const scope = this.#scopes.scopeOf(name, body.path, body.inheritable);
    if (!scope.ok) return scope;
    const { kind, path } = scope.value;
    if (body.role !== "" && !(kind === "mount" && this.#isAuth(path))) {
      return refuse("invalid", "role: the path must be that of an auth mount");
    }
    const isFirst = !this.exist;
    const put = this.#quotas.put({ ...body, name, ...scope.value });
    // Leases that were issued while there was no quota are not counted.
    if (put.ok && isFirst) this.counts.forget();
    return put;
  }

  delete(name: string): void {
    this.#quotas.delete(name);
    this.#violations.delete(name);
  }

  /** Counts leases where a quota of a place needs it for `admit`. */
  async prepare(place: Omit<LeasePlace, "role">): Promise<void> {
    for (const quota of this.#quotas.all().filter(this.#scopes.covering(place))) {
      const counted = this.#leasesOf(quota);
      const { counts } = this;
      if (!counts.isKnown(counted) || counts.count(counted) >= quota.max_leases) await counts.refresh(counted);
    }
  }

  /** @returns a refusal with upstream's text when no further lease may be issued at a place */
  admit(place: LeasePlace): Result<null> {
    const quota = this.exist ? this.#quotaOf(place) : undefined;
    if (!quota || this.counts.count(this.#leasesOf(quota)) < quota.max_leases) return ok(null);
    this.#violations.set(quota.name, (this.#violations.get(quota.name) ?? 0) + 1);
    const path = JSON.stringify(place.path.slice(0, 200));
    return refuse("limited", `1 error occurred:\n\t* request path ${path}: lease count quota exceeded\n\n`);
  }

  /**
   * Counts a lease of a mount.
   * @param isExempt whether it may be refused
   */
  async admitLease(mount: string, id: string, isExempt: boolean): Promise<Result<null>> {
    const at = this.counts.mountOf(mount);
    if (at && !isExempt) {
      const place = { namespace: at.namespace, path: at.path + id.slice(0, id.lastIndexOf("/")), role: null };
      await this.prepare(place);
      let admitted = this.admit(place);
      // Others were admitted meanwhile, and leases may have ended.
      if (!admitted.ok) {
        await this.prepare(place);
        admitted = this.admit(place);
      }
      if (!admitted.ok) return admitted;
    }
    this.counts.admit(mount, id);
    return ok(null);
  }

  measured(): Series[] {
    return this.#quotas
      .all()
      .flatMap((quota) => [
        series("sallyport_lease_count_quota_max", quota.max_leases, quota.name),
        series("sallyport_lease_count_quota_counter", this.counts.count(this.#leasesOf(quota)), quota.name),
        series("sallyport_lease_count_quota_violations_total", this.#violations.get(quota.name) ?? 0, quota.name),
      ]);
  }

  #quotaOf(place: LeasePlace): Stored | undefined {
    const covers = this.#scopes.covering(place);
    // The list is sorted: the first that matches is the most specific.
    return this.#quotas.all().find((quota) => (quota.role === "" || quota.role === place.role) && covers(quota));
  }

  #leasesOf(quota: Stored): CountedLeases {
    const isOfRole = (role: string | null) => quota.role === "" || quota.role === role;
    return {
      holds: (place) => isOfRole(place.role) && this.#scopes.covering(place)(quota),
      mayHold: ({ namespace, path }) => {
        if (quota.kind === "global" || quota.kind === "namespace")
          return this.#scopes.covering({ namespace, path })(quota);
        return quota.role === "" && quota.path.startsWith(namespace + path);
      },
    };
  }

  #isAuth(path: string): boolean {
    return this.paths.authMountAt(this.paths.split("", path)) !== null;
  }
}
