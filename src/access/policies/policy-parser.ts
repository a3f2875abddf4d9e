/**
 * The policy language: parses a document, or explains its refusal.
 *
 * A document holds path rules, cluster rules and volume rules, in HCL or JSON. Unknown words are refused by name: a
 * rule that silently has no effect is worse than one that cannot be written.
 */

import {
  FAMILIES,
  type Family,
  HOST_VOLUME_CAPABILITIES,
  HOST_VOLUME_POLICIES,
  type HostVolumeCapability,
  type Level,
  NAMESPACE_POLICIES,
  type NamedRule,
  type NamespaceCapability,
  type NamespaceRule,
  NODE_POOL_CAPABILITIES,
  NODE_POOL_POLICIES,
  type NodePoolCapability,
  OPERATOR_CAPABILITIES,
  SENTINEL_CAPABILITIES,
  VARIABLE_CAPABILITIES,
  type VariableCapability,
} from "../../contracts/cluster-rights.ts";
import {
  CAPABILITIES,
  type Capability,
  type ParameterRule,
  type ParameterValue,
  type PathRule,
  type Policy,
} from "../../contracts/policies.ts";
import { parseGoDuration } from "../../lib/go-duration.ts";
import { type HclMember, type HclObject, type HclValue, parseHcl, quote } from "../../lib/hcl.ts";
import { namespaceCapability } from "../../rights/cluster-rights.ts";
import { templateProblem } from "../paths/path-templates.ts";
import {
  type Block,
  blocks,
  DOCUMENT,
  fieldsOf,
  labelledBlocks,
  memberOf,
  type PolicyApi,
  Refusal,
  refuse,
  refusePath,
  text,
  texts,
  title,
} from "./policy-blocks.ts";
import { readVolumeRules } from "./volume-rules-document.ts";

type PolicyResult = { readonly ok: true; readonly policy: Policy } | { readonly ok: false; readonly message: string };

/**
 * Parses a policy document, HCL or JSON. An empty one grants nothing.
 * @param api the API that the document is written through, whose words a refusal uses
 */
export function parsePolicy(text: string, api: PolicyApi = "cluster"): PolicyResult {
  const parsed = parseHcl(text);
  if (!parsed.ok) {
    const { line, column, message } = parsed;
    const at = api === "secrets" ? `At ${line}:${column}` : `line ${line}, column ${column}`;
    const prefix = api === "secrets" ? "failed to parse policy" : "Failed to parse ACL Policy";
    return { ok: false, message: `${prefix}: ${at}: ${message}` };
  }
  try {
    return { ok: true, policy: readDocument(parsed.document) };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, message: error.textFor(api) };
    throw error;
  }
}

/** The name of the policy of wrapping tokens. It cannot be written, listed or assigned. */
export const WRAPPING_POLICY_NAME = "response-wrapping";

export const WRAPPING_POLICY = `# A wrapping token opens what it wraps.
path "cubbyhole/response" { capabilities = ["read"] }
path "sys/wrapping/lookup" { capabilities = ["update"] }
path "sys/wrapping/rewrap" { capabilities = ["update"] }
path "sys/wrapping/unwrap" { capabilities = ["update"] }
`;

/** Text of the built-in policy `default`: the rights of any token on itself. */
export const DEFAULT_POLICY = `# A token may look at itself, renew itself and give itself up,
path "auth/token/lookup-self" { capabilities = ["read"] }
path "auth/token/renew-self" { capabilities = ["update"] }
path "auth/token/revoke-self" { capabilities = ["update"] }

# ask what it may do,
path "sys/capabilities-self" { capabilities = ["update"] }
path "sys/internal/ui/resultant-acl" { capabilities = ["read"] }

# look at its own entity, by id or name,
path "identity/entity/id/{{identity.entity.id}}" { capabilities = ["read"] }
path "identity/entity/name/{{identity.entity.name}}" { capabilities = ["read"] }

# look up and renew a lease whose id it was given,
path "sys/renew" { capabilities = ["update"] }
path "sys/leases/renew" { capabilities = ["update"] }
path "sys/leases/lookup" { capabilities = ["update"] }

# keep things in a place of its own,
path "cubbyhole/*" { capabilities = ["create", "read", "update", "delete", "list"] }

# wrap answers, and open those that were wrapped for it,
path "sys/wrapping/wrap" { capabilities = ["update"] }
path "sys/wrapping/lookup" { capabilities = ["update"] }
path "sys/wrapping/unwrap" { capabilities = ["update"] }

# and use the hash tool.
path "sys/tools/hash" { capabilities = ["update"] }
path "sys/tools/hash/*" { capabilities = ["update"] }
`;

const PATH_POLICIES: ReadonlyMap<string, readonly Capability[]> = new Map([
  ["deny", ["deny"]],
  ["read", ["read", "list"]],
  ["write", ["create", "read", "update", "delete", "list"]],
  ["sudo", ["create", "read", "update", "delete", "list", "sudo"]],
]);

const COARSE_POLICIES: ReadonlyMap<string, readonly Level[]> = new Map([
  ["deny", ["deny"]],
  ["scale", ["scale"]],
  ["read", ["read"]],
  ["write", ["write"]],
]);
/** Plugins have no writable settings; `write` maps to the strongest level. */
const PLUGIN_POLICIES: ReadonlyMap<string, readonly Level[]> = new Map([
  ["deny", ["deny"]],
  ["list", ["list"]],
  ["read", ["read"]],
  ["write", ["read"]],
]);

/** How named blocks with capabilities are parsed. */
interface NamedKind<Word extends string> {
  readonly name: RegExp;
  readonly nameRule: string;
  readonly keys: readonly string[];
  readonly policies: ReadonlyMap<string, readonly Word[]>;
  readonly capability: (word: string) => Word | undefined;
}

const NAME = { name: /^[a-zA-Z0-9*-]{1,128}$/, nameRule: "1 to 128 letters, digits, - or *" };
const NODE_POOL_NAME = { name: /^[a-zA-Z0-9*_-]{1,128}$/, nameRule: "1 to 128 letters, digits, -, _ or *" };
const NAMESPACE: NamedKind<NamespaceCapability> = {
  ...NAME,
  keys: ["policy", "capabilities", "variables"],
  policies: NAMESPACE_POLICIES,
  capability: namespaceCapability,
};
const HOST_VOLUME: NamedKind<HostVolumeCapability> = {
  ...NAME,
  keys: ["policy", "capabilities"],
  policies: HOST_VOLUME_POLICIES,
  capability: oneOf(HOST_VOLUME_CAPABILITIES),
};
const NODE_POOL: NamedKind<NodePoolCapability> = {
  ...NODE_POOL_NAME,
  keys: ["policy", "capabilities"],
  policies: NODE_POOL_POLICIES,
  capability: oneOf(NODE_POOL_CAPABILITIES),
};

function readDocument(document: HclObject): Policy {
  const top = { kind: DOCUMENT, label: undefined, line: 1, members: document.members };
  // Older tools write a `name` at the top. It is ignored: a policy is stored under the name of its path.
  const fields = fieldsOf(top, ["name", "path", "namespace", "host_volume", "node_pool", "volume_rule", ...FAMILIES]);
  const levels: { [family in Family]?: Level } = {};
  for (const family of FAMILIES) {
    const level = readLevel(fields(family).flatMap(blocks));
    if (level !== undefined) levels[family] = level;
  }
  const labelled = (name: string) => fields(name).flatMap(labelledBlocks);
  const volumeRules = readVolumeRules(labelled("volume_rule"));
  return {
    ...(volumeRules.length > 0 && { volumeRules }),
    paths: labelled("path").map(readPath),
    cluster: {
      namespaces: labelled("namespace").map(readNamespace),
      hostVolumes: labelled("host_volume").map((block) => readNamed(block, HOST_VOLUME)),
      nodePools: labelled("node_pool").map((block) => readNamed(block, NODE_POOL)),
      operatorCapabilities: fields("operator")
        .flatMap(blocks)
        .flatMap((block) => readCapabilities(block, oneOf(OPERATOR_CAPABILITIES))),
      levels,
    },
  };
}

/** Keys of upstream that narrow a rule, and have no effect here. */
const NARROWING = ["mfa_methods", "control_group", "expiration", "list_scan_response_keys_filter_path"] as const;

function readPath(block: Block): PathRule {
  const fields = fieldsOf(block, [
    "comment",
    "policy",
    "capabilities",
    "allowed_parameters",
    "denied_parameters",
    "required_parameters",
    "min_wrapping_ttl",
    "max_wrapping_ttl",
    "pagination_limit",
    "subscribe_event_types",
    ...NARROWING,
  ]);
  if (block.label === undefined) refuse("Invalid policy: a path block needs a pattern", block);
  const at = title(block);
  if (block.label.includes("+*")) refusePath(`${at}: invalid use of wildcards ('+*' is forbidden)`);
  const problem = templateProblem(block.label);
  if (problem !== null) refusePath(`failed to validate policy templating: ${at}: ${problem}`);
  const narrowing = NARROWING.find((key) => memberOf(block, key));
  if (narrowing !== undefined) {
    refusePath(`${at}: ${narrowing} is not supported, and without it the rule would allow more than it says`);
  }
  const capabilities = new Set<Capability>([
    ...readPolicyWord(block, PATH_POLICIES),
    ...readCapabilities(block, oneOf(CAPABILITIES)),
  ]);
  const allowedParameters = readParameters(block, fields("allowed_parameters"));
  const deniedParameters = readParameters(block, fields("denied_parameters"));
  const requiredParameters = texts(memberOf(block, "required_parameters")).map((name) => name.toLowerCase());
  const subscribeEventTypes = texts(memberOf(block, "subscribe_event_types"));
  const minWrappingTtl = readSeconds(block, "min_wrapping_ttl");
  const maxWrappingTtl = readSeconds(block, "max_wrapping_ttl");
  if (maxWrappingTtl > 0 && minWrappingTtl > maxWrappingTtl) {
    refusePath(`${at}: max_wrapping_ttl cannot be less than min_wrapping_ttl`);
  }
  const paginationLimit = readCount(block, "pagination_limit");
  return {
    path: block.label.startsWith("/") ? block.label.slice(1) : block.label,
    capabilities: capabilities.has("deny") ? ["deny"] : [...capabilities].sort(),
    ...(allowedParameters.length > 0 && { allowedParameters }),
    ...(deniedParameters.length > 0 && { deniedParameters }),
    ...(requiredParameters.length > 0 && { requiredParameters }),
    ...(minWrappingTtl > 0 && { minWrappingTtl }),
    ...(maxWrappingTtl > 0 && { maxWrappingTtl }),
    ...(paginationLimit > 0 && { paginationLimit }),
    ...(subscribeEventTypes.length > 0 && { subscribeEventTypes }),
  };
}

function readParameters(block: Block, members: readonly HclMember[]): ParameterRule[] {
  const rules = new Map<string, ParameterRule>();
  for (const parameter of members.flatMap(blocks).flatMap((each) => each.members)) {
    const name = parameter.name.toLowerCase();
    if (!Array.isArray(parameter.value))
      refuse(`Invalid policy: the values of ${quote(name)} must be a list`, parameter);
    if (rules.has(name)) refuse(`Invalid or duplicate policy keys: parameter ${quote(name)} stands twice`, parameter);
    const values = parameter.value.map((value) => parameterValue(value, parameter));
    // The meaning of values for "all other parameters" differs between tools, so they are refused.
    if (name === "*" && values.length > 0) refuse(`Invalid policy: "*" in ${title(block)} takes no values`, parameter);
    rules.set(name, { name, values });
  }
  return [...rules.values()];
}

function parameterValue(value: HclValue, parameter: HclMember): ParameterValue {
  if (Array.isArray(value)) return value.map((element) => parameterValue(element, parameter));
  if (value !== null && typeof value === "object") {
    refuse(`Invalid policy: a value of ${quote(parameter.name)} must be a text, number, boolean or list`, parameter);
  }
  return value;
}

function readNamespace(block: Block): NamespaceRule {
  const rule = readNamed(block, NAMESPACE);
  const paths = block.members
    .filter((member) => member.name === "variables")
    .flatMap(blocks)
    .flatMap((variables) => fieldsOf(variables, ["path"])("path").flatMap(labelledBlocks))
    .map((block) => ({ ...block, kind: "variables path" }));
  return { ...rule, variables: paths.map(readVariables) };
}

function readVariables(block: Block): NamedRule<VariableCapability> {
  fieldsOf(block, ["capabilities"]);
  if (!block.label) refuse("Invalid policy: a path block under variables needs a path", block);
  return { name: block.label, capabilities: readCapabilities(block, oneOf(VARIABLE_CAPABILITIES)) };
}

function readNamed<Word extends string>(block: Block, kind: NamedKind<Word>): NamedRule<Word> {
  fieldsOf(block, kind.keys);
  const name = block.label ?? "";
  if (!kind.name.test(name)) refuse(`Invalid ${block.kind} name: ${quote(name)} must be ${kind.nameRule}`, block);
  const capabilities = [...readPolicyWord(block, kind.policies), ...readCapabilities(block, kind.capability)];
  return { name, capabilities: [...new Set(capabilities)].sort() };
}

/** Parses the level of a family, which occurs at most once in a document. */
function readLevel([block, second]: readonly Block[]): Level | undefined {
  if (block === undefined) return undefined;
  if (second !== undefined) refuse(`Invalid or duplicate policy keys: ${quote(second.kind)} stands twice`, second);
  const isFine = block.kind === "operator" || block.kind === "sentinel";
  fieldsOf(block, isFine ? ["policy", "capabilities"] : ["policy"]);
  // Capabilities of sentinel grant nothing here, and the policy shows them in its text.
  if (block.kind === "sentinel") readCapabilities(block, oneOf(SENTINEL_CAPABILITIES));
  const [level] = readPolicyWord(block, block.kind === "plugin" ? PLUGIN_POLICIES : COARSE_POLICIES);
  if (level === undefined && !isFine) refuse(`Invalid policy: ${block.kind} needs a policy`, block);
  return level;
}

function readPolicyWord<Word extends string>(
  block: Block,
  policies: ReadonlyMap<string, readonly Word[]>,
): readonly Word[] {
  const policy = memberOf(block, "policy");
  if (policy === undefined) return [];
  const word = text(policy);
  if (word === "") return [];
  return policies.get(word) ?? refuseWord(block, "policy", word, policy);
}

function readCapabilities<Word extends string>(block: Block, known: (word: string) => Word | undefined): Word[] {
  const member = memberOf(block, "capabilities");
  return texts(member).map((word) => known(word) ?? refuseWord(block, "capability", word, member ?? block));
}

function refuseWord(
  block: Block,
  what: "policy" | "capability",
  word: string,
  where: { readonly line: number },
): never {
  if (block.kind === "path") refusePath(`${title(block)}: invalid ${what} ${quote(word)}`);
  return refuse(`Invalid policy: unknown ${what} ${quote(word)} in ${title(block)}`, where);
}

function oneOf<Word extends string>(words: readonly Word[]): (word: string) => Word | undefined {
  return (word) => words.find((each) => each === word);
}

/** A duration in seconds, rounded up: a number, or a text such as `90`, `15m`, `1h30m` or `2d`; 0 = none. */
function readSeconds(block: Block, name: "min_wrapping_ttl" | "max_wrapping_ttl"): number {
  const member = memberOf(block, name);
  if (member === undefined || member.value === "") return 0;
  const written = typeof member.value === "number" ? String(member.value) : text(member);
  const days = /^(\d{1,6})d$/.exec(written)?.[1];
  const ms = parseGoDuration(
    days === undefined ? (/^\d{1,12}$/.test(written) ? `${written}s` : written) : `${Number(days) * 24}h`,
  );
  if (ms === null || ms < 0) {
    refusePath(`${title(block)}: error parsing ${name}: must be a length of time such as 15m`);
  }
  return Math.ceil(ms / 1000);
}

/** A whole number; 0 without one. */
function readCount(block: Block, name: "pagination_limit"): number {
  const member = memberOf(block, name);
  if (member === undefined) return 0;
  const written = typeof member.value === "string" ? Number(member.value || "0") : member.value;
  if (typeof written !== "number" || !Number.isSafeInteger(written) || written < 0) {
    refusePath(`${title(block)}: ${name}: must be a number, 0 or more`);
  }
  return written;
}
