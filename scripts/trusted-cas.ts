import { X509Certificate } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getCACertificates, rootCertificates, setDefaultCACertificates } from "node:tls";
import { type Environment, Refusal } from "./settings.ts";

/**
 * Certificates of authorities, which calls of the service trust: public ones from the system's store, and own ones. Read
 * once, at the start; each runtime of that start has the same.
 */

export const NO_STORE =
  "The system has no store of certificate authorities: those of Node.js are trusted instead. Install the package ca-certificates.";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The certificates in a file. @throws Refusal by the name of the setting, unless each is of an authority */
export function authoritiesIn(text: string, from: string): string[] {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text))
    throw new Refusal(`${from} has a private key: name a file that has certificates only.`);
  const found = text.match(CERTIFICATE) ?? [];
  if (found.length === 0) throw new Refusal(`${from} has no certificate in PEM format.`);
  if (text.split("-----BEGIN ").length - 1 > found.length)
    throw new Refusal(`${from} has a certificate without an end, or something else than certificates.`);
  for (const [at, pem] of found.entries())
    if (!isAuthority(pem)) throw new Refusal(`${from}: certificate ${at + 1} is not that of an authority.`);
  return found;
}

interface Trust {
  /** Beside the system's store, for the networks of the runtime. */
  readonly authorities: readonly string[];
  readonly hasStore: boolean;
}

/**
 * Has this process and its children trust own authorities, and those of Node.js where the system has no store. The
 * runtime takes those of its default network from a file that the environment names.
 * @param dir of the service, for that file
 */
export function trustAuthorities(own: readonly string[], dir: string, env: Environment = process.env): Trust {
  const hasStore = hasSystemStore(env);
  const authorities = hasStore ? own : [...rootCertificates, ...own];
  if (authorities.length === 0) return { authorities, hasStore };
  const path = join(dir, "trusted-cas.pem");
  writeFileSync(path, `${[...authorities, ...getCACertificates("extra")].join("\n")}\n`, { mode: 0o600 });
  process.env["NODE_EXTRA_CA_CERTS"] = path;
  if (own.length > 0) setDefaultCACertificates([...getCACertificates(), ...own]);
  return { authorities, hasStore };
}

/** Whether the runtime finds certificates where BoringSSL looks for them: in a file, or in a directory by hash. */
function hasSystemStore(env: Environment): boolean {
  const file = env["SSL_CERT_FILE"] || "/etc/ssl/cert.pem";
  const dirs = (env["SSL_CERT_DIR"] || "/etc/ssl/certs").split(":");
  try {
    if (readFileSync(file, "utf8").includes("-----BEGIN ")) return true;
  } catch {
    // The directories may have them.
  }
  return dirs.some((dir) => {
    try {
      return readdirSync(dir).some((name) => /^[0-9a-f]{8}\.\d+$/.test(name));
    } catch {
      return false;
    }
  });
}

function isAuthority(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}
