import { createHash, createPublicKey, generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { parseAppKey } from "./app-key.ts";

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pkcs1 = privateKey.export({ type: "pkcs1", format: "pem" }).toString();
const pkcs8 = privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("an application's private key", () => {
  const spki = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const parsed = { ok: true, pem: pkcs8, fingerprint: createHash("sha256").update(spki).digest("base64") };

  it.each([
    ["PKCS#1", pkcs1],
    ["PKCS#8", pkcs8],
    ["CRLF", pkcs1.replaceAll("\n", "\r\n")],
    ["the characters \\n", pkcs1.replaceAll("\n", "\\n")],
    ["the characters \\r\\n", pkcs8.replaceAll("\n", "\\r\\n")],
    ["no line ends", pkcs8.replaceAll("\n", " ")],
    ["white space around", `\n  ${pkcs1}\n\n`],
  ])("is parsed with %s to PKCS#8 and a fingerprint", (_what, given) => {
    expect(parseAppKey(given)).toEqual(parsed);
  });

  const small = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey;
  const curve = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  it.each([
    ["nothing", "", "must be one PEM block"],
    ["a public key", createPublicKey(privateKey).export({ type: "spki", format: "pem" }).toString(), "must be one PEM"],
    ["two keys", pkcs1 + pkcs1, "must be one PEM block"],
    ["a wrong label", pkcs1.replaceAll("RSA ", ""), "not a readable"],
    ["half a key", `${pkcs1.slice(0, 400)}\n-----END RSA PRIVATE KEY-----`, "not a readable"],
    ["a short key", small.export({ type: "pkcs1", format: "pem" }).toString(), "2048 bits; it has 1024"],
    ["another kind of key", curve.export({ type: "pkcs8", format: "pem" }).toString(), "must be an RSA key"],
    [
      "a passphrase",
      privateKey.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "p" }).toString(),
      "must not be encrypted",
    ],
  ])("is refused as %s", (_what, given, message) => {
    expect(parseAppKey(given)).toEqual({ ok: false, message: expect.stringContaining(message) });
  });
});
