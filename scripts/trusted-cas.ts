import { X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { Refusal } from "./settings.ts";

/**
 * Certificates of own authorities, which calls of the service trust beside public ones. Read once, at the start; each
 * runtime of that start has the same.
 */

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

/**
 * Has this process and its children trust them. The runtime takes those of its default network from a file that the
 * environment names.
 * @param dir of the service, for that file
 */
export function trustAuthorities(authorities: readonly string[], dir: string): void {
  if (authorities.length === 0) return;
  const path = join(dir, "trusted-cas.pem");
  writeFileSync(path, `${authorities.join("\n")}\n`, { mode: 0o600 });
  process.env["NODE_EXTRA_CA_CERTS"] = path;
  setDefaultCACertificates([...getCACertificates(), ...authorities]);
}

function isAuthority(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}
