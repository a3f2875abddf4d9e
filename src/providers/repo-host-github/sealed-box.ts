import { blake2b } from "@noble/hashes/blake2.js";
import nacl from "tweetnacl";

/**
 * Encrypts `message` for the X25519 key `publicKey` (32 bytes): an anonymous sealed box, compatible with libsodium's
 * crypto_box_seal. The result is the ephemeral public key and the box, 48 bytes longer than the message. libsodium
 * itself cannot run in a Worker, which may not compile WebAssembly.
 */
export function sealBox(message: Uint8Array, publicKey: Uint8Array): Uint8Array {
  const ephemeral = nacl.box.keyPair();
  const nonce = blake2b.create({ dkLen: nacl.box.nonceLength }).update(ephemeral.publicKey).update(publicKey).digest();
  const box = nacl.box(message, nonce, publicKey, ephemeral.secretKey);
  ephemeral.secretKey.fill(0);
  const sealed = new Uint8Array(ephemeral.publicKey.length + box.length);
  sealed.set(ephemeral.publicKey);
  sealed.set(box, ephemeral.publicKey.length);
  return sealed;
}
