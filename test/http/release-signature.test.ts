import { spawnSync } from "node:child_process";
import { createHash, createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { publicKeyOf, signatureOf, signingKey } from "../../scripts/signature.ts";

/* Signatures of releases, held against files that minisign 0.11 has made, and against minisign where it is installed. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-signature-"));
afterAll(() => rmSync(dir, { recursive: true }));

/** Verifies by the description of the format, and by no code of ours. @returns the trusted comment, or the fault */
function verified(content: Buffer, signature: string, publicKey: string): string {
  const key = Buffer.from(publicKey, "base64");
  const [untrusted = "", first = "", comment = "", second = "", end] = signature.split("\n");
  const signed = Buffer.from(first, "base64");
  if (!untrusted.startsWith("untrusted comment: ") || !comment.startsWith("trusted comment: ") || end !== "")
    return "form";
  if (key.length !== 42 || signed.length !== 74 || String(key.subarray(0, 2)) !== "Ed") return "length";
  if (String(signed.subarray(0, 2)) !== "ED") return "algorithm";
  if (!key.subarray(2, 10).equals(signed.subarray(2, 10))) return "another key";
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key.subarray(10)]);
  const ed25519 = createPublicKey({ key: der, format: "der", type: "spki" });
  const trusted = comment.slice("trusted comment: ".length);
  const parts = [
    [createHash("blake2b512").update(content).digest(), signed.subarray(10)],
    [Buffer.concat([signed.subarray(10), Buffer.from(trusted)]), Buffer.from(second, "base64")],
  ] as const;
  return parts.every(([bytes, of]) => verify(null, bytes, ed25519, of)) ? trusted : "signature";
}

const pem = () => generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();

describe("a signature of a release", () => {
  const content = Buffer.from("1f2e  sallyport.mjs\n");
  const key = signingKey(pem());
  const made = signatureOf(content, key, "Sallyport 0.2.0");

  it("has the form of minisign's own", () => {
    const theirs = [
      "untrusted comment: signature from minisign secret key",
      "RURY9Q8fBMabf5uo49LFN/OgrdAGVgYYu1kFCBOJfLhWGAYzO9jApAKnugQFWVseOse/E7DVZfiVAHQV40I1jY9JWqCZh0cYbgA=",
      "trusted comment: of minisign 0.11",
      "C4nufPREkfqROiWe5RHW5BeqtfmlqJ/hYrJSJWH1P+KFszyt5rEiOteXbNAxowlFYwoYSwAM3JqV22BarNC1BQ==",
      "",
    ].join("\n");
    const THEIR_KEY = "RWRY9Q8fBMabf7NllTLtbPgV1zQ2AxOZSt6h4Oq/U1s8IWousF4INZB7";
    expect(verified(Buffer.from("content of the release\n"), theirs, THEIR_KEY)).toBe("of minisign 0.11");
    expect(verified(content, made, publicKeyOf(key))).toBe("Sallyport 0.2.0");
    expect(signatureOf(content, key, "Sallyport 0.2.0")).toBe(made);
  });

  it("holds for no other content, comment or key", () => {
    const other = signingKey(pem());
    expect(verified(Buffer.from("another"), made, publicKeyOf(key))).toBe("signature");
    expect(verified(content, made.replace("0.2.0", "0.3.0"), publicKeyOf(key))).toBe("signature");
    expect(verified(content, made, publicKeyOf(other))).toBe("another key");
    const [ours, theirs] = [key, other].map((each) => Buffer.from(publicKeyOf(each), "base64"));
    const mixed = Buffer.concat([ours?.subarray(0, 10) ?? ours, theirs?.subarray(10) ?? theirs] as Buffer[]);
    expect(verified(content, made, mixed.toString("base64"))).toBe("signature");
  });

  it("is made with an Ed25519 key only, whose text no error repeats", () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const text = rsa.export({ type: "pkcs8", format: "pem" }).toString();
    expect(() => signingKey(text)).toThrow("the key must be an Ed25519 private key as PEM");
    expect(() => signingKey("no key")).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining("no key") }),
    );
  });

  it("is accepted by minisign, where it is installed, which refuses another content", () => {
    const path = join(dir, "SHA256SUMS");
    writeFileSync(`${path}.minisig`, made);
    const minisign = (text: Buffer) => {
      writeFileSync(path, text);
      return spawnSync("minisign", ["-Vm", path, "-P", publicKeyOf(key)], { encoding: "utf8" });
    };
    const { error, status, stdout } = minisign(content);
    if ((error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") return;
    expect([status, stdout]).toEqual([0, expect.stringContaining("Trusted comment: Sallyport 0.2.0")]);
    expect(minisign(Buffer.from("another")).status).toBe(1);
  });
});
