import type { CountedRequest, QuotaBody, QuotasConfig, RateLimitQuota } from "../../contracts/quotas.ts";
import type { RateLimit } from "../../lib/rate-limit.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { PathResolver } from "../paths/path-resolver.ts";
import { isNamed, type QuotaKind, QuotaScopes, StoredQuotas } from "./quota-scopes.ts";

/**
 * Rate-limit quotas (https://developer.hashicorp.com/vault/api-docs/system/rate-limit-quotas): stored settings, and
 * counters in memory. Every request of the secrets API passes the object that owns them, so they count exactly; without
 * a quota a request costs one comparison. A restart of the object ends all intervals.
 */

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

export class RateLimitQuotas {
  readonly #scopes: QuotaScopes;
  readonly #quotas: StoredQuotas<Stored>;
  #config: QuotasConfig | undefined;
  readonly #counters = new Map<string, Counter>();

  constructor(
    private readonly state: DeploymentState,
    paths: PathResolver,
    private readonly commit: ObjectContext["commit"],
  ) {
    this.#scopes = new QuotaScopes(paths);
    this.#quotas = new StoredQuotas(state, "rate_limit_quotas", commit);
  }

  /** Whether any quota exists. */
  get exist(): boolean {
    return this.#quotas.all().length > 0;
  }

  /** Drops the copies in memory, after the rows were replaced. */
  forget(): void {
    this.#quotas.forget();
    this.#config = undefined;
    this.#counters.clear();
  }

  list(): RateLimitQuota[] {
    return this.#quotas.all().map(shown);
  }

  read(name: string): Result<RateLimitQuota> {
    const quota = this.#quotas.find(name);
    return quota ? ok(shown(quota)) : refuse("missing");
  }

  put(name: string, body: QuotaBody): Result<null> {
    const scope = this.#scopes.scopeOf(name, body.path, body.inheritable);
    if (!scope.ok) return scope;
    const put = this.#quotas.put({ ...body, name, ...scope.value });
    if (put.ok) this.#dropCounters(name);
    return put;
  }

  delete(name: string): void {
    this.#quotas.delete(name);
    this.#dropCounters(name);
  }

  config(): QuotasConfig {
    this.#config ??= { ...NO_CONFIG, ...(JSON.parse(this.state.get("quotas_config") ?? "{}") as object) };
    return this.#config;
  }

  setConfig(changes: Partial<QuotasConfig>): void {
    const config = { ...this.config(), ...changes };
    this.commit(() => this.state.set("quotas_config", JSON.stringify(config)));
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
    return this.#quotas.all().find(covers);
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

  #dropCounters(name: string): void {
    for (const key of this.#counters.keys()) if (key.startsWith(`${name} `)) this.#counters.delete(key);
  }
}

const shown = ({ kind: _kind, ...quota }: Stored): RateLimitQuota => quota;

/** Upstream's text. */
const exceeded = (path: string, rate: RateLimit): Refusal => ({
  ...refuse("limited", `request path ${JSON.stringify(path.slice(0, 200))}: rate limit quota exceeded`),
  rate,
});
