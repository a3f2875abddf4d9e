import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";

/**
 * Signatures of release files in the format of minisign (https://jedisct1.github.io/minisign/, "Signature format"),
 * made with an Ed25519 key as PEM. The same file and key give the same bytes.
 */

const PREHASHED = "ED";
const KEY = "Ed";
/** Of the raw key at the end of its DER form. */
const KEY_BYTES = 32;
const ID_BYTES = 8;

/** @throws TypeError for a key of another kind */
export function signingKey(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new TypeError("the key must be an Ed25519 private key as PEM");
  return key;
}

const rawOf = (key: KeyObject): Buffer =>
  createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-KEY_BYTES);

/** Tells keys apart; minisign's own are random. */
const idOf = (key: KeyObject): Buffer => createHash("sha256").update(rawOf(key)).digest().subarray(0, ID_BYTES);

const base64 = (...parts: readonly (string | Buffer)[]): string =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string))).toString("base64");

/** The public key as `minisign -P` takes it. */
export const publicKeyOf = (key: KeyObject): string => base64(KEY, idOf(key), rawOf(key));

/** @param trusted one line, which is signed together with the signature */
export function signatureOf(content: Buffer, key: KeyObject, trusted: string): string {
  const signed = sign(null, createHash("blake2b512").update(content).digest(), key);
  const together = sign(null, Buffer.concat([signed, Buffer.from(trusted)]), key);
  return [
    "untrusted comment: verify with minisign -Vm FILE -P KEY",
    base64(PREHASHED, idOf(key), signed),
    `trusted comment: ${trusted}`,
    together.toString("base64"),
    "",
  ].join("\n");
}
