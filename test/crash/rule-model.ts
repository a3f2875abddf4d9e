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
  /** The objects at the destination: values by path. */
  readonly #pushed = new Map<string, string>();
  /** Paths that only paused rules want. */
  #resting: ReadonlySet<string> = new Set();
  /** Of these, those whose secret was deleted while another rule wanted it: its object may be gone. */
  readonly #uncertain = new Set<string>();
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
    this.#push();
  }

  /** Objects that only paused rules want stay as they are. */
  #push(): void {
    const paths = [...new Set([...this.secrets.keys(), ...this.#pushed.keys()])];
    const resting = new Set(paths.filter((path) => this.#rests(path)));
    for (const path of paths) {
      const secret = this.secrets.get(path);
      if (resting.has(path)) {
        if (!secret && !this.#resting.has(path)) this.#uncertain.add(path);
        continue;
      }
      this.#uncertain.delete(path);
      if (secret && this.#namedBy(path).length > 0) this.#pushed.set(path, secret.value);
      else this.#pushed.delete(path);
    }
    this.#resting = resting;
  }

  #rests(path: string): boolean {
    const origins = this.#origins(path);
    return !this.manual.has(path) && origins.length > 0 && origins.every(([, { status }]) => status === "paused");
  }

  /** The rules that have a path, the one that comes first at the beginning. */
  #origins(path: string): [string, ModelRule][] {
    return [...this.rules]
      .filter(([, { has }]) => has.has(path))
      .sort(([one, { priority: first }], [other, { priority: second }]) => first - second || (one < other ? -1 : 1));
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
  wanted(): { readonly value: string; readonly namedBy: readonly string[]; readonly isCertain: boolean }[] {
    return [...this.#pushed].map(([path, value]) => ({
      value,
      namedBy: this.#namedBy(path),
      isCertain: !this.#uncertain.has(path),
    }));
  }

  /** A request comes before rules, a rule of lower priority before others. While the first one rests, a former name stays. */
  #namedBy(path: string): string[] {
    if (this.manual.has(path)) return ["manual"];
    const [first] = this.#origins(path);
    if (!first) return [];
    return first[1].status === "active" ? [first[0]] : ["manual", ...this.#names];
  }
}
