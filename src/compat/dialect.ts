/**
 * Whose words a caller speaks. `upstream`: the request used an upstream header or path name, so the answer follows upstream
 * where the two differ (design 2.3). Everything inside the service speaks neutral.
 */
export type Dialect = "neutral" | "upstream";

/** Request headers, by what they mean; the neutral name first. */
export const requestHeader = {
  token: ["X-Orch-Token", "X-Vault-Token", "X-Nomad-Token"],
  namespace: ["X-Orch-Namespace", "X-Vault-Namespace"],
  marker: ["X-Vault-Request"],
} as const;

/** Response headers of areas C and D; both spellings leave, as they are only headers. */
export const clusterHeader = {
  index: ["X-Orch-Index", "X-Nomad-Index"],
  knownLeader: ["X-Orch-KnownLeader", "X-Nomad-KnownLeader"],
  lastContact: ["X-Orch-LastContact", "X-Nomad-LastContact"],
  nextToken: ["X-Orch-NextToken", "X-Nomad-NextToken"],
  oldestIndex: ["X-Orch-Oldest-Index", "X-Nomad-Oldest-Index"],
} as const;

const isUpstream = (name: string): boolean => /^X-(Vault|Nomad)-/i.test(name);

export function dialectOf(headers: Headers): Dialect {
  const names = Object.values(requestHeader).flat();
  return names.some((name) => isUpstream(name) && headers.has(name)) ? "upstream" : "neutral";
}

export function firstHeader(headers: Headers, names: readonly string[]): string | null {
  for (const name of names) {
    const value = headers.get(name);
    if (value !== null) return value;
  }
  return null;
}
