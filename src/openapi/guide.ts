/** Introduction of the document. */
export const GUIDE = {
  summary: "Dynamic cloud credentials, secret sync, an event stream and volumes.",
  text: [
    'The secrets API (credentials, sync, tokens, policies, KV and `sys`) responds with an envelope, and with `{"errors":[…]}` for errors; its paths work with and without `/v1`.',
    "The cluster API (events, volumes, nodes, jobs and `acl`) responds with bare JSON, and with plain text for errors; its paths need `/v1`.",
    "Paths are shown with default mount paths. Replace `secret` by the path of a mount of type `kv`, and `cloud-a`, `cloud-b`, `cloud-c` and `https-producer` by the paths of mounts of these types.",
    "POST and PUT are equivalent. LIST is also accepted as a method; this document shows it as a GET with `list=true` and a trailing slash. Path parameters marked `x-sallyport-slashes` may contain slashes.",
    'Numbers, flags, lists and maps in bodies of the secrets API may be sent as text, as command-line clients do: `"true"`, `"5"`, `"a,b"`, `"k=v"`. Field names in bodies of the cluster API are case-insensitive. Null means omitted, except in a patch.',
    "A request of the secrets API with the header `X-Orch-Wrap-TTL` (or `X-Vault-Wrap-TTL`; seconds or a duration, at most 768 hours) gets `wrap_info` with a single-use token instead of `data` and `auth`; `sys/wrapping/unwrap` exchanges the token for the answer.",
    "Requests with the upstream systems' own headers or path names get responses with upstream names; this document uses neutral names (docs/reference/compatibility.md).",
    "`x-sallyport-right` is the required right: a capability on a path, or a right of the cluster API.",
  ].join("\n\n"),
} as const;

export const TAGS = [
  {
    name: "Credentials",
    description:
      "Mounts that issue credentials of a provider: service principals (`cloud-b`), sessions and users of AWS (`cloud-a`), access tokens and keys of Google Cloud (`cloud-c`), credentials of any HTTPS API (`https-producer`).",
  },
  { name: "Leases", description: "Credentials with a lifetime: look up, renew, revoke." },
  { name: "Sync", description: "Secrets kept in sync at providers: destinations and associations." },
  { name: "Events", description: "The event stream, and the reports of schedulers." },
  { name: "Volumes", description: "Host volumes and their claims, CSI volumes, snapshots and plugins." },
  { name: "Nodes", description: "Nodes, their pools, and the agents on them." },
  { name: "Reported", description: "Objects reported by schedulers: jobs, allocations, evaluations, deployments." },
  { name: "Secrets", description: "Versioned secrets: a mount of type `kv` version 2 (default path `secret`)." },
  { name: "Cubbyhole", description: "Private storage of each token, deleted with it." },
  { name: "Wrapping", description: "Responses behind a single-use token." },
  { name: "Tokens", description: "Tokens of the secrets API." },
  { name: "Logins", description: "Auth methods, and logins with them." },
  { name: "Identity", description: "Entities, groups and their aliases: the identities behind tokens of logins." },
  { name: "Policies", description: "Policies of the secrets API, and capabilities." },
  { name: "Cluster access", description: "Tokens, policies and namespaces of the cluster API." },
  {
    name: "Cluster logins",
    description: "Roles, auth methods, binding rules, logins and one-time tokens of the cluster API.",
  },
  {
    name: "System",
    description: "Health, keys, mounts, namespaces of the secrets API, the issuer of identity tokens, this document.",
  },
] as const;
