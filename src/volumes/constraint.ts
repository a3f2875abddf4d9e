import type { NodeProperties } from "../cluster/nodes/view.ts";
import type { Constraint } from "../contracts/host-volumes.ts";
import { readPattern } from "../lib/bexpr/pattern.ts";
import { versionRules } from "./version.ts";

/** A side that does not exist on the node is undefined. */
type Check = (left: string | undefined, right: string | undefined) => boolean;

interface Operator {
  readonly right: "needed" | "none";
  /** Parses a literal right side once. @returns an error message, or the comparison */
  compile(right: string | null): Check | string;
}

const plain = (check: Check): Operator => ({ right: "needed", compile: () => check });

/** Both sides must exist. */
const both = (check: (left: string, right: string) => boolean): Check => {
  return (left, right) => left !== undefined && right !== undefined && check(left, right);
};

const ordered = (holds: (order: number) => boolean): Operator =>
  plain(both((left, right) => holds(order(left, right))));

const INTEGER = /^[+-]?\d{1,18}$/;
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i;

/** Compares integers and decimals by value, anything else as text. */
function order(left: string, right: string): number {
  if (INTEGER.test(left) && INTEGER.test(right)) {
    const [a, b] = [BigInt(left.replace("+", "")), BigInt(right.replace("+", ""))];
    return a < b ? -1 : Number(a > b);
  }
  if (DECIMAL.test(left) && DECIMAL.test(right)) return Number(left) - Number(right);
  return left < right ? -1 : Number(left > right);
}

/** An operator whose right side has its own syntax (regular expression, version constraint). */
const language = (read: (right: string) => ((left: string) => boolean) | string): Operator => ({
  right: "needed",
  compile: (right) => {
    if (right === null) {
      return both((left, text) => {
        const holds = read(text);
        return typeof holds !== "string" && holds(left);
      });
    }
    const holds = read(right);
    return typeof holds === "string" ? holds : both(holds);
  },
});

const items = (text: string): string[] => text.split(",").map((item) => item.trim());
const setContains = (method: "every" | "some"): Operator =>
  plain(
    both((left, right) => {
      const held = new Set(items(left));
      return items(right)[method]((item) => held.has(item));
    }),
  );

const equal = plain(both((left, right) => left === right));
const different = plain((left, right) => left !== right);
const versions = (kind: "loose" | "semver") =>
  language((right) => versionRules(right, kind) ?? `${JSON.stringify(right.slice(0, 100))} is no version constraint`);

const OPERATORS: Readonly<Record<string, Operator>> = {
  "=": equal,
  "==": equal,
  is: equal,
  "!=": different,
  not: different,
  ">": ordered((difference) => difference > 0),
  ">=": ordered((difference) => difference >= 0),
  "<": ordered((difference) => difference < 0),
  "<=": ordered((difference) => difference <= 0),
  regexp: language((right) => {
    const pattern = readPattern(right);
    return typeof pattern === "string"
      ? `failed to compile regular expression ${JSON.stringify(right.slice(0, 100))}: ${pattern}`
      : (left) => pattern.found(left);
  }),
  version: versions("loose"),
  semver: versions("semver"),
  set_contains: setContains("every"),
  set_contains_all: setContains("every"),
  set_contains_any: setContains("some"),
  is_set: { right: "none", compile: () => (left) => left !== undefined },
  is_not_set: { right: "none", compile: () => (left) => left === undefined },
};

/** Job-level operators, which do not constrain a single node. */
const BETWEEN_ALLOCATIONS = new Set(["distinct_hosts", "distinct_property"]);

const NODE_PROPERTIES: Readonly<Record<string, (node: NodeProperties) => string>> = {
  "node.unique.id": ({ id }) => id,
  "node.unique.name": ({ name }) => name,
  "node.datacenter": ({ datacenter }) => datacenter,
  "node.class": ({ nodeClass }) => nodeClass,
  "node.pool": ({ pool }) => pool,
};

type Target = { readonly text: string } | ((node: NodeProperties) => string | undefined);

/** @returns an error message when the reference names nothing that a node has */
function readTarget(written: string): Target | string {
  const [, reference] = /^\$\{(.*)\}$/s.exec(written) ?? [];
  if (reference === undefined) return { text: written };
  const fact = Object.hasOwn(NODE_PROPERTIES, reference) ? NODE_PROPERTIES[reference] : undefined;
  if (fact) return fact;
  const [, map, key = ""] = /^(attr|meta)\.(.+)$/s.exec(reference) ?? [];
  if (map === undefined) return `${JSON.stringify(written.slice(0, 100))} refers to nothing that a node has`;
  return ({ attributes, meta }) => {
    const properties = map === "attr" ? attributes : meta;
    return Object.hasOwn(properties, key) ? properties[key] : undefined;
  };
}

interface Parts {
  readonly left: Target;
  readonly right: Target;
  readonly operator: Operator;
}

/** @returns all faults of an invalid constraint */
function read({ LTarget, Operand, RTarget }: Constraint): Parts | string[] {
  const operator = Object.hasOwn(OPERATORS, Operand) ? OPERATORS[Operand] : undefined;
  const left = readTarget(LTarget);
  const right = readTarget(RTarget);
  const wrong: string[] = [];
  if (Operand === "") wrong.push("missing constraint operand");
  else if (!operator) wrong.push(`unknown operator ${JSON.stringify(Operand.slice(0, 100))}`);
  if (operator?.right === "needed" && RTarget === "")
    wrong.push(`operator ${JSON.stringify(Operand)} requires an RTarget`);
  if (operator?.right === "none" && RTarget !== "") wrong.push(`operator ${JSON.stringify(Operand)} takes no RTarget`);
  if (LTarget === "") wrong.push("no attribute provided but is required by operator");
  for (const target of [left, right]) if (typeof target === "string") wrong.push(target);
  if (!operator || typeof left === "string" || typeof right === "string") return wrong;
  if (wrong.length === 0 && "text" in right) {
    const check = operator.compile(right.text);
    if (typeof check === "string") wrong.push(check);
  }
  return wrong.length === 0 ? { left, right, operator } : wrong;
}

/** The faults of a volume's constraint, as sentences; empty when valid (docs/internals/wire/volumes.md). */
export function constraintFaults(constraint: Constraint): string[] {
  if (BETWEEN_ALLOCATIONS.has(constraint.Operand)) return [];
  const parts = read(constraint);
  return Array.isArray(parts) ? parts : [];
}

/** The registry evaluates constraints on many nodes in one event; an adversarial operand makes each match slow. */
const MAX_PATTERNS = 8;

export const hasTooManyPatterns = (constraints: readonly Constraint[]): boolean =>
  constraints.filter(({ Operand }) => Operand === "regexp").length > MAX_PATTERNS;

export const TOO_MANY_PATTERNS = `at most ${MAX_PATTERNS} constraints may be regular expressions`;

export const isBetweenAllocations = ({ Operand }: Constraint): boolean => BETWEEN_ALLOCATIONS.has(Operand);

/** Returns a predicate: does a node satisfy all constraints? An invalid constraint is satisfied by no node. */
export function constraintsMet(constraints: readonly Constraint[]): (node: NodeProperties) => boolean {
  const checks = constraints.map((constraint) => {
    const parts = read(constraint);
    if (Array.isArray(parts)) return () => false;
    const { left, right, operator } = parts;
    const check = operator.compile("text" in right ? right.text : null);
    if (typeof check === "string") return () => false;
    if ("text" in left && "text" in right) {
      const holds = check(left.text, right.text);
      return () => holds;
    }
    const value = (target: Target, node: NodeProperties) => ("text" in target ? target.text : target(node));
    return (node: NodeProperties) => check(value(left, node), value(right, node));
  });
  return (node) => checks.every((check) => check(node));
}
