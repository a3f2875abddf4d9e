import { describe, expect, it } from "vitest";
import { hashPassword, isPassword, NO_PASSWORD } from "./passwords.ts";

describe("a password hash", () => {
  it("matches its password and no other", async () => {
    const hash = await hashPassword("correct horse");
    expect(await isPassword("correct horse", hash)).toBe(true);
    expect(await isPassword("correct horsf", hash)).toBe(false);
    expect(await isPassword("", hash)).toBe(false);
  });

  it("has a salt: the same password has two hashes", async () => {
    expect(await hashPassword("a")).not.toBe(await hashPassword("a"));
  });

  it("is verified with the cost that it names", async () => {
    const hash = await hashPassword("a", { N: 2, r: 8, p: 1 });
    expect(hash).toMatch(/^scrypt\$2\$8\$1\$/);
    expect(await isPassword("a", hash)).toBe(true);
    expect(await isPassword("a", hash.replace("$2$", "$4$"))).toBe(false);
    expect(await hashPassword("a")).toMatch(/^scrypt\$16384\$8\$1\$/);
  });

  it("does not contain the password", async () => {
    expect(await hashPassword("hunter2-canary")).not.toContain("canary");
  });

  it("of an unknown user matches no password", async () => {
    expect(await isPassword("", NO_PASSWORD)).toBe(false);
    expect(await isPassword("anything", NO_PASSWORD)).toBe(false);
  });
});
