import type { GoverningRule, VolumeRule } from "../../contracts/policies.ts";
import { readPattern } from "../../lib/bexpr/pattern.ts";
import { matchesGlob } from "../../lib/glob.ts";
import { only } from "../../lib/only.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";

/**
 * Volume rules: requirements of policies on every volume, including those of management tokens
 * (docs/reference/volume-rules.md). The check is a pure function.
 */

/** Properties of a volume that rules check, for volumes of any type. */
export interface VolumeProperties {
  readonly name: string;
  readonly namespace: string;
  /** Empty for volumes without a plugin; rules about plugins then do not apply. */
  readonly pluginId: string;
  /** Maximum capacity in bytes; 0 if not given. */
  readonly capacityMax: number;
  /** Empty for any pool; null if pools do not apply. */
  readonly nodePool: string | null;
}

/** Whether a rule applies to the volumes of a namespace. */
export const governs = ({ namespaces }: VolumeRule, namespace: string): boolean =>
  namespaces?.some((glob) => matchesGlob(namespace, glob)) ?? true;

/**
 * Checks a volume against the rules of its namespace.
 * @param override soft rules only warn
 * @returns warnings; or "denied" with policy, rule and requirement
 */
export function checkVolume(
  rules: readonly GoverningRule[],
  volume: VolumeProperties,
  override: boolean,
): Result<readonly string[]> {
  const broken = rules
    .filter((rule) => governs(rule, volume.namespace))
    .map((rule) => ({ rule, asked: brokenBy(rule, volume) }))
    .filter(({ asked }) => asked.length > 0);
  const passes = ({ enforcement }: VolumeRule) =>
    enforcement === "advisory" || (enforcement === "soft-mandatory" && override);
  const denying = broken.filter(({ rule }) => !passes(rule));
  if (denying.length > 0) return refuse("denied", `volume denied: ${few(denying.map(said), "; ")}`);
  return ok(broken.map(said));
}

const said = ({ rule, asked }: { readonly rule: GoverningRule; readonly asked: readonly string[] }): string =>
  `policy ${quoted(rule.policy)}, rule ${quoted(rule.name)} (${rule.enforcement}): ${asked.join(" and ")}`;

/** The requirements of a rule that a volume does not meet. */
function brokenBy(rule: VolumeRule, { name, pluginId, capacityMax, nodePool }: VolumeProperties): string[] {
  const { plugins, namePattern, maxCapacity, nodePools } = rule;
  const asked: string[] = [];
  if (plugins && pluginId !== "" && !plugins.includes(pluginId)) asked.push(`plugin must be ${oneOf(plugins)}`);
  if (namePattern !== undefined && !matches(name, namePattern)) asked.push(`name must match ${namePattern}`);
  // Without a maximum, the volume may grow beyond the rule's limit.
  if (maxCapacity !== undefined && (capacityMax === 0 || capacityMax > maxCapacity))
    asked.push(`capacity_max must be given, and at most ${maxCapacity} bytes`);
  if (nodePools && nodePool !== null && !nodePools.includes(nodePool))
    asked.push(`node pool must be ${oneOf(nodePools)}${nodePool === "" ? ", by its name or that of a node" : ""}`);
  return asked;
}

/** The pattern was validated when the policy was written. */
function matches(name: string, pattern: string): boolean {
  const compiled = readPattern(pattern);
  return typeof compiled === "object" && compiled.found(name);
}

const MAX_LISTED = 20;
const quoted = JSON.stringify;

const few = (words: readonly string[], separator: string): string =>
  words.length <= MAX_LISTED
    ? words.join(separator)
    : [...words.slice(0, MAX_LISTED), `and ${words.length - MAX_LISTED} more`].join(separator);

const oneOf = (words: readonly string[]): string => {
  const names = words.map((word) => quoted(word));
  return only(names) ?? `one of ${few(names, ", ")}`;
};
