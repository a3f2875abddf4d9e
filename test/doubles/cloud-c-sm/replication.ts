const keyName = /^projects\/[^/]+\/locations\/([^/]+)\/keyRings\/[^/]+\/cryptoKeys\/[^/]+$/;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Why a replication policy is refused (Secret Manager API v1, Replication); null when it is not. */
export function refusedReplication(given: unknown): string | null {
  if (!isObject(given) || Object.keys(given).length !== 1) return "The replication must be automatic or user-managed";
  const { automatic, userManaged } = given;
  if (isObject(automatic)) return refusedEncryption(automatic, "global");
  if (!isObject(userManaged) || !Array.isArray(userManaged["replicas"]) || Object.keys(userManaged).length > 1) {
    return "The replication must be automatic or user-managed";
  }
  const replicas = userManaged["replicas"] as unknown[];
  const locations = replicas.map((replica) => (isObject(replica) ? replica["location"] : null));
  if (replicas.length === 0 || new Set(locations).size < replicas.length) return "Replicas must be distinct";
  const keyed = replicas.filter((replica) => isObject(replica) && "customerManagedEncryption" in replica);
  if (keyed.length !== 0 && keyed.length !== replicas.length) return "Either all replicas have a key or none";
  for (const replica of replicas) {
    if (!isObject(replica) || typeof replica["location"] !== "string") return "A replica needs a location";
    const { location, ...encryption } = replica;
    const refused = refusedEncryption(encryption, String(location));
    if (refused !== null) return refused;
  }
  return null;
}

function refusedEncryption(given: Record<string, unknown>, location: string): string | null {
  const { customerManagedEncryption: encryption, ...others } = given;
  if (Object.keys(others).length > 0) return "The replication has an unknown member";
  if (encryption === undefined) return null;
  if (!isObject(encryption) || Object.keys(encryption).join() !== "kmsKeyName")
    return "The encryption needs kmsKeyName";
  const found = keyName.exec(String(encryption["kmsKeyName"]))?.[1];
  return found === location ? null : `The key must be in the location ${location}`;
}
