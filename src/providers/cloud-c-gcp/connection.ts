import type { ServiceAccountKey } from "./key.ts";

/** A destination's connection to its project: with a service account's key, or as one by identity tokens. */
export interface CloudCConnection {
  credentials?: ServiceAccountKey;
  /** Replaces the key's own project. */
  project_id?: string;
  service_account_email?: string;
  identity_token_audience?: string;
  identity_token_key?: string;
  identity_token_ttl?: number;
  /** The encryption key of secrets with automatic replication. */
  kms_key_id?: string;
  /** Encryption keys by location of the replicas; an empty text is Google's own key. */
  replica_regions?: Readonly<Record<string, string>>;
  /** Older names of the fields above. */
  global_kms_key?: string;
  replication_locations?: readonly string[];
  locational_kms_keys?: Readonly<Record<string, string>>;
}

/**
 * Settings that replace Google's URLs. `CLOUD_C_SM_URL` is a base without `/v1`, as are those of STS and IAM.
 * `CLOUD_C_API_URL` replaces the addresses of the credentials engine: the service's host is the first part of the path.
 */
export interface CloudCSettings {
  CLOUD_C_API_URL?: string | undefined;
  CLOUD_C_SM_URL?: string | undefined;
  CLOUD_C_TOKEN_URL?: string | undefined;
  CLOUD_C_STS_URL?: string | undefined;
  CLOUD_C_IAM_URL?: string | undefined;
}

/** The connection's project, else the key's; the schema ensures that one is set. */
export const projectOf = ({ project_id, credentials }: CloudCConnection): string =>
  project_id ?? credentials?.project_id ?? "";

/** Token endpoints that Google has named in key files over time. */
const googleTokenHosts = ["oauth2.googleapis.com", "www.googleapis.com", "accounts.google.com"];

/**
 * The refusal of a key's token endpoint, one sentence; null when it is allowed. A key file is user input, so without
 * CLOUD_C_TOKEN_URL only Google's hosts are allowed.
 */
export function refuseTokenUri(credentials: ServiceAccountKey | undefined, settings: CloudCSettings): string | null {
  if (settings.CLOUD_C_TOKEN_URL || credentials === undefined) return null;
  const url = URL.parse(credentials.token_uri);
  if (url?.protocol === "https:" && url.port === "" && googleTokenHosts.includes(url.hostname)) return null;
  return `credentials: token_uri must be an https address of ${googleTokenHosts.join(", ")}`;
}
