import sodium from "libsodium-wrappers";
import { beforeAll, describe, expect, it } from "vitest";
import { sealBox } from "./sealed-box.ts";

describe("a sealed box", () => {
  beforeAll(() => sodium.ready);

  it.each([0, 1, 31, 4096, 48 * 1024])("of %i bytes can be opened by libsodium", async (length) => {
    const { publicKey, privateKey } = sodium.crypto_box_keypair();
    const message = sodium.randombytes_buf(length);
    const sealed = await sealBox(message, new Uint8Array(publicKey));
    expect(sealed).toHaveLength(length + sodium.crypto_box_SEALBYTES);
    expect(Buffer.from(sodium.crypto_box_seal_open(sealed, publicKey, privateKey)).equals(message)).toBe(true);
  });

  it("differs each time and cannot be opened with another key", async () => {
    const [one, other] = [sodium.crypto_box_keypair(), sodium.crypto_box_keypair()];
    const message = sodium.from_string("same");
    const publicKey = new Uint8Array(one.publicKey);
    const sealed = await sealBox(message, publicKey);
    expect(Buffer.from(sealed).equals(await sealBox(message, publicKey))).toBe(false);
    expect(() => sodium.crypto_box_seal_open(sealed, other.publicKey, other.privateKey)).toThrow();
  });

  it.each([0, 31, 33])("is refused for a key of %i bytes", async (length) => {
    await expect(sealBox(new Uint8Array(1), new Uint8Array(length))).rejects.toThrow();
  });

  it("is refused for a key that shares no secret", async () => {
    await expect(sealBox(new Uint8Array(1), new Uint8Array(32))).rejects.toThrow();
  });
});
