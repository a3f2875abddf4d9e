import {
  type ClusterRights,
  type ClusterRules,
  FAMILIES,
  type Family,
  type Grantable,
  type HostVolumeCapability,
  LEVELS,
  type Level,
  NAMESPACE_CAPABILITIES,
  type NamedRule,
  type NamespaceCapability,
  type NamespaceRight,
  type NamespaceRule,
  type NodePoolCapability,
  type OperatorCapability,
  type VariableCapability,
} from "../contracts/cluster-rights.ts";
import { matchesGlob } from "../lib/glob.ts";

/** Capabilities that imply others. */
type Implied<Capability extends string> = ReadonlyMap<Capability, readonly Capability[]>;

const IMPLIED_IN_NAMESPACE: Implied<NamespaceCapability> = new Map([
  ["host-volume-write", ["host-volume-register", "host-volume-create", "host-volume-delete", "host-volume-read"]],
  ["host-volume-register", ["host-volume-create", "host-volume-read"]],
  ["host-volume-create", ["host-volume-read"]],
]);

const IMPLIED_FOR_VARIABLES: Implied<VariableCapability> = new Map([["read", ["list"]]]);

const IMPLIED_FOR_MOUNTS: Implied<HostVolumeCapability> = new Map([["mount-readwrite", ["mount-readonly"]]]);

/** Any of them: a namespace is visible to holders of one. */
export const ANY_CAPABILITY: readonly NamespaceRight[] = NAMESPACE_CAPABILITIES.filter(
  (capability) => capability !== "deny",
);

/** Resolves a capability by name or alias; undefined when unknown. */
export function namespaceCapability(word: string): NamespaceCapability | undefined {
  const bare = word.startsWith("namespace:") ? word.slice("namespace:".length) : word;
  const neutral = bare === "sentinel-override" ? "policy-override" : bare;
  return NAMESPACE_CAPABILITIES.find((capability) => capability === neutral);
}

/**
 * Merges the rules of a token's policies. Rules of one name are united, and `deny` overrides; of coarse levels the
 * strongest wins, with deny as the strongest.
 */
export function mergeClusterRules(policies: readonly ClusterRules[]): ClusterRights {
  const namespaces = policies.flatMap((policy) => policy.namespaces);
  const byName = Map.groupBy(namespaces, ({ name }) => name);
  const levels: { [family in Family]?: Level } = {};
  for (const family of FAMILIES) {
    const strongest = LEVELS.findLast((level) => policies.some((policy) => policy.levels[family] === level));
    if (strongest !== undefined) levels[family] = strongest;
  }
  return {
    management: false,
    namespaces: mergeNamed(namespaces, IMPLIED_IN_NAMESPACE).map(({ name, capabilities }) => {
      const variables = (byName.get(name) ?? []).flatMap((rule) => rule.variables);
      return { name, capabilities, variables: mergeNamed(variables, IMPLIED_FOR_VARIABLES) };
    }),
    hostVolumes: mergeNamed(
      policies.flatMap((policy) => policy.hostVolumes),
      IMPLIED_FOR_MOUNTS,
    ),
    nodePools: mergeNamed(policies.flatMap((policy) => policy.nodePools)),
    operatorCapabilities: expand(policies.flatMap((policy) => policy.operatorCapabilities)),
    levels,
  };
}

/** Whether there is any rule, also one that denies. */
export const hasClusterRules = (rules: ClusterRules): boolean =>
  Object.keys(rules.levels).length > 0 ||
  [rules.namespaces, rules.hostVolumes, rules.nodePools, rules.operatorCapabilities].some((some) => some.length > 0);

/** Whether a token holds the capability, or any of several, in one namespace. For `*` see below. */
export function allowsNamespace(
  rights: ClusterRights,
  namespace: string,
  capability: NamespaceRight | readonly NamespaceRight[],
): boolean {
  return rights.management || grantsAny(closest(rights.namespaces, namespace), capability);
}

/**
 * Whether a token holds any of the capabilities in any namespace: the check of lists with `namespace=*`, which then
 * filter by {@link allowsNamespace} per item.
 */
export function allowsNamespaceAny(rights: ClusterRights, capabilities: readonly NamespaceRight[]): boolean {
  return rights.management || rights.namespaces.some((rule) => grantsAny(rule, capabilities));
}

/** Whether any variable rule applies in the namespace: required for subscriptions to variables. */
export function hasVariableRules(rights: ClusterRights, namespace: string): boolean {
  if (rights.management) return true;
  const rule = closest(rights.namespaces, namespace);
  return rule !== undefined && !rule.capabilities.includes("deny") && rule.variables.length > 0;
}

/** Whether a token holds the capability on one variable. */
export function allowsVariable(
  rights: ClusterRights,
  namespace: string,
  path: string,
  capability: Grantable<VariableCapability>,
): boolean {
  if (rights.management) return true;
  const rule = closest(rights.namespaces, namespace);
  if (rule === undefined || rule.capabilities.includes("deny")) return false;
  return closest(rule.variables, path)?.capabilities.includes(capability) ?? false;
}

/** Whether a job of the token may mount a host volume of that name. */
export function allowsHostVolume(
  rights: ClusterRights,
  name: string,
  capability: Grantable<HostVolumeCapability>,
): boolean {
  return rights.management || (closest(rights.hostVolumes, name)?.capabilities.includes(capability) ?? false);
}

/** Whether a token may read, write or delete a node pool. */
export function allowsNodePool(
  rights: ClusterRights,
  name: string,
  capability: Grantable<NodePoolCapability>,
): boolean {
  return rights.management || (closest(rights.nodePools, name)?.capabilities.includes(capability) ?? false);
}

/** Whether a token may read or change nodes. */
export function allowsNode(rights: ClusterRights, level: "read" | "write"): boolean {
  return allowsLevel(rights, "node", level);
}

/** Whether a token may list plugins, or read one. */
export function allowsPlugin(rights: ClusterRights, level: "list" | "read"): boolean {
  return allowsLevel(rights, "plugin", level);
}

/** Whether a token may read or change agents. */
export function allowsAgent(rights: ClusterRights, level: "read" | "write"): boolean {
  return allowsLevel(rights, "agent", level);
}

/** Whether a token has operator rights; write implies every capability, read implies reading the licence. */
export function allowsOperator(
  rights: ClusterRights,
  wanted: "read" | "write" | Grantable<OperatorCapability>,
): boolean {
  if (rights.management) return true;
  if (rights.operatorCapabilities.includes("deny")) return false;
  if (wanted === "read" || wanted === "write") return allowsLevel(rights, "operator", wanted);
  if (allowsLevel(rights, "operator", wanted === "license-read" ? "read" : "write")) return true;
  return rights.levels.operator !== "deny" && rights.operatorCapabilities.includes(wanted);
}

/** Capabilities of a token in one namespace, and on agents, nodes, operators and plugins, as routes name them. */
export function ownCapabilities(rights: ClusterRights, namespace: string): string[] {
  const levels = [
    ...(["read", "write"] as const).flatMap((level) => [
      allowsAgent(rights, level) && `agent:${level}`,
      allowsNode(rights, level) && `node:${level}`,
      allowsOperator(rights, level) && `operator:${level}`,
    ]),
    ...(["list", "read"] as const).map((level) => allowsPlugin(rights, level) && `plugin:${level}`),
  ].filter((word) => word !== false);
  const named = ANY_CAPABILITY.filter((word) => allowsNamespace(rights, namespace, word));
  return [...(rights.management ? ["management"] : []), ...levels.sort(), ...named.map((word) => `namespace:${word}`)];
}

function allowsLevel(rights: ClusterRights, family: Family, wanted: Exclude<Level, "deny">): boolean {
  if (rights.management) return true;
  const held = rights.levels[family];
  return held !== undefined && held !== "deny" && LEVELS.indexOf(held) >= LEVELS.indexOf(wanted);
}

function grantsAny(rule: NamespaceRule | undefined, wanted: NamespaceRight | readonly NamespaceRight[]): boolean {
  return [wanted].flat().some((word) => {
    const capability = namespaceCapability(word);
    return capability !== undefined && (rule?.capabilities.includes(capability) ?? false);
  });
}

/**
 * Selects the rule for a name: the exact rule, else the glob whose stars match the fewest characters. Of equally close
 * globs a denying one wins, else the alphabetically first.
 */
function closest<Rule extends NamedRule<string>>(rules: readonly Rule[], name: string): Rule | undefined {
  // Object names contain no star; the request `*` must not select the rule `*`.
  if (name.includes("*")) return undefined;
  let best: Rule | undefined;
  let fewest = Number.POSITIVE_INFINITY;
  for (const rule of rules) {
    if (rule.name === name) return rule;
    const stars = rule.name.split("*").length - 1;
    const left = name.length - rule.name.length + stars;
    if (stars === 0 || left > fewest || !matchesGlob(name, rule.name)) continue;
    if (left < fewest || (left === fewest && rule.capabilities.includes("deny"))) {
      best = rule;
      fewest = left;
    }
  }
  return best;
}

function mergeNamed<Capability extends string>(
  rules: readonly NamedRule<Capability>[],
  implied?: Implied<Capability>,
): NamedRule<Capability>[] {
  return [...Map.groupBy(rules, ({ name }) => name)]
    .map(([name, same]) => ({
      name,
      capabilities: expand(
        same.flatMap(({ capabilities }) => capabilities),
        implied,
      ),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Expands implied capabilities; `deny` replaces all others. */
function expand<Capability extends string>(
  capabilities: readonly Capability[],
  implied?: Implied<Capability>,
): Capability[] {
  const all = [...new Set(capabilities.flatMap((capability) => [capability, ...(implied?.get(capability) ?? [])]))];
  return all.some((capability) => capability === "deny") ? all.filter((each) => each === "deny") : all.sort();
}
