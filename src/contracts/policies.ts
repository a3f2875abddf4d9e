import type { ClusterRules } from "./cluster-rights.ts";
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

/** What a request to a path may carry, beside the right to make it. */
export interface ParameterConstraints {
  readonly allowedParameters?: readonly ParameterRule[];
  readonly deniedParameters?: readonly ParameterRule[];
  readonly requiredParameters?: readonly string[];
  /** Seconds. */
  readonly minWrappingTtl?: number;
  /** Seconds. */
  readonly maxWrappingTtl?: number;
}

/** Values named for one parameter; none means any value. The name is lower case, or `*` for all others. */
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

/** What a policy says, as plain data that can be stored and sent. */
export interface Policy {
  readonly paths: readonly PathRule[];
  readonly cluster: ClusterRules;
  /** What it asks of everybody's volumes. */
  readonly volumeRules?: readonly VolumeRule[];
}

/** One `volume_rule` block. What it does not name, it does not ask. */
export interface VolumeRule {
  readonly name: string;
  readonly enforcement: Enforcement;
  /** Globs; absent = all of them. */
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

/** A rule and the policy that it stands in. */
export interface GoverningRule extends VolumeRule {
  readonly policy: string;
}

/** A policy's rules about areas C and D, with `policy` words as the capabilities that they stand for. */
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

export interface AclPolicy {
  CreateIndex: number | null;
  Description: string;
  Hash: string;
  /** Kept and shown; it governs nothing here. */
  JobACL: JobAcl | null;
  ModifyIndex: number | null;
  Name: string;
  Rules: string;
  /** The rules as they were read; null on the event stream. */
  RulesJSON: AclRules | null;
}

/** What describes a policy beside its document. */
export interface PolicyAttributes {
  readonly description: string;
  readonly jobAcl: JobAcl | null;
}

/** The job, group or task that a policy is attached to upstream. */
export interface JobAcl {
  readonly Namespace: string;
  readonly JobID: string;
  readonly Group: string;
  readonly Task: string;
}

export interface PolicyWritten {
  readonly index: number | null;
}
