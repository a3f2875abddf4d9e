import sodium from "libsodium-wrappers";
import { beforeAll, describe, expect, it } from "vitest";
import { sealBox } from "./sealed-box.ts";

describe("a sealed box", () => {
  beforeAll(() => sodium.ready);

  it.each([0, 1, 31, 4096, 48 * 1024])("of %i bytes can be opened by libsodium", (length) => {
    const { publicKey, privateKey } = sodium.crypto_box_keypair();
    const message = sodium.randombytes_buf(length);
    const sealed = sealBox(message, publicKey);
    expect(sealed).toHaveLength(length + sodium.crypto_box_SEALBYTES);
    expect(Buffer.from(sodium.crypto_box_seal_open(sealed, publicKey, privateKey)).equals(message)).toBe(true);
  });

  it("differs each time and cannot be opened with another key", () => {
    const [one, other] = [sodium.crypto_box_keypair(), sodium.crypto_box_keypair()];
    const message = sodium.from_string("same");
    const sealed = sealBox(message, one.publicKey);
    expect(Buffer.from(sealed).equals(sealBox(message, one.publicKey))).toBe(false);
    expect(() => sodium.crypto_box_seal_open(sealed, other.publicKey, other.privateKey)).toThrow();
  });
});
