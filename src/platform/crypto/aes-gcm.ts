import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";

const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Bytes that sealing adds to a value. */
export const GCM_OVERHEAD = IV_BYTES + TAG_BYTES;

/** 32 bytes. A `KeyObject` is imported once and reused for every value. */
type Key = Uint8Array | KeyObject;

/** AES-256-GCM with a random nonce; `context` is bound as associated data. Layout: nonce, ciphertext, tag. */
export function encrypt(key: Key, plain: Uint8Array, context: string): Uint8Array {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, iv);
  cipher.setAAD(Buffer.from(context));
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

/** Reverses `encrypt`. Throws when the key, the context or a single bit differs. */
export function decrypt(key: Key, sealed: Uint8Array, context: string): Uint8Array {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  if (bytes.length < GCM_OVERHEAD) throw new Error("sealed value is too short");
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, IV_BYTES));
  decipher.setAAD(Buffer.from(context));
  decipher.setAuthTag(bytes.subarray(bytes.length - TAG_BYTES));
  const plain = decipher.update(bytes.subarray(IV_BYTES, bytes.length - TAG_BYTES));
  // Adds no bytes in this mode; throws unless the authentication tag matches.
  decipher.final();
  return plain;
}
