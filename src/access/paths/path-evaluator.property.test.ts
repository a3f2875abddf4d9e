import { describe, expect, it } from "vitest";
import type { Capability, ParameterConstraints, PathRule } from "../../contracts/policies.ts";
import { compilePaths } from "../../rights/path-rules.ts";
import type { Grants } from "../policies/policy-store.ts";
import { allows, PathEvaluator } from "./path-evaluator.ts";
import type { PathResolver } from "./path-resolver.ts";
import { resolveTemplate, type TemplateSubject } from "./path-templates.ts";

/**
 * Compares whole decisions with a model of upstream's rules (hashicorp/vault vault/acl.go, `NewACL`, `AllowOperation`,
 * `CheckAllowedFromNonExactPaths`), which is written without regard to speed. Literal `+` and `*` inside names are left
 * out: upstream counts the first as a wildcard of position, which its documents do not.
 */

type Operation = "read" | "list" | "create" | "update" | "patch" | "delete";

interface Asked {
  readonly operation: Operation;
  /** From the root, with a namespace. */
  readonly path: string;
  readonly given: Readonly<Record<string, unknown>>;
  /** Seconds; 0 = not wrapped. */
  readonly wrapTtl: number;
}

/** A rule after templates and namespaces. */
type Permissions = Pick<PathRule, "capabilities"> & ParameterConstraints;

/** Upstream's merge of the rules with one pattern. */
function merged(rules: readonly PathRule[]): Permissions {
  if (rules.some(({ capabilities }) => capabilities.includes("deny"))) return { capabilities: ["deny"] };
  const union = (lists: readonly (PathRule["allowedParameters"] | undefined)[]) => {
    const names = new Set(lists.flatMap((list) => (list ?? []).map(({ name }) => name)));
    return [...names].map((name) => {
      const all = lists.flatMap((list) => (list ?? []).filter((each) => each.name === name));
      return { name, values: all.some(({ values }) => values.length === 0) ? [] : all.flatMap(({ values }) => values) };
    });
  };
  const least = (values: readonly (number | undefined)[]) => {
    const set = values.filter((value) => value !== undefined);
    return set.length === 0 ? {} : { value: Math.min(...set) };
  };
  const { value: minWrappingTtl } = least(rules.map((rule) => rule.minWrappingTtl));
  const { value: maxWrappingTtl } = least(rules.map((rule) => rule.maxWrappingTtl));
  return {
    capabilities: rules.flatMap(({ capabilities }) => capabilities),
    allowedParameters: union(rules.map(({ allowedParameters }) => allowedParameters)),
    deniedParameters: union(rules.map(({ deniedParameters }) => deniedParameters)),
    requiredParameters: rules.flatMap(({ requiredParameters = [] }) => requiredParameters),
    ...(minWrappingTtl !== undefined && { minWrappingTtl }),
    ...(maxWrappingTtl !== undefined && { maxWrappingTtl }),
  };
}

const isSegmented = (pattern: string) => pattern.split("/").some((each) => each === "+");

/** The pattern of the rule that decides about a path. */
function decisive(patterns: readonly string[], path: string, operation: Operation): string | undefined {
  const isExact = (pattern: string) => !isSegmented(pattern) && !pattern.endsWith("*");
  const exact = (at: string) => patterns.find((pattern) => isExact(pattern) && pattern === at);
  const bare = path.replace(/\/$/, "");
  const wild = (at: string) =>
    patterns
      .filter((pattern) => !isExact(pattern) && matchesWild(pattern, at))
      .sort(byPriority)
      .at(-1);
  if (operation !== "list") return exact(path) ?? wild(path);
  return exact(path) ?? exact(bare) ?? (path.endsWith("/") ? wild(bare) : undefined) ?? wild(path);
}

function matchesWild(pattern: string, path: string): boolean {
  const isPrefix = pattern.endsWith("*");
  const literal = isPrefix ? pattern.slice(0, -1) : pattern;
  if (!isSegmented(pattern)) return path.startsWith(literal);
  const [parts, wanted] = [path.split("/"), literal.split("/")];
  if (isPrefix ? parts.length < wanted.length : parts.length !== wanted.length) return false;
  return wanted.every((want, at) => {
    const part = parts[at] ?? "";
    return want === "+" || want === part || (isPrefix && at === wanted.length - 1 && part.startsWith(want));
  });
}

/** The greater decides. */
function byPriority(a: string, b: string): number {
  const first = (pattern: string) => pattern.search(/[+*]/);
  const prefix = (pattern: string) => Number(!pattern.endsWith("*"));
  const plusses = (pattern: string) => pattern.split("/").filter((each) => each === "+").length;
  return (
    first(a) - first(b) ||
    prefix(a) - prefix(b) ||
    plusses(b) - plusses(a) ||
    a.length - b.length ||
    (a < b ? -1 : Number(a > b))
  );
}

function allowedByModel(rules: readonly PathRule[], { operation, path, given, wrapTtl }: Asked): boolean {
  const pattern = decisive([...new Set(rules.map((rule) => rule.path))], path, operation);
  if (pattern === undefined) return false;
  const permissions = merged(rules.filter((rule) => rule.path === pattern));
  if (!permissions.capabilities.includes(operation)) return false;
  const { minWrappingTtl: least, maxWrappingTtl: most } = permissions;
  if (most !== undefined && (wrapTtl === 0 || wrapTtl > most)) return false;
  if (least !== undefined && (wrapTtl === 0 || wrapTtl < least)) return false;
  if (operation === "list" || operation === "delete") return true;
  return parametersAllowed(permissions, given);
}

function parametersAllowed(permissions: Permissions, given: Asked["given"]): boolean {
  const { allowedParameters: allowed = [], deniedParameters: denied = [], requiredParameters = [] } = permissions;
  const names = Object.keys(given);
  if (!requiredParameters.every((name) => names.includes(name))) return false;
  if (names.length === 0) return true;
  const of = (rules: typeof allowed, name: string) => rules.find((rule) => rule.name === name)?.values;
  const matches = (value: unknown, values: readonly unknown[]) =>
    values.some((each) =>
      String(each).endsWith("*") ? String(value).startsWith(String(each).slice(0, -1)) : each === value,
    );
  const parts = (value: unknown) => (Array.isArray(value) ? value : value === "" ? [] : String(value).split(","));
  if (of(denied, "*")) return false;
  for (const name of names) {
    const values = of(denied, name);
    if (values && (values.length === 0 || matches(given[name], values))) return false;
    if (values && parts(given[name]).some((part) => matches(part, values))) return false;
  }
  if (allowed.length === 0) return true;
  return names.every((name) => {
    const values = of(allowed, name);
    if (!values) return of(allowed, "*") !== undefined;
    return (
      values.length === 0 || matches(given[name], values) || parts(given[name]).every((part) => matches(part, values))
    );
  });
}

const NOWHERE = { mountAt: () => null, authMountAt: () => null } as unknown as PathResolver;
const OPERATIONS = ["read", "list", "create", "update", "patch", "delete"] as const;
const SUBJECT: TemplateSubject = { id: "e", name: "b", metadata: {}, aliases: [], groups: [] };

function random(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe("PathEvaluator", () => {
  it("decides as a model of upstream's rules on 30 000 random requests", () => {
    const next = random(20_261_128);
    const pick = <T>(from: readonly T[]): T => from[next(from.length)] as T;
    const some = <T>(from: readonly T[], of: number): T[] => from.filter(() => next(of) === 0);
    const values = () => pick([[], [], ["x"], ["x", "y"], ["x*"]]);
    const parameters = () => some(["a", "b", "*"], 3).map((name) => ({ name, values: name === "*" ? [] : values() }));
    const rule = (): PathRule => {
      const words = pick([
        [pick(OPERATIONS), pick(OPERATIONS)],
        some(OPERATIONS, 2),
        [...OPERATIONS],
        ["deny"],
      ] as const);
      const segments = Array.from({ length: 1 + next(3) }, () =>
        pick(["a", "b", "ab", "+", "+", "{{identity.entity.name}}"]),
      );
      const path = segments.join("/") + pick(["", "", "/", "*", "/*"]);
      const [allowed, denied, required] = [parameters(), parameters(), some(["a", "b"], 4)];
      const isPlain = next(3) > 0;
      return {
        path: path.replace("+*", "+/*"),
        capabilities: words as readonly Capability[],
        ...(!isPlain && allowed.length > 0 && { allowedParameters: allowed }),
        ...(!isPlain && denied.length > 0 && { deniedParameters: denied }),
        ...(!isPlain && required.length > 0 && { requiredParameters: required }),
        ...(next(8) === 0 && { minWrappingTtl: pick([10, 30]) }),
        ...(next(8) === 0 && { maxWrappingTtl: pick([20, 60]) }),
      };
    };
    const evaluator = new PathEvaluator(NOWHERE);
    const tally = { allowed: 0, refused: 0 };
    for (let round = 0; round < 750; round++) {
      const policies = Array.from({ length: 1 + next(3) }, () => Array.from({ length: 1 + next(4) }, rule));
      const namespace = pick(["", "", "n/"]);
      const resolved = policies.map((rules) => rules.flatMap((each) => resolveTemplate(each, SUBJECT) ?? []));
      const grants = { root: false, paths: compilePaths(resolved.map((paths) => ({ namespace, paths }))) } as Grants;
      const whole = resolved.flat().map((each) => ({ ...each, path: namespace + each.path }));
      for (let question = 0; question < 40; question++) {
        const operation = pick(OPERATIONS);
        const text = Array.from({ length: 1 + next(3) }, () => pick(["a", "b", "ab"])).join("/");
        // Lists arrive with a slash, other requests without.
        const path = operation === "list" ? `${text}/` : text;
        const asked: Asked = {
          operation,
          path: namespace + path,
          given: Object.fromEntries(
            some(["a", "b", "c"], 3).map((name) => [name, pick(["x", "y", "xy", "x,y", ["x"], [], ""])]),
          ),
          wrapTtl: pick([0, 0, 5, 15, 25, 100]),
        };
        const decision = evaluator.evaluate(grants, { namespace, path }, operation === "list");
        const answer = allows(decision, [operation], asked.given, asked.wrapTtl).ok;
        // Beyond upstream, a deletion with a denied parameter is refused.
        if (operation === "delete" && !answer) continue;
        expect(answer, JSON.stringify({ asked, whole })).toBe(allowedByModel(whole, asked));
        tally[answer ? "allowed" : "refused"]++;
      }
    }
    expect(Math.min(tally.allowed, tally.refused)).toBeGreaterThan(3000);
  });
});
