import type { CountedLeaseQuota, LeaseQuota, LeaseQuotaBody } from "../../contracts/quotas.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import { type Series, series } from "../../platform/observability/metrics/series.ts";
import type { PathResolver } from "../paths/path-resolver.ts";
import type { CountedLeases, LeaseCounts, LeasePlace } from "./lease-counts.ts";
import { type QuotaKind, QuotaScopes, quotaNameRefusal, RANK } from "./quota-scopes.ts";

const MAX_QUOTAS = 100;

interface Stored extends LeaseQuota {
  readonly kind: QuotaKind;
}

/** Auth methods store the names of their roles and users in lower case. */
const comparedRole = (role: string): string => role.toLowerCase();

interface LeaseCountQuotasDependencies {
  readonly state: DeploymentState;
  readonly paths: PathResolver;
  readonly counts: LeaseCounts;
  commit<T>(change: () => T): T;
}

/**
 * Lease-count quotas (https://developer.hashicorp.com/vault/api-docs/system/lease-count-quotas): stored settings, checked
 * for each lease before anything is created for it. A quota counts all leases of its path; only the most specific quota
 * of a path may refuse. Without a quota, nothing is counted.
 */
export class LeaseCountQuotas {
  readonly #scopes: QuotaScopes;
  readonly #violations = new Map<string, number>();
  #quotas: readonly Stored[] | undefined;

  constructor(private readonly deps: LeaseCountQuotasDependencies) {
    this.#scopes = new QuotaScopes(deps.paths);
  }

  /** Whether any quota exists. */
  get exist(): boolean {
    return this.#all().length > 0;
  }

  /** Drops the copies in memory, after a rollback or when the rows were replaced. */
  forget(): void {
    this.#quotas = undefined;
    this.deps.counts.forget();
  }

  names(): string[] {
    return this.#all()
      .map(({ name }) => name)
      .sort();
  }

  /** A quota with its leases as of now. */
  async read(name: string): Promise<Result<CountedLeaseQuota>> {
    const quota = this.#all().find((one) => one.name === name);
    if (!quota) return refuse("missing");
    const counted = this.#leasesOf(quota);
    await this.deps.counts.refresh(counted);
    const { kind: _kind, ...shown } = quota;
    return ok({ ...shown, counter: this.deps.counts.count(counted) });
  }

  put(name: string, given: LeaseQuotaBody): Result<null> {
    const body = { ...given, role: comparedRole(given.role) };
    const refused = quotaNameRefusal(name);
    if (refused) return refused;
    const scope = this.#scopes.scopeOf(body.path);
    if (!scope.ok) return scope;
    const { kind, path } = scope.value;
    if (body.role !== "" && !(kind === "mount" && this.#isAuth(path))) {
      return refuse("invalid", "role: the path must be that of an auth mount");
    }
    const others = this.#all().filter((quota) => quota.name !== name);
    const alike = others.find((quota) => quota.path === path && quota.role === body.role);
    if (alike)
      return refuse("invalid", `path: quota rule with similar properties exists under the name "${alike.name}"`);
    if (others.length >= MAX_QUOTAS) return refuse("invalid", `name: there may be at most ${MAX_QUOTAS} quotas`);
    // Leases that were issued while there was no quota are not counted.
    if (!this.exist) this.deps.counts.forget();
    this.#store([...others, { ...body, name, path, kind, inheritable: body.inheritable ?? path === "" }]);
    return ok(null);
  }

  delete(name: string): void {
    this.#store(this.#all().filter((quota) => quota.name !== name));
    this.#violations.delete(name);
  }

  /** Counts leases where a quota of a place needs it for `admit`. */
  async prepare(place: Omit<LeasePlace, "role">): Promise<void> {
    for (const quota of this.#all().filter(this.#scopes.covering(place))) {
      const counted = this.#leasesOf(quota);
      const { counts } = this.deps;
      if (!counts.isKnown(counted) || counts.count(counted) >= quota.max_leases) await counts.refresh(counted);
    }
  }

  /** @returns a refusal with upstream's text when no further lease may be issued at a place */
  admit(place: LeasePlace): Result<null> {
    const quota = this.exist ? this.#quotaOf(place) : undefined;
    if (!quota || this.deps.counts.count(this.#leasesOf(quota)) < quota.max_leases) return ok(null);
    this.#violations.set(quota.name, (this.#violations.get(quota.name) ?? 0) + 1);
    const path = JSON.stringify(place.path.slice(0, 200));
    return refuse("limited", `1 error occurred:\n\t* request path ${path}: lease count quota exceeded\n\n`);
  }

  /**
   * Counts a lease of a mount.
   * @param isExempt whether it may be refused
   */
  async admitLease(mount: string, id: string, isExempt: boolean): Promise<Result<null>> {
    const { counts } = this.deps;
    const at = counts.mountOf(mount);
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
    counts.admit(mount, id);
    return ok(null);
  }

  measured(): Series[] {
    return this.#all().flatMap((quota) => [
      series("sallyport_lease_count_quota_max", quota.max_leases, quota.name),
      series("sallyport_lease_count_quota_counter", this.deps.counts.count(this.#leasesOf(quota)), quota.name),
      series("sallyport_lease_count_quota_violations_total", this.#violations.get(quota.name) ?? 0, quota.name),
    ]);
  }

  #quotaOf(place: LeasePlace): Stored | undefined {
    const covers = this.#scopes.covering(place);
    // The list is sorted: the first that matches is the most specific.
    return this.#all().find((quota) => (quota.role === "" || quota.role === place.role) && covers(quota));
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
    return this.deps.paths.authMountAt(this.deps.paths.split("", path)) !== null;
  }

  #all(): readonly Stored[] {
    // Older rows hold roles as they were sent.
    this.#quotas ??= (JSON.parse(this.deps.state.get("lease_count_quotas") ?? "[]") as Stored[]).map((quota) => ({
      ...quota,
      role: comparedRole(quota.role),
    }));
    return this.#quotas;
  }

  #store(quotas: readonly Stored[]): void {
    const rank = ({ role, kind }: Stored): number => (role === "" ? RANK[kind] : Number.POSITIVE_INFINITY);
    const sorted = [...quotas].sort((a, b) => {
      const [first, second] = [rank(a), rank(b)];
      if (first !== second) return first > second ? -1 : 1;
      return b.path.length - a.path.length || (a.name < b.name ? -1 : 1);
    });
    this.deps.commit(() => this.deps.state.set("lease_count_quotas", JSON.stringify(sorted)));
    this.#quotas = sorted;
  }
}
