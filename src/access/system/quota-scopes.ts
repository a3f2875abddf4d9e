import type { Located } from "../../contracts/namespaces.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DeploymentState } from "../../platform/durable/deployment-state.ts";
import type { ObjectContext } from "../../platform/durable/object-context.ts";
import { inLowerCase } from "../../rights/aliases.ts";
import { caselessSegments } from "../paths/path-evaluator.ts";
import type { PathResolver } from "../paths/path-resolver.ts";

/** The kinds of a quota's path. */
export type QuotaKind = "global" | "namespace" | "mount" | "prefix" | "exact";
/** The larger wins. */
const RANK: Readonly<Record<QuotaKind, number>> = { global: 0, namespace: 1, mount: 2, prefix: 3, exact: 4 };

/** The place of a quota: a namespace, a mount, or paths in one. */
interface QuotaScope {
  readonly kind: QuotaKind;
  /** From the root; that of a namespace or a mount ends in a slash. */
  readonly path: string;
  /** Whether the quota of a namespace counts for those below it. */
  readonly inheritable: boolean;
}

const NAME = /^[A-Za-z0-9._-]{1,128}$/;

const MAX_QUOTAS = 100;

/** A quota as stored. `role` is that of logins, for the quotas that have one; empty for all. */
interface StoredQuota extends QuotaScope {
  readonly name: string;
  readonly role?: string;
}

/** The quotas of one kind: one value of the deployment's state, held in memory, the most specific quota first. */
export class StoredQuotas<Quota extends StoredQuota> {
  #quotas: readonly Quota[] | undefined;

  /**
   * @param key of the value
   * @param opened a quota as it is compared
   */
  constructor(
    private readonly state: DeploymentState,
    private readonly key: string,
    private readonly commit: ObjectContext["commit"],
    private readonly opened: (quota: Quota) => Quota = (quota) => quota,
  ) {}

  /** Drops the copy in memory. */
  forget(): void {
    this.#quotas = undefined;
  }

  all(): readonly Quota[] {
    this.#quotas ??= (JSON.parse(this.state.get(this.key) ?? "[]") as Quota[]).map(this.opened);
    return this.#quotas;
  }

  find(name: string): Quota | undefined {
    return this.all().find((quota) => quota.name === name);
  }

  /** Stores a quota in place of the one with its name. */
  put(quota: Quota): Result<null> {
    const others = this.#without(quota.name);
    const alike = others.find(({ path, role }) => path === quota.path && role === quota.role);
    if (alike)
      return refuse("invalid", `path: quota rule with similar properties exists under the name "${alike.name}"`);
    if (others.length >= MAX_QUOTAS) return refuse("invalid", `name: there may be at most ${MAX_QUOTAS} quotas`);
    this.#store([...others, quota]);
    return ok(null);
  }

  delete(name: string): void {
    this.#store(this.#without(name));
  }

  #without(name: string): Quota[] {
    return this.all().filter((quota) => quota.name !== name);
  }

  #store(quotas: readonly Quota[]): void {
    const sorted = quotas.toSorted(bySpecificity);
    this.commit(() => this.state.set(this.key, JSON.stringify(sorted)));
    this.#quotas = sorted;
  }
}

function bySpecificity(a: StoredQuota, b: StoredQuota): number {
  const [first, second] = [rankOf(a), rankOf(b)];
  if (first !== second) return first > second ? -1 : 1;
  return b.path.length - a.path.length || (a.name < b.name ? -1 : 1);
}

const rankOf = ({ role = "", kind }: StoredQuota): number => (role === "" ? RANK[kind] : Number.POSITIVE_INFINITY);

/** The paths of quotas of every kind: which place they name, and which requests they cover. Owns no state. */
export class QuotaScopes {
  constructor(private readonly paths: PathResolver) {}

  /** The place of a quota that a request names and gives a path; the path in its stored spelling. */
  scopeOf(name: string, text: string, inheritable: boolean | undefined): Result<QuotaScope> {
    if (!NAME.test(name)) return refuse("invalid", "name: must be 1 to 128 of a-z A-Z 0-9 . _ -");
    const path = text.replace(/^\/+/, "");
    const kind = this.#kindOf(path);
    if (kind === null) return refuse("invalid", "path: invalid mount path: there is neither a mount nor a namespace");
    const stored = kind === "namespace" || kind === "mount" ? path.replace(/\/?$/, "/") : path;
    return ok({ kind, path: stored, inheritable: inheritable ?? stored === "" });
  }

  /** Whether a quota covers a place, as a predicate on quotas. */
  covering(place: Located): (quota: QuotaScope) => boolean {
    const { namespace, path } = place;
    const whole = namespace + path;
    return (quota) => {
      if (quota.kind === "global" || quota.kind === "namespace")
        return namespace === quota.path || (quota.inheritable && namespace.startsWith(quota.path));
      if (quota.kind === "mount") return whole.startsWith(quota.path);
      const spelled = this.spelling(place);
      return isNamed(spelled(whole), spelled(quota.path));
    };
  }

  /** Spells paths as that of a place is routed: a caseless name has one spelling. */
  spelling(place: Located): (path: string) => string {
    const inside = caselessSegments(this.paths, place);
    if (inside === null) return (path) => path;
    const segments = { first: inside.first + place.namespace.split("/").length - 1, count: inside.count };
    return (path) => inLowerCase(path, segments);
  }

  #kindOf(path: string): QuotaKind | null {
    if (path === "") return "global";
    const place = this.paths.kindOf(path.replace(/\*$/, ""));
    if (place !== null && path.endsWith("*")) return "prefix";
    return place === "inside" ? "exact" : place;
  }
}

/** Whether a setting names a path: a final `*` makes a prefix, and a final slash of the path is ignored. */
export const isNamed = (path: string, setting: string): boolean =>
  setting.endsWith("*") ? path.startsWith(setting.slice(0, -1)) : path === setting || path === `${setting}/`;
