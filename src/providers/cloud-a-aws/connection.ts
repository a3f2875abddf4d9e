import type { Failure } from "../../contracts/failure.ts";
import { failure } from "../outcome.ts";

/** A destination's connection to its account. Unset fields are absent, never empty. */
export interface CloudAConnection {
  access_key_id?: string;
  secret_access_key?: string;
  region?: string;
  role_arn?: string;
  external_id?: string;
  kms_key_id?: string;
  /** Encryption keys by region of the replicas; an empty text is the default key of the region. */
  replica_regions?: Readonly<Record<string, string>>;
  identity_token_audience?: string;
  identity_token_key?: string;
  identity_token_ttl?: number;
}

/** The settings read here: base URLs that replace the regional ones, and the default credentials and region. */
export interface CloudASettings {
  CLOUD_A_SM_URL?: string | undefined;
  CLOUD_A_PS_URL?: string | undefined;
  CLOUD_A_STS_URL?: string | undefined;
  CLOUD_A_ACCESS_KEY_ID?: string | undefined;
  CLOUD_A_SECRET_ACCESS_KEY?: string | undefined;
  CLOUD_A_REGION?: string | undefined;
}

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** The resolved region and keys of a connection, before any role; no keys when it logs in with identity tokens. */
interface Account {
  region: string;
  keys: Credentials | null;
}

/** A region's name, such as eu-west-1 or us-gov-east-1. Part of the host name. */
export const regionPattern = /^[a-z]{2,4}(-[a-z]+)+-\d$/;

/**
 * Resolves the region and the keys of a connection: its own, else the deployment's. The failure's message names the
 * fields and settings that are missing.
 */
export function resolveAccount(
  connection: CloudAConnection,
  settings: CloudASettings,
): { ok: true; account: Account } | { ok: false; outcome: Failure } {
  const region = connection.region || settings.CLOUD_A_REGION;
  if (!region || !regionPattern.test(region)) {
    const message = "region must be given, because the deployment's setting CLOUD_A_REGION names none.";
    return { ok: false, outcome: failure("client", "region_missing", message) };
  }
  if (connection.identity_token_audience !== undefined) return { ok: true, account: { region, keys: null } };
  const own = connection.access_key_id !== undefined;
  const accessKeyId = own ? connection.access_key_id : settings.CLOUD_A_ACCESS_KEY_ID;
  const secretAccessKey = own ? connection.secret_access_key : settings.CLOUD_A_SECRET_ACCESS_KEY;
  if (!accessKeyId || !secretAccessKey) {
    const message =
      "access_key_id and secret_access_key must be given, because the deployment's settings CLOUD_A_ACCESS_KEY_ID and CLOUD_A_SECRET_ACCESS_KEY are not both set.";
    return { ok: false, outcome: failure("client", "credentials_missing", message) };
  }
  return { ok: true, account: { region, keys: { accessKeyId, secretAccessKey } } };
}

/** The target of a connection: the account and the region. Empty when they are not known. */
export function accountTargets(details: CloudAConnection, settings: CloudASettings): string[] {
  const resolved = resolveAccount(details, settings);
  if (!resolved.ok) return [];
  const { region, keys } = resolved.account;
  return [`${accountOfRole(details.role_arn) ?? accountOfKey(keys?.accessKeyId ?? "")} ${region}`];
}

/** The refusal of a role in another account, one sentence; null when the role may change. */
export function refuseOtherAccount(before: CloudAConnection, after: CloudAConnection): string | null {
  const [from, to] = [accountOfRole(before.role_arn), accountOfRole(after.role_arn)];
  return from === null || to === null || from === to
    ? null
    : `role_arn must stay in the account ${from}; another account is another destination`;
}

/** The refusal of a connection without region or credentials, one sentence; null when it has both. */
export function refuseUnresolved(details: CloudAConnection, settings: CloudASettings): string | null {
  const resolved = resolveAccount(details, settings);
  return resolved.ok ? null : resolved.outcome.message;
}

const accountOfRole = (roleArn: string | undefined) => roleArn?.split(":")[4] ?? null;

const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/**
 * The account of an access key, decoded from the key's id (keys since March 2019:
 * https://medium.com/@TalBeerySec/a-short-note-on-aws-key-id-f88cc4317489). Returns the id itself for older keys.
 */
export function accountOfKey(accessKeyId: string): string {
  const isNew = /^A[A-Z]{3}[Q-Z2-7][A-Z2-7]{11,}$/.test(accessKeyId);
  if (!isNew) return accessKeyId;
  // Ten characters hold 50 bits; the account's number is in the 40 bits after the first.
  const bits = [...accessKeyId.slice(4, 14)].reduce((sum, one) => sum * 32n + BigInt(base32.indexOf(one)), 0n);
  return String((bits >> 9n) & 0xff_ffff_ffffn).padStart(12, "0");
}
