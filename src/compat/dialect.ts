/**
 * Whose words a caller speaks. `upstream`: the request used an upstream header or path name, so the answer follows upstream
 * where the two differ (docs/reference/compatibility.md). Everything inside the service speaks neutral.
 */
export type Dialect = "neutral" | "upstream";

/*
 * The one table of names. Each pair says one thing, the neutral word first.
 */

/** Types of destinations: in paths, `type`, `store_type`, and the keys of lists. A type that is not here has one name. */
export const TYPE_NAMES = [
  ["cloud-a-sm", "aws-sm"],
  ["cloud-b-kv", "azure-kv"],
  ["cloud-c-sm", "gcp-sm"],
  ["repo-host", "gh"],
  ["deploy-project", "vercel-project"],
] as const;

/** Folders below `sys/sync/`. */
export const FOLDER_NAMES = [["repo-host-apps", "github-apps"]] as const;

/** Values of `sync_status`. */
export const STATUS_NAMES = [["INTERNAL_ERROR", "INTERNAL_VAULT_ERROR"]] as const;

/** Request headers, by what they mean. */
export const requestHeader = {
  token: ["X-Orch-Token", "X-Vault-Token", "X-Nomad-Token"],
  namespace: ["X-Orch-Namespace", "X-Vault-Namespace"],
  csiSecrets: ["X-Orch-CSI-Secrets", "X-Nomad-CSI-Secrets"],
  wrapTtl: ["X-Orch-Wrap-TTL", "X-Vault-Wrap-TTL"],
} as const;

/** Response headers of areas C and D; both spellings leave, as they are only headers. */
export const clusterHeader = {
  index: ["X-Orch-Index", "X-Nomad-Index"],
  knownLeader: ["X-Orch-KnownLeader", "X-Nomad-KnownLeader"],
  lastContact: ["X-Orch-LastContact", "X-Nomad-LastContact"],
  nextToken: ["X-Orch-NextToken", "X-Nomad-NextToken"],
  oldestIndex: ["X-Orch-Oldest-Index", "X-Nomad-Oldest-Index"],
} as const;

/** The dialect of a request, by its headers: any of an upstream system's own makes it that system's. */
export function dialectOf(headers: Headers): Dialect {
  for (const [name] of headers) if (/^x-(vault|nomad)-/.test(name)) return "upstream";
  return "neutral";
}

/** Whether a request is one of upstream's clients of areas C and D. */
export const speaksOrchestrator = (headers: Headers): boolean => headers.has("X-Nomad-Token");

/** The first of these headers that says something: an empty one counts as absent. */
export function firstHeader(headers: Headers, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = headers.get(name);
    if (value) return value;
  }
  return undefined;
}
