import type { Result } from "../lib/result.ts";
import type * as schemas from "../wire/acl.ts";
import type { Wire } from "../wire/infer.ts";
import type { ClusterRules } from "./cluster-rights.ts";
import type { Located } from "./namespaces.ts";
import type { Written } from "./rows.ts";

export type Capability = (typeof CAPABILITIES)[number];

export const CAPABILITIES = [
  "create",
  "delete",
  "deny",
  "list",
  "patch",
  "read",
  "recover",
  "scan",
  "subscribe",
  "sudo",
  "update",
] as const;

/** Constraints on the parameters of a request. */
export interface ParameterConstraints {
  readonly allowedParameters?: readonly ParameterRule[];
  readonly deniedParameters?: readonly ParameterRule[];
  readonly requiredParameters?: readonly string[];
  /** Seconds. */
  readonly minWrappingTtl?: number;
  /** Seconds. */
  readonly maxWrappingTtl?: number;
  /** The most keys that a list returns. */
  readonly paginationLimit?: number;
  /** Types of upstream's own events; kept and shown, because the event stream here asks for `read` or `list`. */
  readonly subscribeEventTypes?: readonly string[];
}

/** Allowed or denied values of one parameter; none = any value. The name is lower case, or `*` for all others. */
export interface ParameterRule {
  readonly name: string;
  readonly values: readonly ParameterValue[];
}

export type ParameterValue = string | number | boolean | null | readonly ParameterValue[];

/** One `path` block. The pattern has no leading slash; `deny` stands alone. */
export interface PathRule extends ParameterConstraints {
  readonly path: string;
  readonly capabilities: readonly Capability[];
}

/** A parsed policy: plain data that can be stored and sent. */
export interface Policy {
  readonly paths: readonly PathRule[];
  readonly cluster: ClusterRules;
  /** Rules on volumes of all callers. */
  readonly volumeRules?: readonly VolumeRule[];
}

/** One `volume_rule` block. An absent field is no constraint. */
export interface VolumeRule {
  readonly name: string;
  readonly enforcement: Enforcement;
  /** Globs; absent = all. */
  readonly namespaces?: readonly string[];
  readonly plugins?: readonly string[];
  /** A regular expression in RE2's syntax, found anywhere in the name. */
  readonly namePattern?: string;
  /** In bytes. */
  readonly maxCapacity?: number;
  readonly nodePools?: readonly string[];
}

export type Enforcement = (typeof ENFORCEMENTS)[number];

/** `advisory` only warns, `soft-mandatory` may be overridden, `hard-mandatory` may not. */
export const ENFORCEMENTS = ["advisory", "soft-mandatory", "hard-mandatory"] as const;

/** A rule and the name of its policy. */
export interface GoverningRule extends VolumeRule {
  readonly policy: string;
}

/** The cluster rules of a policy, with `policy` levels expanded to capabilities. */
export interface AclRules {
  readonly Namespaces: readonly (NamedRules & { readonly Variables: object | null })[] | null;
  readonly NodePools: readonly NamedRules[] | null;
  readonly HostVolumes: readonly NamedRules[] | null;
  readonly Agent: { readonly Policy: string } | null;
  readonly Node: { readonly Policy: string } | null;
  readonly Operator: { readonly Policy: string; readonly Capabilities: readonly string[] } | null;
  readonly Quota: { readonly Policy: string } | null;
  readonly Plugin: { readonly Policy: string } | null;
  readonly Raw: string;
}

export interface NamedRules {
  readonly Name: string;
  readonly Policy: "";
  readonly Capabilities: readonly string[];
}

export interface AclPolicy extends Wire<typeof schemas.AclPolicyStub> {
  readonly Rules: string;
  /** The parsed rules; null on the event stream. */
  readonly RulesJSON: AclRules | null;
}

export type JobAcl = Wire<typeof schemas.JobAcl>;

/** Attributes of a policy besides its document. */
export interface PolicyAttributes {
  readonly description: string;
  readonly jobAcl: JobAcl | null;
}

/** The namespace of a new volume. */
export interface VolumeNamespace {
  readonly id: string;
  readonly rules: readonly GoverningRule[];
}

/** A policy that is not written yet. */
export interface PolicyTrial {
  readonly namespace: string;
  /** The stored policy that the text replaces; null for a new one. */
  readonly name: string | null;
  readonly text: string;
  /** The token that has the policy; null judges the policy alone. */
  readonly accessor: string | null;
  readonly paths: readonly string[];
  /** Judged at the moment of the trial. */
  readonly rights: readonly TrialRight[];
}

/** An authorized caller and the further capabilities it needs on a path. */
export interface TrialRight extends Located {
  /** The caller, from the answer of `authorize`. */
  readonly accessor: string;
  /** All required capabilities. */
  readonly needs: readonly Capability[];
  /** The request's parameters. */
  readonly given: Readonly<Record<string, unknown>>;
}

export interface TriedCapabilities {
  readonly before: (Capability | "root")[];
  readonly after: (Capability | "root")[];
}

/** The methods of `AccessControl` about policies. */
export interface PoliciesApi {
  /** @param attributes absent: unchanged */
  putPolicy(namespace: string, name: string, text: string, attributes?: PolicyAttributes): Promise<Result<Written>>;
  readPolicy(namespace: string, name: string): Result<{ name: string; text: string }>;
  policyNames(namespace: string): string[];
  /** Returns the capabilities on paths without and with a policy that is not written, to a caller with the rights. */
  tryPolicy(trial: PolicyTrial): Result<Record<string, TriedCapabilities>>;
  /** Returns the policies of the root namespace as cluster routes show them, all or by name. */
  clusterPolicies(names: readonly string[] | null, prefix: string): AclPolicy[];
  /** Returns the volume rules of all policies; called by Workers of version 0.1.0. */
  volumeRules(): GoverningRule[];
  /** Returns the id of a flat namespace, and the volume rules that govern it for every caller. */
  volumeNamespace(name: string): Result<VolumeNamespace>;
  deletePolicy(namespace: string, name: string): Promise<Result<Written & { existed: boolean }>>;
}
