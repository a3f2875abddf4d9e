/** Introduction of the document. */
export const GUIDE = {
  summary: "Dynamic cloud credentials, secret sync, an event stream and volumes.",
  text: [
    'The secrets API (credentials, sync, tokens, policies, KV and `sys`) answers in an envelope, and refuses with `{"errors":[…]}`; it works with and without `/v1`.',
    "The cluster API (events, volumes, nodes, jobs and `acl`) answers bare JSON, and refuses in plain text; it needs `/v1`.",
    "Every path is written as it is by default. `secret` stands for the path of any mount of type `kv`, `cloud-b` for that of any mount of type `cloud-b`: put the mount's own path in its place.",
    "POST and PUT are the same. LIST is a method where the way allows it; here it is a GET with `list=true`, written with a slash at the end of its path. Parameters in paths marked `x-sallyport-slashes` may hold slashes.",
    'Numbers, flags, lists and maps in bodies of the secrets API may come as text, as command-line clients send them: `"true"`, `"5"`, `"a,b"`, `"k=v"`. Fields of bodies of the cluster API are found whatever their case. Null is what is left out, except in a patch.',
    "Requests that use the upstream systems' own headers or path names are answered in their words; this document speaks ours (docs/reference/compatibility.md).",
    "`x-sallyport-right` says what the caller must be allowed: a capability on a path, or a right of the cluster API.",
  ].join("\n\n"),
} as const;

export const TAGS = [
  {
    name: "Credentials",
    description: "A mount of type `cloud-b`, by default at `cloud-b`, makes service principals under leases.",
  },
  { name: "Leases", description: "Credentials with a lifetime: look up, renew, revoke." },
  { name: "Sync", description: "Secrets kept in sync at providers: destinations and associations." },
  { name: "Events", description: "The event stream, and the reports of schedulers." },
  { name: "Volumes", description: "Host volumes and their claims, CSI volumes, snapshots and plugins." },
  { name: "Nodes", description: "Nodes, their pools, and the agents on them." },
  { name: "Reported", description: "What schedulers report: jobs, allocations, evaluations, deployments." },
  { name: "Secrets", description: "Versioned secrets: a mount of type `kv`, version 2, by default at `secret`." },
  { name: "Tokens", description: "Tokens of the secrets API." },
  { name: "Policies", description: "Policies of the secrets API, and what they allow." },
  { name: "Cluster access", description: "Tokens, policies and namespaces of the cluster API." },
  {
    name: "System",
    description: "Health, keys, mounts, namespaces of the secrets API, the issuer of identity tokens, this document.",
  },
] as const;
