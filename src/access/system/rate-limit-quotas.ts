import type { CountedRequest, QuotaBody, QuotasConfig, RateLimitQuota } from "../../contracts/quotas.ts";
import type { RateLimit } from "../../lib/rate-limit.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import type { PathResolver } from "../paths/path-resolver.ts";
import { isNamed, type QuotaKind, QuotaScopes, quotaNameRefusal, RANK } from "./quota-scopes.ts";

/**
 * Rate-limit quotas (https://developer.hashicorp.com/vault/api-docs/system/rate-limit-quotas): stored settings, and
 * counters in memory. Every request of the secrets API passes the object that owns them, so they count exactly; without
 * a quota a request costs one comparison. A restart of the object ends all intervals.
 */

const MAX_QUOTAS = 100;
/** Counters of clients; the oldest is dropped for a new one beyond. */
const MAX_CLIENTS = 10_000;

const NO_CONFIG: QuotasConfig = {
  enable_rate_limit_response_headers: false,
  rate_limit_exempt_paths: [],
  absolute_rate_limit_exempt_paths: [],
};

/** Never counted, so that a quota that is too low can be changed. */
const ITSELF = "sys/quotas/";

interface Stored extends RateLimitQuota {
  readonly kind: QuotaKind;
}

interface Counter {
  /** End of the interval, ms since 1970. */
  until: number;
  used: number;
  /** End of a block, ms since 1970; 0 for none. */
  blockedUntil: number;
}

interface RateLimitQuotasDependencies {
  readonly state: DeploymentState;
  readonly paths: PathResolver;
  commit<T>(change: () => T): T;
}

export class RateLimitQuotas {
  readonly #scopes: QuotaScopes;
  #quotas: readonly Stored[] | undefined;
  #config: QuotasConfig | undefined;
  readonly #counters = new Map<string, Counter>();

  constructor(private readonly deps: RateLimitQuotasDependencies) {
    this.#scopes = new QuotaScopes(deps.paths);
  }

  /** Whether any quota exists. */
  get exist(): boolean {
    return this.#all().length > 0;
  }

  /** Drops the copies in memory, after the rows were replaced. */
  forget(): void {
    this.#quotas = undefined;
    this.#config = undefined;
    this.#counters.clear();
  }

  list(): RateLimitQuota[] {
    return this.#all().map(shown);
  }

  read(name: string): Result<RateLimitQuota> {
    const quota = this.#all().find((one) => one.name === name);
    return quota ? ok(shown(quota)) : refuse("missing");
  }

  put(name: string, body: QuotaBody): Result<null> {
    const refused = quotaNameRefusal(name);
    if (refused) return refused;
    const scope = this.#scopes.scopeOf(body.path);
    if (!scope.ok) return scope;
    const { kind, path } = scope.value;
    const others = this.#all().filter((quota) => quota.name !== name);
    const alike = others.find((quota) => quota.path === path);
    if (alike)
      return refuse("invalid", `path: quota rule with similar properties exists under the name "${alike.name}"`);
    if (others.length >= MAX_QUOTAS) return refuse("invalid", `name: there may be at most ${MAX_QUOTAS} quotas`);
    this.#store(name, [...others, { ...body, name, path, kind, inheritable: body.inheritable ?? path === "" }]);
    return ok(null);
  }

  delete(name: string): void {
    this.#store(
      name,
      this.#all().filter((quota) => quota.name !== name),
    );
  }

  config(): QuotasConfig {
    this.#config ??= { ...NO_CONFIG, ...(JSON.parse(this.deps.state.get("quotas_config") ?? "{}") as object) };
    return this.#config;
  }

  setConfig(changes: Partial<QuotasConfig>): void {
    const config = { ...this.config(), ...changes };
    this.deps.commit(() => this.deps.state.set("quotas_config", JSON.stringify(config)));
    this.#config = config;
  }

  /**
   * Counts a request against the most specific quota of its path.
   * @returns a refusal beyond the limit; null when no quota counts the request
   */
  take(request: CountedRequest, now: number): Result<RateLimit | null> {
    const quota = this.exist ? this.#quotaOf(request) : undefined;
    if (!quota || this.#isExempt(request)) return ok(null);
    const client = quota.group_by === "ip" ? (request.address ?? "") : "";
    const counter = this.#counter(`${quota.name} ${client}`, quota, now);
    const limit = Math.max(1, Math.round(quota.rate));
    if (counter.blockedUntil <= now && counter.used < limit) {
      counter.used += 1;
      return ok(this.#rate(limit, limit - counter.used, counter.until - now));
    }
    if (quota.block_interval > 0 && counter.blockedUntil <= now)
      counter.blockedUntil = now + quota.block_interval * 1_000;
    return exceeded(request.path, this.#rate(limit, 0, Math.max(counter.until, counter.blockedUntil) - now));
  }

  #rate(limit: number, remaining: number, resetMs: number): RateLimit {
    const resetS = Math.max(1, Math.ceil(resetMs / 1_000));
    return { limit, remaining, resetS, shown: this.config().enable_rate_limit_response_headers };
  }

  #counter(key: string, { interval }: Stored, now: number): Counter {
    const known = this.#counters.get(key);
    if (known && (known.until > now || known.blockedUntil > now)) return known;
    this.#counters.delete(key);
    const [oldest] = this.#counters.keys();
    if (this.#counters.size >= MAX_CLIENTS && oldest !== undefined) this.#counters.delete(oldest);
    const counter = { until: now + interval * 1_000, used: 0, blockedUntil: 0 };
    this.#counters.set(key, counter);
    return counter;
  }

  #quotaOf(request: CountedRequest): Stored | undefined {
    const covers = this.#scopes.covering(request);
    // The list is sorted: the first that matches is the most specific.
    return this.#all().find(covers);
  }

  #isExempt(request: CountedRequest): boolean {
    const { namespace, path } = request;
    if (namespace === "" && path.startsWith(ITSELF)) return true;
    const { rate_limit_exempt_paths: ofRoot, absolute_rate_limit_exempt_paths: absolute } = this.config();
    const exempts = namespace === "" ? [...ofRoot, ...absolute] : absolute;
    if (exempts.length === 0) return false;
    const spelled = this.#scopes.spelling(request);
    return exempts.some((exempt) => isNamed(spelled(namespace + path), spelled(exempt)));
  }

  #all(): readonly Stored[] {
    this.#quotas ??= JSON.parse(this.deps.state.get("rate_limit_quotas") ?? "[]") as Stored[];
    return this.#quotas;
  }

  /** @param changed the quota whose counters are dropped */
  #store(changed: string, quotas: readonly Stored[]): void {
    const sorted = [...quotas].sort(
      (a, b) => RANK[b.kind] - RANK[a.kind] || b.path.length - a.path.length || (a.name < b.name ? -1 : 1),
    );
    this.deps.commit(() => this.deps.state.set("rate_limit_quotas", JSON.stringify(sorted)));
    this.#quotas = sorted;
    for (const key of this.#counters.keys()) if (key.startsWith(`${changed} `)) this.#counters.delete(key);
  }
}

const shown = ({ kind: _kind, ...quota }: Stored): RateLimitQuota => quota;

/** Upstream's text. */
const exceeded = (path: string, rate: RateLimit): Refusal => ({
  ...refuse("limited", `request path ${JSON.stringify(path.slice(0, 200))}: rate limit quota exceeded`),
  rate,
});
