/** A naive model of the rules of a destination: small sets, all of them compared again after every change. */

export type RuleState = "active" | "paused" | "limit_exceeded" | "confirmation_required";

export interface ModelLimits {
  readonly maxSecrets: number;
  readonly maxRemovals: number;
  readonly priority: number;
  readonly paused: boolean;
}

type Matches = (path: string, mode: string) => boolean;

interface ModelRule extends ModelLimits {
  readonly matches: Matches;
  status: RuleState;
  /** Paths that matched when the rule was last compared. */
  matched: ReadonlySet<string>;
  /** Paths whose associations the rule has set. */
  has: ReadonlySet<string>;
  /** Removals since the last confirmation. A test takes less than the hour after which they are forgotten. */
  removed: number;
}

export class RuleModel {
  /** By path: the newest value, and the mode in the metadata. */
  readonly secrets = new Map<string, { value: string; mode: string }>();
  readonly manual = new Set<string>();
  readonly rules = new Map<string, ModelRule>();
  readonly #names: readonly string[];

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  put(name: string, matches: Matches, limits: ModelLimits): void {
    const { matched, has, removed } = this.rules.get(name) ?? { matched: new Set(), has: new Set(), removed: 0 };
    this.rules.set(name, { ...limits, matches, matched, has, removed, status: limits.paused ? "paused" : "active" });
    this.compare();
  }

  confirm(name: string): void {
    const rule = this.rules.get(name);
    if (rule) Object.assign(rule, { removed: 0, has: rule.matched, status: "active" });
  }

  /** After a change: each rule that is not paused has what matches, unless one of its limits forbids it. */
  compare(): void {
    for (const rule of this.rules.values()) {
      if (rule.paused) continue;
      rule.matched = new Set(
        [...this.secrets].filter(([path, { mode }]) => rule.matches(path, mode)).map(([at]) => at),
      );
      const leaving = [...rule.has].filter((path) => !rule.matched.has(path)).length;
      if (rule.matched.size > rule.maxSecrets) rule.status = "limit_exceeded";
      else if (leaving > 0 && rule.removed + leaving > rule.maxRemovals) rule.status = "confirmation_required";
      else Object.assign(rule, { removed: rule.removed + leaving, has: rule.matched, status: "active" });
    }
  }

  /** The status and the counts that a read of a rule shows; null without the rule. */
  view(name: string) {
    const rule = this.rules.get(name);
    if (!rule) return null;
    const { status, matched, has } = rule;
    const pending_removals = [...has].filter((path) => !matched.has(path)).length;
    return { status, progress: { matched: matched.size, applied: has.size, pending_removals } };
  }

  /** The wanted objects: values, and the origins that may have named each. */
  wanted(): { readonly value: string; readonly namedBy: readonly string[] }[] {
    return [...this.secrets].flatMap(([path, { value }]) => {
      const namedBy = this.#namedBy(path);
      return namedBy.length === 0 ? [] : [{ value, namedBy }];
    });
  }

  /** A request comes before rules, a rule of lower priority before others. While the first one rests, a former name stays. */
  #namedBy(path: string): string[] {
    if (this.manual.has(path)) return ["manual"];
    const origins = [...this.rules]
      .filter(([, { has }]) => has.has(path))
      .sort(([one, { priority: first }], [other, { priority: second }]) => first - second || (one < other ? -1 : 1));
    const [first] = origins;
    if (!first) return [];
    return first[1].status === "active" ? [first[0]] : ["manual", ...this.#names];
  }
}
