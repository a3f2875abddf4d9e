import { createHash, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";

type AppKey = { ok: true; pem: string; fingerprint: string } | { ok: false; message: string };

/** The least key size for RS256 (RFC 7518, 3.3). */
const minBits = 2048;

const block = /^-----BEGIN ((?:RSA )?PRIVATE KEY)-----([A-Za-z0-9+/=\s]+)-----END \1-----$/;

/**
 * Reads the private key of a custom application: an RSA key of at least 2048 bits, unencrypted, PKCS#1 (GitHub's format)
 * or PKCS#8. Line ends may be LF, CRLF, the two characters `\n` (a pasted variable) or missing.
 *
 * `pem` is the key as PKCS#8. `fingerprint` is the one shown by GitHub without its prefix `SHA256:`: base64 of SHA-256
 * over the DER of the SubjectPublicKeyInfo ("Managing private keys for GitHub Apps"). A refusal's message is one
 * sentence that never quotes the input.
 */
export function parseAppKey(given: string): AppKey {
  const text = given.replace(/\\r|\\n/g, "\n").trim();
  if (/ENCRYPTED/.test(text)) return refuse("private_key must not be encrypted with a passphrase");
  const [, label, body] = block.exec(text) ?? [];
  if (label === undefined || body === undefined) {
    return refuse("private_key must be one PEM block: BEGIN RSA PRIVATE KEY or BEGIN PRIVATE KEY");
  }
  const key = readKey(body, label === "PRIVATE KEY" ? "pkcs8" : "pkcs1");
  if (key === null) return refuse("private_key is not a readable RSA private key");
  if (key.asymmetricKeyType !== "rsa") return refuse("private_key must be an RSA key");
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < minBits) return refuse(`private_key must have at least ${minBits} bits; it has ${bits}`);
  const spki = createPublicKey(key).export({ type: "spki", format: "der" });
  return {
    ok: true,
    pem: key.export({ type: "pkcs8", format: "pem" }).toString(),
    fingerprint: createHash("sha256").update(spki).digest("base64"),
  };
}

const refuse = (message: string): AppKey => ({ ok: false, message });

function readKey(body: string, type: "pkcs1" | "pkcs8"): KeyObject | null {
  try {
    return createPrivateKey({ key: Buffer.from(body, "base64"), format: "der", type });
  } catch {
    return null;
  }
}
