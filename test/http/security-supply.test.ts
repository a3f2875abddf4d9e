import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

interface Package {
  readonly version?: string;
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
  readonly overrides?: Record<string, string>;
  readonly allowScripts?: Record<string, boolean>;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly hasInstallScript?: boolean;
}

const read = (name: string): string => readFileSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), "utf8");
const lock: Record<string, Package> = JSON.parse(read("package-lock.json")).packages;
const root: Package = JSON.parse(read("package.json"));
const ours = Object.entries(lock).filter(([place, { link }]) => !place.includes("node_modules/") && !link);
const installed = Object.entries(lock).filter(([place, { link }]) => place.includes("node_modules/") && !link);
const nameOf = (place: string): string => place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);

/** An exact version; under another name (`npm:name@1.2.3`), too. */
const EXACT = /^(npm:(@[^/]+\/)?[^@/]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/;

describe("third-party packages", () => {
  it("have one exact version in every package.json and in the lock file", () => {
    expect(ours.map(([place]) => place)).toContain("agent");
    for (const [place, locked] of ours) {
      const written: Package = JSON.parse(read(place === "" ? "package.json" : `${place}/package.json`));
      for (const kind of ["dependencies", "devDependencies", "optionalDependencies", "overrides"] as const) {
        for (const [name, version] of Object.entries(written[kind] ?? {})) {
          expect(version, `${name} of ${place || "the root"}`).toMatch(EXACT);
          if (kind !== "overrides") expect(locked[kind]?.[name], name).toBe(version);
        }
      }
    }
  });

  it("have a digest in the lock file, and no address", () => {
    expect(installed.length).toBeGreaterThan(100);
    for (const [place, { integrity, resolved }] of installed) {
      expect(integrity, place).toMatch(/^sha512-/);
      expect(resolved, place).toBeUndefined();
    }
  });

  it("run no install scripts except the listed one", () => {
    const scripts = [
      ...new Set(installed.filter(([, { hasInstallScript }]) => hasInstallScript).map(([at]) => nameOf(at))),
    ];
    const listed = root.allowScripts ?? {};
    expect(scripts.sort()).toEqual(Object.keys(listed).sort());
    expect(Object.keys(listed).filter((name) => listed[name])).toEqual(["node"]);
  });
});
