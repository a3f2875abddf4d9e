/** Settings of a bucket for backups (docs/operate/self-hosted.md). */
import { type Environment, Refusal } from "./settings.ts";

export interface S3Settings {
  /** An origin, without a slash at its end. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export const S3_SETTINGS: readonly string[] = [
  "BACKUP_S3_BUCKET",
  "BACKUP_S3_ENDPOINT",
  "BACKUP_S3_REGION",
  "BACKUP_S3_PREFIX",
  "BACKUP_S3_ACCESS_KEY_ID",
  "BACKUP_S3_SECRET_ACCESS_KEY",
  "BACKUP_S3_SECRET_ACCESS_KEY_FILE",
];

/** @returns undefined without any of them. @throws Refusal by the name of the setting */
export function s3Settings(env: Environment): S3Settings | undefined {
  const given = (name: string): string => env[`BACKUP_S3_${name}`] ?? "";
  if (!S3_SETTINGS.some((name) => env[name])) return undefined;
  const bucket = given("BUCKET");
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket))
    throw new Refusal("BACKUP_S3_BUCKET must be a bucket's name.");
  const region = given("REGION") || "us-east-1";
  if (!/^[a-z0-9-]{1,63}$/.test(region)) throw new Refusal("BACKUP_S3_REGION must be a region, such as eu-central-1.");
  const prefix = given("PREFIX").replace(/([^/])$/, "$1/");
  if (!/^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*$/.test(prefix) || prefix.length > 256)
    throw new Refusal(
      "BACKUP_S3_PREFIX must be folders of letters, digits, '.', '_' and '-', such as backups/sallyport.",
    );
  const [accessKeyId, secretAccessKey] = [given("ACCESS_KEY_ID"), given("SECRET_ACCESS_KEY")];
  if (!accessKeyId || !secretAccessKey)
    throw new Refusal("BACKUP_S3_ACCESS_KEY_ID and BACKUP_S3_SECRET_ACCESS_KEY are needed for BACKUP_S3_BUCKET.");
  const endpoint = endpointOf(given("ENDPOINT") || `https://s3.${region}.amazonaws.com`);
  return { endpoint, bucket, region, prefix, accessKeyId, secretAccessKey };
}

/** Backups are sealed, but requests are only signed: https, except to this machine. */
function endpointOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isLocal = url && ["127.0.0.1", "[::1]", "localhost"].includes(url.hostname);
  const isOrigin = url && url.href === `${url.origin}/`;
  if (!isOrigin || !(url.protocol === "https:" || (url.protocol === "http:" && isLocal)))
    throw new Refusal("BACKUP_S3_ENDPOINT must be https://HOST, or http:// to this machine, without a path.");
  return url.origin;
}
