import { createHash } from "node:crypto";
import type { NewEvent } from "../../contracts/event.ts";
import type { AclPolicy, AclRules, JobAcl, NamedRules, Policy } from "../../contracts/policies.ts";
import { type AclRoleLink, type AclToken, ANONYMOUS } from "../../contracts/tokens.ts";
import { goDuration } from "../../lib/go-duration.ts";
import { accessAccount } from "../../publishing/event-accounts.ts";
import type { PolicyRow } from "../policies/policy-store.ts";
import { policiesOf, type TokenRow } from "../tokens/token.ts";

/*
 * Views of tokens and policies in the cluster API, and their events
 * (https://developer.hashicorp.com/nomad/api-docs/acl/tokens). All keys are always present; an index is null until the
 * event log assigns it.
 */

/** Seconds as upstream writes a duration; empty for none. */
export const durationText = (seconds: number): string => (seconds === 0 ? "" : goDuration(seconds));

/** The `Hash` of an object: it changes with any of the parts. */
export const digest = (...parts: string[]): string => createHash("sha256").update(parts.join("\0")).digest("base64");

/** @param roles the roles of the token that exist; by default their ids as stored */
export function aclToken(row: TokenRow, secret = "", roles: readonly AclRoleLink[] = storedRoles(row)): AclToken {
  const policies = policiesOf(row);
  const management = policies.includes("root");
  return {
    AccessorID: row.accessor,
    CreateIndex: row.create_index,
    CreateTime: new Date(row.created).toISOString(),
    ExpirationTTL: durationText(row.ttl),
    ExpirationTime: row.expires === null ? null : new Date(row.expires).toISOString(),
    Global: row.global === 1,
    Hash: digest(row.name, row.policies, String(row.global), ...(row.roles === null ? [] : [row.roles])),
    ModifyIndex: row.modify_index,
    Name: row.name,
    Policies: management ? null : policies,
    Roles: roles,
    SecretID: secret,
    Type: management ? "management" : "client",
  };
}

/** The token of requests without one, as upstream shows it. */
export const ANONYMOUS_TOKEN: AclToken = {
  AccessorID: ANONYMOUS,
  CreateIndex: 0,
  CreateTime: "0001-01-01T00:00:00Z",
  ExpirationTTL: "",
  ExpirationTime: null,
  Global: false,
  Hash: digest("Anonymous Token", ANONYMOUS),
  ModifyIndex: 0,
  Name: "Anonymous Token",
  Policies: [ANONYMOUS],
  Roles: [],
  SecretID: "",
  Type: "client",
};

const storedRoles = ({ roles }: TokenRow): AclRoleLink[] =>
  roles === null ? [] : (JSON.parse(roles) as string[]).map((ID) => ({ ID, Name: "" }));

/** Null for an empty list, as upstream writes it. */
export const orNull = <T>(list: readonly T[]): readonly T[] | null => (list.length > 0 ? list : null);

function aclRules({ parsed, text }: PolicyRow): AclRules | null {
  if (parsed === "") return null;
  const {
    namespaces,
    hostVolumes,
    nodePools = [],
    operatorCapabilities = [],
    levels,
  } = (JSON.parse(parsed) as Policy).cluster;
  const named = ({ name, capabilities }: { name: string; capabilities: readonly string[] }): NamedRules => ({
    Name: name,
    Policy: "",
    Capabilities: capabilities,
  });
  const family = (level: string | undefined) => (level === undefined ? null : { Policy: level });
  const variables = (rules: readonly { name: string; capabilities: readonly string[] }[]) =>
    rules.length === 0
      ? null
      : { Paths: rules.map(({ name, capabilities }) => ({ PathSpec: name, Capabilities: capabilities })) };
  const operates = levels.operator !== undefined || operatorCapabilities.length > 0;
  return {
    Namespaces: orNull(namespaces.map((rule) => ({ ...named(rule), Variables: variables(rule.variables) }))),
    NodePools: orNull(nodePools.map(named)),
    HostVolumes: orNull(hostVolumes.map(named)),
    Agent: family(levels.agent),
    Node: family(levels.node),
    Operator: operates ? { Policy: levels.operator ?? "", Capabilities: operatorCapabilities } : null,
    Quota: family(levels.quota),
    Plugin: family(levels.plugin),
    Raw: text,
  };
}

export const aclPolicy = (row: PolicyRow): AclPolicy => ({
  CreateIndex: row.create_index,
  Description: row.description,
  Hash: digest(row.name, row.description, row.text, ...(row.job_acl === null ? [] : [row.job_acl])),
  JobACL: row.job_acl === null ? null : (JSON.parse(row.job_acl) as JobAcl),
  ModifyIndex: row.modify_index,
  Name: row.name,
  Rules: row.text,
  RulesJSON: aclRules(row),
});

/** An event of the cluster API, whose payload is named like its topic. */
export const clusterEvent = (
  Topic: string,
  Type: string,
  Key: string,
  namespace: string,
  object: object,
): NewEvent => ({
  Topic,
  Type,
  Key,
  Namespace: "",
  FilterKeys: null,
  Account: accessAccount(namespace),
  Payload: { [Topic]: object },
});

export const tokenUpserted = (row: TokenRow, roles?: readonly AclRoleLink[]): NewEvent =>
  clusterEvent("ACLToken", "ACLTokenUpserted", row.accessor, row.namespace, {
    ...aclToken(row, "", roles),
    ModifyIndex: null,
  });
export const tokenDeleted = (row: TokenRow): NewEvent =>
  clusterEvent("ACLToken", "ACLTokenDeleted", row.accessor, row.namespace, aclToken(row));

/** The key of a policy's events. */
export const policyKey = (row: Pick<PolicyRow, "namespace" | "name">): string => row.namespace + row.name;
/**
 * View of a policy in events. Below the root namespace it omits the text, because readers of the stream have no rights
 * there.
 */
const eventPolicy = (row: PolicyRow): AclPolicy => ({
  ...aclPolicy(row),
  ...(row.namespace !== "" && { Description: "", Rules: "" }),
  RulesJSON: null,
  Name: policyKey(row),
});
export const policyUpserted = (row: PolicyRow): NewEvent =>
  clusterEvent("ACLPolicy", "ACLPolicyUpserted", policyKey(row), row.namespace, {
    ...eventPolicy(row),
    ModifyIndex: null,
  });
export const policyDeleted = (row: PolicyRow): NewEvent =>
  clusterEvent("ACLPolicy", "ACLPolicyDeleted", policyKey(row), row.namespace, eventPolicy(row));

/**
 * TTL of a new token in seconds; 0 for none, null if `time` is not in the future. As upstream, a time overrides a TTL.
 */
export function expirationSeconds(
  ttl: number | null | undefined,
  time: string | null | undefined,
  now: number,
): number | null {
  if (time === null || time === undefined) return ttl ?? 0;
  const at = Date.parse(time);
  return Number.isNaN(at) || at <= now ? null : Math.ceil((at - now) / 1000);
}
