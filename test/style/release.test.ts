import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { BUILD_DATE, RELEASE } from "../../src/platform/version.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const manifests = ["package.json", ...globSync("{agent,packages/*}/package.json")];
const read = (path: string): Manifest => JSON.parse(readFileSync(path, "utf8"));

describe("the release", () => {
  it("is the version of every package, and of each package that another one names", () => {
    expect(manifests.length).toBeGreaterThan(3);
    for (const path of manifests) {
      const { name, version, dependencies = {} } = read(path);
      expect([name, version]).toEqual([name, RELEASE]);
      for (const [other, wanted] of Object.entries(dependencies))
        if (other.startsWith("@sallyport/")) expect([path, other, wanted]).toEqual([path, other, RELEASE]);
    }
    const { version, packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
    expect(version).toBe(RELEASE);
    for (const path of manifests) expect(packages[path.replace(/\/?package\.json$/, "")].version, path).toBe(RELEASE);
  });

  it("is the newest one with a number in the changelog, with the date of its build", () => {
    const [newest] = /^## \[\d.*$/m.exec(readFileSync("CHANGELOG.md", "utf8")) ?? [];
    expect(newest).toBe(`## [${RELEASE}] - ${BUILD_DATE.slice(0, 10)}`);
  });

  it("is the version of the CSI driver in the guide's output", () => {
    const shown = readFileSync("docs/guides/volumes.md", "utf8").matchAll(/"ProviderVersion":"([^"]+)"/g);
    expect([...new Set([...shown].map(([, version]) => version))]).toEqual([RELEASE]);
  });

  it("is supported by the security policy", () => {
    const [minor] = /^\d+\.\d+/.exec(RELEASE) ?? [];
    expect(readFileSync("SECURITY.md", "utf8")).toContain(`| ${minor}.x | yes |`);
  });

  it("has a public key of minisign in the security policy, or the statement that there is none", () => {
    const policy = readFileSync("SECURITY.md", "utf8");
    const keys = [...policy.matchAll(/^Public key: `?([^`\s]+)`?$/gm)].map(([, key = ""]) =>
      Buffer.from(key, "base64"),
    );
    expect(keys.length > 0).toBe(!policy.includes("No release is signed yet, so there is no public key."));
    for (const key of keys) expect([key.length, key.subarray(0, 2).toString()]).toEqual([42, "Ed"]);
  });

  it("has one license in all packages, whose text is in LICENSE", () => {
    for (const path of manifests) expect([path, read(path).license]).toEqual([path, "Apache-2.0"]);
    expect(readFileSync("LICENSE", "utf8")).toMatch(/Apache License\s+Version 2\.0, January 2004/);
  });
});
