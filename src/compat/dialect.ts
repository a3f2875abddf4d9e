import { descriptions } from "../sync/destinations/descriptions.ts";

/**
 * Dialect of a caller. `upstream`: the request used an upstream header or path name, so the answer uses upstream names
 * where they differ (docs/reference/compatibility.md). All code inside the service uses neutral names.
 */
export type Dialect = "neutral" | "upstream";

/* The table of names: pairs of neutral and upstream name. */

/** Destination types: in paths, `type`, `store_type`, and list keys. Unlisted types have one name. */
export const TYPE_NAMES: readonly (readonly [neutral: string, upstream: string])[] = descriptions.flatMap(
  ({ type, upstream }) => (upstream === undefined ? [] : [[type, upstream] as const]),
);

/** Folders below `sys/sync/`. */
export const FOLDER_NAMES = [["repo-host-apps", "github-apps"]] as const;

/** Values of `sync_status`. */
export const STATUS_NAMES = [["INTERNAL_ERROR", "INTERNAL_VAULT_ERROR"]] as const;

/** Request headers by meaning. */
export const requestHeader = {
  token: ["X-Orch-Token", "X-Vault-Token", "X-Nomad-Token"],
  namespace: ["X-Orch-Namespace", "X-Vault-Namespace"],
  csiSecrets: ["X-Orch-CSI-Secrets", "X-Nomad-CSI-Secrets"],
  wrapTtl: ["X-Orch-Wrap-TTL", "X-Vault-Wrap-TTL"],
} as const;

/** Response headers of the cluster API; both spellings are sent. */
export const clusterHeader = {
  index: ["X-Orch-Index", "X-Nomad-Index"],
  knownLeader: ["X-Orch-KnownLeader", "X-Nomad-KnownLeader"],
  lastContact: ["X-Orch-LastContact", "X-Nomad-LastContact"],
  nextToken: ["X-Orch-NextToken", "X-Nomad-NextToken"],
  oldestIndex: ["X-Orch-Oldest-Index", "X-Nomad-Oldest-Index"],
  startIndex: ["X-Orch-Start-Index", "X-Nomad-Start-Index"],
  disabledTopics: ["X-Orch-Disabled-Topics", "X-Nomad-Disabled-Topics"],
} as const;

/** The names of a request's headers, in lower case. */
interface Names {
  keys(): Iterable<string>;
}

/** The dialect of a request: upstream if it has any upstream header. */
export function dialectOf(headers: Names): Dialect {
  for (const name of headers.keys()) if (name.startsWith("x-vault-") || name.startsWith("x-nomad-")) return "upstream";
  return "neutral";
}

/** Whether a request comes from an upstream cluster client. */
export const speaksOrchestrator = (headers: Pick<Headers, "has">): boolean => headers.has("X-Nomad-Token");

/** The first non-empty header. */
export function firstHeader(headers: Pick<Headers, "get">, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = headers.get(name);
    if (value) return value;
  }
  return undefined;
}
