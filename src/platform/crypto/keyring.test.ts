import { expect, it } from "vitest";
import { decrypt, encrypt, GCM_OVERHEAD } from "./aes-gcm.ts";
import { parseKeyring, Sealed } from "./keyring.ts";
import { refuseIfSealed } from "./refuse-if-sealed.ts";

const key = (fill: number) => Buffer.alloc(32, fill);
const text = (fill: number) => key(fill).toString("base64");

it("seals under the first master key and opens under every one", () => {
  const ring = parseKeyring(`${text(1)}, ${text(2)},`);
  expect(Buffer.from(ring.newest.bytes)).toEqual(key(1));
  expect([...ring.byId.values()].map(({ bytes }) => bytes[0])).toEqual([1, 2]);
});

it("identifies a key by 8 digits that do not depend on its position", () => {
  const [first, second] = [parseKeyring(`${text(1)},${text(2)}`), parseKeyring(text(2))];
  expect(second.newest.id).toMatch(/^[0-9a-f]{8}$/);
  expect([...first.byId.keys()][1]).toBe(second.newest.id);
});

it("accepts both alphabets of base64, with and without padding", () => {
  const bytes = key(0xfb);
  for (const spelling of [bytes.toString("base64"), bytes.toString("base64url"), `${bytes.toString("base64url")}=`]) {
    expect(Buffer.from(parseKeyring(spelling).newest.bytes)).toEqual(bytes);
  }
});

it.each(["x", text(1).slice(1), `${text(1)}A`, `${text(1)}==`, key(1).toString("hex"), `*${text(1)}`, "é".repeat(43)])(
  "refuses %j and does not repeat it",
  (wrong) => {
    const failure = (() => {
      try {
        parseKeyring(`${text(3)},${wrong}`);
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(failure).toBeInstanceOf(Sealed);
    expect(String(failure)).toContain("key 2 of MASTER_KEY is not base64 of 32 bytes");
    expect(String(failure)).not.toContain(wrong.length > 1 ? wrong : text(3));
  },
);

it("opens sealed values only with the same key, context and bits", () => {
  const plain = Buffer.from("value");
  const sealed = encrypt(key(1), plain, "here");
  expect(sealed.length).toBe(plain.length + GCM_OVERHEAD);
  expect(Buffer.from(decrypt(key(1), sealed, "here"))).toEqual(plain);
  expect(() => decrypt(key(2), sealed, "here")).toThrow();
  expect(() => decrypt(key(1), sealed, "there")).toThrow();
  for (let at = 0; at < sealed.length; at++) {
    const altered = Buffer.from(sealed);
    altered.writeUInt8(altered.readUInt8(at) ^ 0x80, at);
    expect(() => decrypt(key(1), altered, "here"), `byte ${at}`).toThrow();
  }
  for (let length = 0; length < sealed.length; length++) {
    expect(() => decrypt(key(1), sealed.subarray(0, length), "here")).toThrow();
  }
});

it("uses a new nonce for each value", () => {
  const nonces = Array.from({ length: 20 }, () => encrypt(key(1), Buffer.from("value"), "here").subarray(0, 12));
  expect(new Set(nonces.map((nonce) => Buffer.from(nonce).toString("hex"))).size).toBe(20);
});

it("opens a value at an offset of a larger buffer", () => {
  const sealed = encrypt(key(1), Buffer.from("value"), "here");
  const larger = Buffer.concat([Buffer.alloc(7, 9), sealed, Buffer.alloc(5, 9)]);
  expect(Buffer.from(decrypt(key(1), larger.subarray(7, 7 + sealed.length), "here")).toString()).toBe("value");
});

it("converts only Sealed errors into a refusal", () => {
  const refused = refuseIfSealed(() => {
    throw new Sealed("sealed: because");
  });
  expect(refused).toEqual({ ok: false, reason: "sealed", message: "sealed: because" });
  expect(() =>
    refuseIfSealed(() => {
      throw new TypeError("a defect");
    }),
  ).toThrow("a defect");
});
