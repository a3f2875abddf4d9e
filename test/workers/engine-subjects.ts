import type { Fault } from "../doubles/cloud-b/azure-types.ts";
import { openAwsAccount } from "./aws-helpers.ts";
import { dynamicRole, openTenant } from "./engine-helpers.ts";
import { openProject } from "./gcp-helpers.ts";

/** The types of engines that suites about all of them try, each at an account of its own. */

/** An account at a provider, and the bodies that use it. */
export interface Provider {
  readonly config: Record<string, unknown>;
  readonly role: Record<string, unknown>;
  /** A further document of the configuration: its path and body. */
  readonly document?: readonly [path: string, body: Record<string, unknown>];
  /** All that exists there; equal values have equal resources. */
  everything(): Promise<unknown>;
  /** Loses answers to the call that makes the secret. */
  lose(fault: "drop" | "apply-then-drop", count: number): Promise<unknown>;
}

export interface Subject {
  readonly type: string;
  readonly upstream: string;
  /** The path that issues; absent: `creds/app`. */
  readonly at?: string;
  open(): Promise<Provider>;
  /** Polls with a report until the end of an issue, and of a rotation. */
  readonly polls: { readonly issue: number; readonly rotation: number };
  /** The same polls with one call each: calls of an issue, a revocation and a rotation. */
  readonly calls: { readonly issue: number; readonly revocation: number; readonly rotation: number };
}

async function openAzure(): Promise<Provider> {
  const tenant = await openTenant();
  const operation = "AddServicePrincipalPassword" as const;
  return {
    config: tenant.config,
    role: dynamicRole(tenant, { ttl: 60 }),
    everything: () => tenant.everything(),
    lose: (fault, count) => tenant.fault({ service: "graph", operation, fault, count } as Fault),
  };
}

async function openAws(): Promise<Provider> {
  const account = await openAwsAccount();
  const { policy_arn } = account;
  return {
    config: account.config,
    document: ["config/lease", { lease: 60, lease_max: 3_600 }],
    role: { credential_type: "iam_user", policy_arns: [policy_arn], iam_groups: ["developers"] },
    everything: () => account.everything(),
    lose: (fault, count) => account.fault({ operation: "CreateAccessKey", fault, count }),
  };
}

async function openGcp(): Promise<Provider> {
  const project = await openProject();
  return {
    config: { ...project.config, ttl: 60, max_ttl: 3_600 },
    role: { secret_type: "service_account_key", project: project.account, bindings: project.bindings },
    everything: project.everything,
    lose: (fault, count) => project.fault({ method: "POST", path: "/keys", fault, count }),
  };
}

export const subjects: readonly Subject[] = [
  {
    type: "cloud-b",
    upstream: "azure",
    open: openAzure,
    polls: { issue: 3, rotation: 4 },
    calls: { issue: 5, revocation: 6, rotation: 5 },
  },
  {
    type: "cloud-a",
    upstream: "aws",
    open: openAws,
    polls: { issue: 1, rotation: 5 },
    calls: { issue: 5, revocation: 6, rotation: 7 },
  },
  {
    type: "cloud-c",
    upstream: "gcp",
    at: "roleset/app/key",
    open: openGcp,
    polls: { issue: 2, rotation: 4 },
    calls: { issue: 2, revocation: 1, rotation: 7 },
  },
];
