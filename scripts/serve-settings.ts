/** Settings of `npm run serve` (docs/operate/self-hosted.md): those of the environment, then those of a file. */
import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { parseEnv } from "node:util";
import { S3_SETTINGS, type S3Settings, s3Settings } from "./backup-s3-settings.ts";
import { Forwarding } from "./forwarding.ts";
import { type Environment, port, Refusal } from "./settings.ts";
import { authoritiesIn } from "./trusted-cas.ts";

export interface BackupSettings {
  /** A directory, or a bucket. */
  readonly to: string | S3Settings;
  readonly everyMs: number;
  /** How many snapshots stay. */
  readonly keep: number;
  readonly token: string;
}

export interface ServeSettings {
  readonly host: string;
  readonly port: number;
  readonly stateDir: string;
  /** Files in PEM format; absent: plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly trustedProxies: readonly string[];
  /** Certificates of own authorities, in PEM format. */
  readonly trustedCas: readonly string[];
  readonly backup: BackupSettings | undefined;
  /** Time for running requests when the service stops. */
  readonly drainMs: number;
}

/** The names of all settings that are not the Worker's. */
export const SERVE_SETTINGS: readonly string[] = [
  "CONFIG",
  "STATE_DIR",
  "HOST",
  "PORT",
  "TLS_CERT",
  "TLS_KEY",
  "TRUSTED_PROXIES",
  "TRUSTED_CAS",
  "STOP_TIMEOUT",
  "MASTER_KEY_FILE",
  "BOOTSTRAP_SECRET_FILE",
  "BACKUP_DIR",
  "BACKUP_TOKEN",
  "BACKUP_TOKEN_FILE",
  "BACKUP_EVERY",
  "BACKUP_KEEP",
  ...S3_SETTINGS,
];

/** Mode bits: any permission of others. */
const OTHERS = 0o007;
/** Secrets that may be in a file of their own. */
const FILE_SECRETS = ["MASTER_KEY", "BOOTSTRAP_SECRET", "BACKUP_TOKEN", "BACKUP_S3_SECRET_ACCESS_KEY"] as const;
/** All settings that are secret (docs/operate/deploy.md). */
export const SECRET_SETTINGS: readonly string[] = [
  ...FILE_SECRETS,
  "AUDIT_HTTP_TOKEN",
  "CLOUD_A_SECRET_ACCESS_KEY",
  "CLOUD_B_CLIENT_SECRET",
  "OTLP_HEADERS",
];
const DEVELOPMENT = ["DEV_ROOT_TOKEN", "PLAYGROUND", "SEED", "AGENT", "LOG"] as const;
/** A longer timer of Node.js fires at once. */
const MAX_TIMER_MS = 24 * 86_400_000;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The environment, completed by the file that CONFIG names, and by those that hold secrets (`MASTER_KEY_FILE`). */
export function serveEnvironment(env: Environment): Record<string, string> {
  const given = Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const config = env["CONFIG"];
  const all: Record<string, string> = { ...(config ? fileSettings(config) : {}), ...Object.fromEntries(given) };
  for (const name of FILE_SECRETS) {
    const path = all[`${name}_FILE`];
    if (!path) continue;
    if (all[name]) throw new Refusal(`${name} and ${name}_FILE are both set: remove one.`);
    all[name] = readText(`${name}_FILE`, path).trim();
  }
  return all;
}

function fileSettings(path: string): Record<string, string> {
  const found = parseEnv(readText("CONFIG", path)) as Record<string, string>;
  if (SECRET_SETTINGS.some((name) => found[name]) && (statSync(path).mode & OTHERS) !== 0) {
    throw new Refusal(`${path} holds secrets and is open to every user: run \`chmod o= ${path}\`.`);
  }
  return found;
}

function readText(name: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (failure) {
    throw new Refusal(`${name} ${path} cannot be read: ${(failure as Error).message}.`);
  }
}

/** @throws Refusal by the name of the setting */
export function serveSettings(env: Environment): ServeSettings {
  for (const name of DEVELOPMENT)
    if (env[name])
      throw new Refusal(`${name} is for npm start: remove it. docs/operate/self-hosted.md has the settings.`);
  if (!env["MASTER_KEY"]) throw new Refusal("MASTER_KEY is required: base64 of 32 random bytes, kept in a safe.");
  const stateDir = env["STATE_DIR"] || env["STATE_DIRECTORY"];
  if (!stateDir) throw new Refusal("STATE_DIR is required: the directory of the data, which only this service uses.");
  const host = env["HOST"] || "127.0.0.1";
  if (!isIP(host)) throw new Refusal(`HOST must be an address of this machine, such as 0.0.0.0, not "${host}".`);
  const tls = tlsFiles(env);
  const trustedProxies = list(env["TRUSTED_PROXIES"]);
  checked("TRUSTED_PROXIES", () => new Forwarding(trustedProxies));
  const isLocal = host === "::1" || host.startsWith("127.");
  if (!isLocal && !tls && trustedProxies.length === 0) {
    throw new Refusal(
      `HOST ${host} would take tokens unencrypted: set TLS_CERT and TLS_KEY, or TRUSTED_PROXIES for a proxy that ends TLS.`,
    );
  }
  return {
    host,
    stateDir,
    tls,
    trustedProxies,
    trustedCas: trustedCas(env),
    port: port(env["PORT"] || "8787"),
    backup: backupSettings(env),
    drainMs: stopTimeout(env["STOP_TIMEOUT"] || "20s"),
  };
}

function tlsFiles(env: Environment): ServeSettings["tls"] {
  const [cert, key] = [env["TLS_CERT"], env["TLS_KEY"]];
  if (!cert && !key) return undefined;
  if (!cert || !key) throw new Refusal("TLS_CERT and TLS_KEY are needed together.");
  for (const [name, path] of [
    ["TLS_CERT", cert],
    ["TLS_KEY", key],
  ] as const)
    readText(name, path);
  return { cert, key };
}

function trustedCas(env: Environment): string[] {
  const path = env["TRUSTED_CAS"];
  if (!path) return [];
  if (env["NODE_EXTRA_CA_CERTS"]) throw new Refusal("TRUSTED_CAS and NODE_EXTRA_CA_CERTS are both set: remove one.");
  return authoritiesIn(readText("TRUSTED_CAS", path), `TRUSTED_CAS ${path}`);
}

function backupSettings(env: Environment): BackupSettings | undefined {
  const [dir, token, s3] = [env["BACKUP_DIR"], env["BACKUP_TOKEN"], s3Settings(env)];
  if (dir && s3) throw new Refusal("BACKUP_DIR and BACKUP_S3_BUCKET are both set: remove one.");
  const to = dir || s3;
  if (!to && !token) return undefined;
  if (!to || !token) throw new Refusal("BACKUP_TOKEN and one of BACKUP_DIR and BACKUP_S3_BUCKET are needed together.");
  const keep = Number(env["BACKUP_KEEP"] || "7");
  if (!Number.isInteger(keep) || keep < 1) throw new Refusal("BACKUP_KEEP must be a number of at least 1.");
  return { to, token, keep, everyMs: duration("BACKUP_EVERY", env["BACKUP_EVERY"] || "24h") };
}

function duration(name: string, text: string): number {
  const [, number, unit = ""] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(number) * (UNIT_MS[unit] ?? 0);
  if (!(ms > 0)) throw new Refusal(`${name} must be a duration such as 30s, 15m, 24h or 7d, not "${text}".`);
  return ms;
}

function stopTimeout(text: string): number {
  const ms = duration("STOP_TIMEOUT", text);
  if (ms > MAX_TIMER_MS) throw new Refusal(`STOP_TIMEOUT must be at most 24d, not "${text}".`);
  return ms;
}

const list = (text = ""): string[] =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

function checked(name: string, make: () => unknown): void {
  try {
    make();
  } catch (failure) {
    throw new Refusal(`${name}: ${(failure as Error).message}.`);
  }
}
