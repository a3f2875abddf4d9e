/** Which command of `vault` or `nomad` sends which request. The first rule that fits a path decides. */
import { quoted, type Verb, type WireRequest } from "../lib/wire.ts";

/** Words before and behind the place of flags that all commands have. */
type Parts = readonly [verbs: readonly string[], rest: readonly string[]];

type Body = Readonly<Record<string, unknown>>;

interface Match {
  readonly groups: Readonly<Record<string, string>>;
  readonly body: Body;
  readonly query: URLSearchParams;
}

interface Rule {
  readonly verbs: readonly Verb[];
  readonly path: RegExp;
  readonly parts: (match: Match) => Parts | null;
}

const asBody = (body: unknown): Body => (typeof body === "object" && body !== null ? (body as Body) : {});

/** `key=value` words; structures as JSON. A leading `@` would name a file. */
const pairs = (body: Body): string[] =>
  Object.entries(body).map(([name, value]) => {
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    return quoted(`${name}=${text.startsWith("@") ? "\\" : ""}${text}`);
  });

const versions = ({ body }: Match): string =>
  `-versions=${(body["versions"] as unknown[] | undefined)?.join(",") ?? ""}`;

const word = (text: string | undefined): string => quoted(decodeURIComponent(text ?? ""));

const mountAndName = ({ groups }: Match): string[] => [`-mount=${word(groups["mount"])}`, word(groups["name"])];

/** Rules of `vault`, for paths as sent. KV rules are last: their mounts may have any name. */
const VAULT: readonly Rule[] = [
  { verbs: ["GET"], path: /^auth\/token\/lookup-self$/, parts: () => [["token", "lookup"], []] },
  { verbs: ["POST"], path: /^auth\/token\/renew-self$/, parts: () => [["token", "renew"], []] },
  { verbs: ["POST"], path: /^auth\/token\/revoke-self$/, parts: () => [["token", "revoke"], ["-self"]] },
  {
    verbs: ["POST"],
    path: /^auth\/token\/create$/,
    parts: ({ body }) => [["write"], ["auth/token/create", ...pairs(body)]],
  },
  {
    verbs: ["POST"],
    path: /^auth\/token\/(?<what>lookup|renew|revoke)-accessor$/,
    parts: ({ groups, body }) => [
      ["token", groups["what"] ?? ""],
      ["-accessor", quoted(String(body["accessor"] ?? ""))],
    ],
  },
  {
    verbs: ["POST"],
    path: /^auth\/(?<mount>.+)\/login\/(?<name>[^/]+)$/,
    parts: ({ groups }) => [
      ["login"],
      ["-method=userpass", `-path=${word(groups["mount"])}`, `username=${word(groups["name"])}`],
    ],
  },
  {
    verbs: ["POST"],
    path: /^auth\/(?<mount>.+)\/oidc\/auth_url$/,
    parts: ({ groups }) => [["login"], ["-method=oidc", `-path=${word(groups["mount"])}`]],
  },
  { verbs: ["GET"], path: /^sys\/(seal-status|health)$/, parts: () => [["status"], []] },
  { verbs: ["GET"], path: /^sys\/(internal\/ui\/)?mounts$/, parts: () => [["secrets", "list"], []] },
  { verbs: ["GET"], path: /^sys\/auth$/, parts: () => [["auth", "list"], []] },
  {
    verbs: ["POST"],
    path: /^sys\/mounts\/(?<path>.+)\/tune$/,
    parts: ({ groups, body }) => [["write"], [`sys/mounts/${word(groups["path"])}/tune`, ...pairs(body)]],
  },
  {
    verbs: ["POST"],
    path: /^sys\/mounts\/(?<path>.+)$/,
    parts: ({ groups, body }) => {
      const version = asBody(body["options"])["version"];
      const description = body["description"] ? [`-description=${quoted(String(body["description"]))}`] : [];
      const flags = [`-path=${word(groups["path"])}`, ...description, ...(version ? [`-version=${version}`] : [])];
      return [
        ["secrets", "enable"],
        [...flags, quoted(String(body["type"] ?? ""))],
      ];
    },
  },
  {
    verbs: ["DELETE"],
    path: /^sys\/mounts\/(?<path>.+)$/,
    parts: ({ groups }) => [["secrets", "disable"], [word(groups["path"])]],
  },
  { verbs: ["LIST", "GET"], path: /^sys\/(internal\/ui\/)?namespaces$/, parts: () => [["namespace", "list"], []] },
  {
    verbs: ["POST"],
    path: /^sys\/namespaces\/(?<path>[^/]+)$/,
    parts: ({ groups }) => [["namespace", "create"], [word(groups["path"])]],
  },
  { verbs: ["LIST"], path: /^sys\/polic(y|ies\/acl)$/, parts: () => [["policy", "list"], []] },
  {
    verbs: ["GET"],
    path: /^sys\/policies\/acl\/(?<name>.+)$/,
    parts: ({ groups }) => [["policy", "read"], [word(groups["name"])]],
  },
  {
    verbs: ["POST"],
    path: /^sys\/policies\/acl\/(?<name>.+)$/,
    parts: ({ groups, body }) => [
      ["policy", "write"],
      [word(groups["name"]), "-", "<<<", quoted(String(body["policy"] ?? ""))],
    ],
  },
  {
    verbs: ["DELETE"],
    path: /^sys\/policies\/acl\/(?<name>.+)$/,
    parts: ({ groups }) => [["policy", "delete"], [word(groups["name"])]],
  },
  {
    verbs: ["POST"],
    path: /^sys\/leases\/(?<what>lookup|renew|revoke)$/,
    parts: ({ groups, body }) => [["lease", groups["what"] ?? ""], [quoted(String(body["lease_id"] ?? ""))]],
  },
  {
    verbs: ["POST"],
    path: /^sys\/leases\/revoke-(?<how>prefix|force)\/(?<path>.+)$/,
    parts: ({ groups }) => [
      ["lease", "revoke"],
      [groups["how"] === "force" ? "-force -prefix" : "-prefix", word(groups["path"])],
    ],
  },
  {
    verbs: ["GET"],
    path: /^(?!sys\/)(?<mount>.+?)\/data\/(?<name>.+)$/,
    parts: (match) => {
      const version = match.query.get("version");
      return [
        ["kv", "get"],
        [...(version ? [`-version=${version}`] : []), ...mountAndName(match)],
      ];
    },
  },
  {
    verbs: ["POST", "PATCH"],
    path: /^(?!sys\/)(?<mount>.+?)\/data\/(?<name>.+)$/,
    parts: (match) => {
      const cas = asBody(match.body["options"])["cas"];
      const flags = cas === undefined || cas === null ? [] : [`-cas=${cas}`];
      return [
        ["kv", "put"],
        [...flags, ...mountAndName(match), ...pairs(asBody(match.body["data"]))],
      ];
    },
  },
  {
    verbs: ["DELETE"],
    path: /^(?!sys\/)(?<mount>.+?)\/data\/(?<name>.+)$/,
    parts: (match) => [["kv", "delete"], mountAndName(match)],
  },
  {
    verbs: ["POST", "PUT"],
    path: /^(?!sys\/|auth\/)(?<mount>.+?)\/(?<what>delete|undelete|destroy)\/(?<name>.+)$/,
    parts: (match) => [
      ["kv", match.groups["what"] ?? ""],
      [versions(match), ...mountAndName(match)],
    ],
  },
  {
    verbs: ["LIST"],
    path: /^(?!sys\/|auth\/|identity\/)(?<mount>.+?)\/metadata(?:\/(?<name>.*))?$/,
    parts: ({ groups }) => [
      ["kv", "list"],
      [`-mount=${word(groups["mount"])}`, ...(groups["name"] ? [word(groups["name"])] : [])],
    ],
  },
  {
    verbs: ["GET"],
    path: /^(?!sys\/)(?<mount>.+?)\/metadata\/(?<name>.+)$/,
    parts: (match) => [["kv", "metadata", "get"], mountAndName(match)],
  },
  {
    verbs: ["POST", "PATCH"],
    path: /^(?!sys\/)(?<mount>.+?)\/metadata\/(?<name>.+)$/,
    parts: (match) => {
      const { custom_metadata: custom, ...settings } = match.body;
      const flags = Object.entries(settings).map(
        ([name, value]) => `-${name.replaceAll("_", "-")}=${quoted(String(value))}`,
      );
      const entries = Object.entries(asBody(custom)).map(([name, value]) =>
        quoted(`-custom-metadata=${name}=${value}`),
      );
      return [
        ["kv", "metadata", "patch"],
        [...flags, ...entries, ...mountAndName(match)],
      ];
    },
  },
  {
    verbs: ["DELETE"],
    path: /^(?!sys\/)(?<mount>.+?)\/metadata\/(?<name>.+)$/,
    parts: (match) => [["kv", "metadata", "delete"], mountAndName(match)],
  },
];

/** The command of a request of the secrets API; generic verbs where no rule fits, null for requests without a command. */
export function vaultRules({ verb, body }: WireRequest, path: string, query: URLSearchParams): Parts | null {
  const decoded = word(path);
  for (const rule of VAULT) {
    const found = rule.verbs.includes(verb) ? rule.path.exec(path) : null;
    const parts = found && rule.parts({ groups: { ...found.groups }, body: asBody(body), query });
    if (parts) return verb === "PATCH" && parts[0][1] === "put" ? [["kv", "patch"], parts[1]] : parts;
  }
  query.delete("list");
  if (verb === "LIST") return [["list"], [decoded]];
  if (verb === "GET") return [["read"], [decoded, ...[...query].map(([name, value]) => quoted(`${name}=${value}`))]];
  if (verb === "DELETE")
    return [["delete"], [decoded, ...[...query].map(([name, value]) => quoted(`${name}=${value}`))]];
  if (verb === "PATCH") return [["patch"], [decoded, ...pairs(asBody(body))]];
  const words = [...pairs(asBody(body)), ...[...query].map(([name, value]) => quoted(`${name}=${value}`))];
  return [
    ["write", ...(words.length === 0 ? ["-f"] : [])],
    [decoded, ...words],
  ];
}

/** The command of a request of the cluster API; null where only `nomad operator api` sends it. */
export function clusterRules(
  { verb, body }: WireRequest,
  path: readonly string[],
  query: URLSearchParams,
): Parts | null {
  const [area, first = "", second = "", third = ""] = path;
  const given = asBody(body);
  if (verb === "GET") {
    if (area === "nodes") return [["node", "status"], []];
    if (area === "node" && path.length === 2 && first !== "pools") return [["node", "status"], [quoted(first)]];
    if (area === "node" && first === "pools") return [["node", "pool", "list"], []];
    if (area === "jobs") return [["job", "status"], []];
    if (area === "job" && path.length === 2) return [["job", "status"], [quoted(first)]];
    if (area === "allocation") return [["alloc", "status"], [quoted(first)]];
    if (area === "volumes" && first === "")
      return [["volume", "status"], query.has("type") ? [`-type=${query.get("type")}`] : []];
    if (area === "volumes" && first === "snapshot") return [["volume", "snapshot", "list"], []];
    if (area === "volumes" && first === "claims") return [["volume", "claim", "list"], []];
    if (area === "volume" && path.length === 3)
      return [
        ["volume", "status"],
        [`-type=${first}`, quoted(second)],
      ];
    if (area === "plugins") return [["plugin", "status"], []];
    if (area === "plugin") return [["plugin", "status"], [quoted(second)]];
    if (area === "namespaces") return [["namespace", "list"], []];
    if (area === "acl" && first === "token" && second === "self") return [["acl", "token", "self"], []];
    if (area === "acl" && first === "tokens") return [["acl", "token", "list"], []];
    if (area === "acl" && first === "policies") return [["acl", "policy", "list"], []];
    if (area === "acl" && first === "roles") return [["acl", "role", "list"], []];
    return null;
  }
  if (area === "node" && second === "drain")
    return [
      ["node", "drain"],
      [given["DrainSpec"] ? "-enable" : "-disable", quoted(first)],
    ];
  if (area === "node" && second === "eligibility")
    return [
      ["node", "eligibility"],
      [given["Eligibility"] === "eligible" ? "-enable" : "-disable", quoted(first)],
    ];
  if (area === "namespace" && verb === "PUT") return [["namespace", "apply"], [quoted(String(given["Name"] ?? first))]];
  if (area === "namespace" && verb === "DELETE") return [["namespace", "delete"], [quoted(first)]];
  if (area === "volume" && verb === "DELETE" && third === "delete")
    return [
      ["volume", "delete"],
      [`-type=${first}`, quoted(second)],
    ];
  if (area === "volume" && verb === "DELETE" && third === "detach")
    return [
      ["volume", "detach"],
      [quoted(second), quoted(query.get("node") ?? "")],
    ];
  if (area === "volumes" && first === "claim" && verb === "DELETE")
    return [["volume", "claim", "delete"], [quoted(second)]];
  return null;
}
