/*
 * Cluster rights: the merged `namespace`, `node`, `plugin`, `operator`, `agent`, `quota`, `sentinel`, `host_volume` and
 * `node_pool` rules of a token's policies. Plain data, so it can be stored and sent; `src/rights` checks it.
 */

export const NAMESPACE_CAPABILITIES = [
  "alloc-exec",
  "alloc-lifecycle",
  "alloc-node-exec",
  "cancel-deployment",
  "csi-list-volume",
  "csi-mount-volume",
  "csi-read-volume",
  "csi-register-plugin",
  "csi-write-volume",
  "delete-service-registration",
  "deny",
  "deregister-job",
  "dispatch-job",
  "evaluate-job",
  "fail-deployment",
  "force-periodic-job",
  "gc-allocation",
  "host-volume-create",
  "host-volume-delete",
  "host-volume-read",
  "host-volume-register",
  "host-volume-write",
  "list-jobs",
  "list-scaling-policies",
  "parse-job",
  "pause-allocation",
  "pause-deployment",
  "plan-job",
  "policy-override",
  "promote-deployment",
  "purge-job",
  "read-fs",
  "read-job",
  "read-job-scaling",
  "read-logs",
  "read-scaling-policy",
  "register-job",
  "revert-job",
  "scale-job",
  "set-alloc-health-deployment",
  "stable-job",
  "submit-job",
  "submit-recommendation",
  "tag-job-version",
  "unblock-deployment",
] as const;
export const VARIABLE_CAPABILITIES = ["deny", "destroy", "list", "read", "write"] as const;
export const HOST_VOLUME_CAPABILITIES = ["deny", "mount-readonly", "mount-readwrite"] as const;
export const NODE_POOL_CAPABILITIES = ["delete", "deny", "read", "write"] as const;
export const OPERATOR_CAPABILITIES = [
  "deny",
  "keyring-delete",
  "keyring-read",
  "keyring-rotate",
  "license-read",
  "snapshot-save",
] as const;
export const SENTINEL_CAPABILITIES = ["deny", "sentinel-read", "sentinel-submit", "sentinel-delete"] as const;
/** Weakest first. `list` exists in `plugin` rules only; `scale` grants something in `namespace` rules only. */
export const LEVELS = ["scale", "list", "read", "write", "deny"] as const;

export type NamespaceCapability = (typeof NAMESPACE_CAPABILITIES)[number];
export type VariableCapability = (typeof VARIABLE_CAPABILITIES)[number];
export type HostVolumeCapability = (typeof HOST_VOLUME_CAPABILITIES)[number];
export type NodePoolCapability = (typeof NODE_POOL_CAPABILITIES)[number];
export type OperatorCapability = (typeof OPERATOR_CAPABILITIES)[number];
export type Level = (typeof LEVELS)[number];

/** A capability that a rule can grant. */
export type Grantable<Capability extends string> = Exclude<Capability, "deny">;

/** A namespace capability as routes name it: the canonical name or an older alias. */
export type NamespaceRight =
  | Grantable<NamespaceCapability>
  | `namespace:${Grantable<NamespaceCapability>}`
  | "sentinel-override";

export interface NamedRule<Capability extends string> {
  readonly name: string;
  readonly capabilities: readonly Capability[];
}

export interface NamespaceRule extends NamedRule<NamespaceCapability> {
  readonly variables: readonly NamedRule<VariableCapability>[];
}

/** The cluster rules of one policy in source order, or of several policies merged. */
export interface ClusterRules {
  readonly namespaces: readonly NamespaceRule[];
  readonly hostVolumes: readonly NamedRule<HostVolumeCapability>[];
  readonly nodePools: readonly NamedRule<NodePoolCapability>[];
  readonly operatorCapabilities: readonly OperatorCapability[];
  readonly levels: { readonly [family in Family]?: Level };
}

export const FAMILIES = ["node", "agent", "operator", "quota", "sentinel", "plugin"] as const;
export type Family = (typeof FAMILIES)[number];

/** The cluster rights of a token: its merged rules, or everything for management tokens. */
export interface ClusterRights extends ClusterRules {
  readonly management: boolean;
}

export const NO_CLUSTER_RULES: ClusterRules = Object.freeze({
  namespaces: [],
  hostVolumes: [],
  nodePools: [],
  operatorCapabilities: [],
  levels: {},
});

/** The rights of a management token. */
export const MANAGEMENT: ClusterRights = Object.freeze({ management: true, ...NO_CLUSTER_RULES });

/** Any one of these lets a token list CSI volumes, external volumes and snapshots in a namespace. */
export const CSI_LIST_RIGHTS = ["csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs"] as const;
/** Any one of these lets a token read a CSI volume. */
export const CSI_READ_RIGHTS = ["csi-read-volume", "csi-mount-volume", "read-job"] as const;

const NAMESPACE_READ = [
  "list-jobs",
  "parse-job",
  "read-job",
  "csi-list-volume",
  "csi-read-volume",
  "read-job-scaling",
  "list-scaling-policies",
  "read-scaling-policy",
  "host-volume-read",
] as const;

/** Capabilities of `policy = "…"` in a namespace block. */
export const NAMESPACE_POLICIES: ReadonlyMap<string, readonly NamespaceCapability[]> = new Map([
  ["deny", ["deny"]],
  ["read", [...NAMESPACE_READ]],
  [
    "write",
    [
      ...NAMESPACE_READ,
      "scale-job",
      "submit-job",
      "dispatch-job",
      "read-logs",
      "read-fs",
      "alloc-exec",
      "alloc-lifecycle",
      "csi-mount-volume",
      "csi-write-volume",
      "submit-recommendation",
      "host-volume-create",
    ],
  ],
  [
    "scale",
    [
      "list-scaling-policies",
      "read-scaling-policy",
      "read-job-scaling",
      "scale-job",
      "read-job",
      "submit-recommendation",
    ],
  ],
] satisfies [string, NamespaceCapability[]][]);

/** Capabilities of `policy = "…"` in a host_volume block. */
export const HOST_VOLUME_POLICIES: ReadonlyMap<string, readonly HostVolumeCapability[]> = new Map([
  ["deny", ["deny"]],
  ["scale", []],
  ["read", ["mount-readonly"]],
  ["write", ["mount-readonly", "mount-readwrite"]],
] satisfies [string, HostVolumeCapability[]][]);

/** Capabilities of `policy = "…"` in a node_pool block. */
export const NODE_POOL_POLICIES: ReadonlyMap<string, readonly NodePoolCapability[]> = new Map([
  ["deny", ["deny"]],
  ["scale", []],
  ["read", ["read"]],
  ["write", ["read", "write", "delete"]],
] satisfies [string, NodePoolCapability[]][]);
