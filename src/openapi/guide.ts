/** What the document says before its operations. */
export const GUIDE = {
  summary: "Dynamic cloud credentials, secret sync, an event stream and volumes.",
  text: [
    'Areas A (credentials) and B (sync), with tokens, policies, KV and `sys`, answer in an envelope, and refuse with `{"errors":[…]}`; they work with and without `/v1`.',
    "Areas C (events) and D (volumes), with `acl`, nodes and what schedulers report, answer bare JSON, and refuse in plain text; they need `/v1`.",
    "Every path is written as it is by default. `secret` stands for the path of any mount of type `kv`, `cloud-b` for that of any mount of type `cloud-b`: put the mount's own path in its place.",
    "POST and PUT are the same. LIST is a method where the way allows it; here it is a GET with `list=true`, written with a slash at the end of its path. Parameters in paths marked `x-sallyport-slashes` may hold slashes.",
    'Numbers, flags, lists and maps in bodies of areas A and B may come as text, as command-line clients send them: `"true"`, `"5"`, `"a,b"`, `"k=v"`. Fields of bodies of areas C and D are found whatever their case. Null is what is left out, except in a patch.',
    "Requests that use the upstream systems' own headers or path names are answered in their words; this document speaks ours (docs/reference/compatibility.md).",
    "`x-sallyport-right` says what the caller must be allowed: a capability on a path, or a right of areas C and D.",
  ].join("\n\n"),
} as const;

export const TAGS = [
  {
    name: "Credentials",
    description: "Area A: a mount of type `cloud-b`, by default at `cloud-b`, makes service principals under leases.",
  },
  { name: "Leases", description: "Area A: what was given for a time." },
  { name: "Sync", description: "Area B: secrets, kept the same at other systems." },
  { name: "Events", description: "Area C: what happens in the cluster, and who reports it." },
  { name: "Volumes", description: "Area D: host volumes and their claims, CSI volumes, snapshots and plugins." },
  { name: "Nodes", description: "Nodes, their pools, and the agents on them." },
  { name: "Reported", description: "What schedulers report: jobs, allocations, evaluations, deployments." },
  { name: "Secrets", description: "Versioned secrets: a mount of type `kv`, version 2, by default at `secret`." },
  { name: "Tokens", description: "Tokens of areas A and B." },
  { name: "Policies", description: "Policies of areas A and B, and what they allow." },
  { name: "Cluster access", description: "Tokens, policies and namespaces of areas C and D." },
  {
    name: "System",
    description: "Health, keys, mounts, namespaces of areas A and B, the issuer of identity tokens, this document.",
  },
] as const;
