import { hsalsa, xsalsa20poly1305 } from "@noble/ciphers/salsa.js";
import { blake2b } from "@noble/hashes/blake2.js";

const NONCE_BYTES = 24;
/** The constant of Salsa20 for keys of 32 bytes, as four words. */
const SIGMA = words(new Uint8Array(new TextEncoder().encode("expand 32-byte k")));

/**
 * Encrypts `message` for the X25519 key `publicKey` (32 bytes): an anonymous sealed box, compatible with libsodium's
 * crypto_box_seal. Resolves with the ephemeral public key and the box, 48 bytes longer than the message. libsodium
 * itself cannot run in a Worker, which may not compile WebAssembly.
 * https://doc.libsodium.org/public-key_cryptography/sealed_boxes#algorithm-details
 * @throws DOMException when `publicKey` is no point of the curve that a secret can be shared with
 */
export async function sealBox(message: Uint8Array, publicKey: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const recipient = await crypto.subtle.importKey("raw", publicKey, "X25519", false, []);
  const pair = await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
  if (!("privateKey" in pair)) throw new Error("X25519 has pairs of keys only");
  const ephemeral = new Uint8Array((await crypto.subtle.exportKey("raw", pair.publicKey)) as ArrayBuffer);
  // The runtime's types call the member `$public`, which is C++ for `public`.
  const algorithm = { name: "X25519", public: recipient } as unknown as Parameters<typeof crypto.subtle.deriveBits>[0];
  const shared = await crypto.subtle.deriveBits(algorithm, pair.privateKey, 256);
  const key = new Uint32Array(8);
  hsalsa(SIGMA, words(new Uint8Array(shared)), new Uint32Array(4), key);
  const nonce = blake2b.create({ dkLen: NONCE_BYTES }).update(ephemeral).update(publicKey).digest();
  const box = xsalsa20poly1305(new Uint8Array(key.buffer), nonce).encrypt(message);
  const sealed = new Uint8Array(ephemeral.length + box.length);
  sealed.set(ephemeral);
  sealed.set(box, ephemeral.length);
  return sealed;
}

function words(bytes: Uint8Array<ArrayBuffer>): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}
