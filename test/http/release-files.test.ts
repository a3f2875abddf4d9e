import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BUDGET_KIB } from "../../scripts/deploy-check.ts";
import { type Lock, sbom } from "../../scripts/sbom.ts";
import { signatureOf } from "../../scripts/signature.ts";
import { RELEASE } from "../../src/platform/version.ts";
import { cloneOfWorkingTree } from "../smoke/local-service.ts";

const dir = mkdtempSync(join(tmpdir(), "sallyport-release-"));
const clone = cloneOfWorkingTree();
/** Build tools that are not part of the bundles; all other packages are copied, since bundlers follow links. */
const TOOLS =
  /^(?:\.\w+|node|wrangler|workerd|miniflare|esbuild|sharp|typescript|vite|vitest|@(?:cloudflare|esbuild|img|rolldown)\/.*)$/;
const keyFile = join(dir, "release-key.pem");
const { privateKey } = generateKeyPairSync("ed25519");
writeFileSync(keyFile, privateKey.export({ type: "pkcs8", format: "pem" }));
const [here, elsewhere] = [join(dir, "here"), join(dir, "elsewhere")];
afterAll(() => {
  for (const made of [dir, clone]) rmSync(made, { recursive: true, force: true });
});

function installInto(target: string): void {
  rmSync(join(target, "node_modules"));
  const lock: Lock = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
  const entries = readdirSync("node_modules").flatMap((name) =>
    name.startsWith("@") ? readdirSync(join("node_modules", name)).map((inner) => `${name}/${inner}`) : [name],
  );
  for (const name of entries) {
    const [from, to] = [resolve("node_modules", name), join(target, "node_modules", name)];
    mkdirSync(dirname(to), { recursive: true });
    if (TOOLS.test(name) || lock[`node_modules/${name}`]?.dev) symlinkSync(from, to);
    else cpSync(from, to, { recursive: true, verbatimSymlinks: true });
  }
  // Versions of one package only.
  for (const path of Object.keys(lock)) {
    const [, own] = /^(packages\/[^/]+\/node_modules)\//.exec(path) ?? [];
    if (own !== undefined) cpSync(own, join(target, own), { recursive: true });
  }
}

function run(program: string, args: string[], cwd: string) {
  // Under `npm test` wrangler prints errors only.
  const env = { ...process.env, WRANGLER_LOG: "log", RELEASE_KEY_FILE: keyFile };
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}

const read = (path: string): string => readFileSync(join(here, path), "utf8");

beforeAll(() => {
  installInto(clone);
  run(process.execPath, ["scripts/release.ts", here, "--no-packages"], clone);
  run(process.execPath, ["scripts/release.ts", elsewhere, "--no-packages"], process.cwd());
}, 300_000);

describe("npm run release", () => {
  it("gives the same bytes in another folder, at another time", () => {
    expect(read("SHA256SUMS")).toBe(readFileSync(join(elsewhere, "SHA256SUMS"), "utf8"));
    for (const path of [clone, process.cwd(), here])
      for (const file of ["worker/worker.js", "worker/worker.js.map", "sallyport.cdx.json", "sallyport-agent.mjs"])
        expect(read(file).includes(path), `${file} names ${path}`).toBe(false);
  });

  it("has digests that hold for every file, and fail for a changed one", () => {
    run("sha256sum", ["--check", "--strict", "SHA256SUMS"], here);
    const files = run("find", [".", "-type", "f", "!", "-name", "SHA256SUMS*"], here).trim().split("\n");
    expect(read("SHA256SUMS").trim().split("\n")).toHaveLength(files.length);
    writeFileSync(join(elsewhere, "LICENSE"), "another");
    expect(() => run("sha256sum", ["--check", "SHA256SUMS"], elsewhere)).toThrow("LICENSE: FAILED");
  });

  it("has a signature of the digests, by the key that RELEASE_KEY_FILE names", () => {
    const sums = readFileSync(join(here, "SHA256SUMS"));
    expect(read("SHA256SUMS.minisig")).toBe(signatureOf(sums, privateKey, `Sallyport ${RELEASE}`));
  });

  it("includes the Worker with console and migrations, deployable as it is", () => {
    expect(gzipSync(read("worker/worker.js")).length / 1024).toBeLessThan(BUDGET_KIB);
    expect(read("worker/assets/ui/index.html")).toMatch(/src="\/ui\/assets\/app-\w+\.js"/);
    expect(existsSync(join(here, "worker/migrations/0001_listings.sql"))).toBe(true);
    const wrangler = join(process.cwd(), "node_modules/wrangler/bin/wrangler.js");
    const said = run(
      process.execPath,
      [wrangler, "deploy", "--dry-run", "--outdir", join(dir, "out")],
      join(here, "worker"),
    );
    expect(said).toContain("--dry-run: exiting now.");
    expect(readFileSync(join(dir, "out/worker.js"), "utf8")).toBe(read("worker/worker.js"));
  });

  it("includes programs of this release", () => {
    for (const name of ["sallyport-agent.mjs", "sallyport-csi-dir.mjs", "sallyport.mjs"]) {
      expect(read(name)).toContain(`"${RELEASE}"`);
      run(process.execPath, ["--check", name], here);
    }
  });
});

describe("the bill of materials", () => {
  const lock: Lock = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
  type Bom = {
    components: { name: string; purl: string; hashes?: object[] }[];
    dependencies: { ref: string; dependsOn: string[] }[];
  };
  const bom = (of: Lock) => sbom(of, "2026-11-25T00:00:00Z") as Bom & { serialNumber: string };
  const { components, dependencies } = bom(lock);
  const names = components.map(({ name }) => name);

  it("has what is bundled and what runs it, with digests, and nothing that only tests need", () => {
    expect(names).toEqual(
      expect.arrayContaining(["zod", "jose", "preact", "grpc-js", "ws", "workerd", "esbuild", "miniflare"]),
    );
    for (const name of ["vitest", "octokit", "playwright-core", "typescript"]) expect(names).not.toContain(name);
    for (const { purl, hashes } of components)
      if (!purl.includes("%40sallyport"))
        expect([purl, hashes]).toEqual([purl, [expect.objectContaining({ alg: "SHA-512" })]]);
  });

  it("leads from the release to every component", () => {
    const reached = new Set([`pkg:npm/sallyport@${RELEASE}`]);
    for (const ref of reached)
      for (const next of dependencies.find((each) => each.ref === ref)?.dependsOn ?? []) reached.add(next);
    const ours = components.filter(({ purl }) => purl.includes("%40sallyport")).map(({ purl }) => purl);
    for (const ref of ours) reached.add(ref);
    for (const ref of reached)
      for (const next of dependencies.find((each) => each.ref === ref)?.dependsOn ?? []) reached.add(next);
    expect(components.map(({ purl }) => purl).filter((ref) => !reached.has(ref))).toEqual([]);
  });

  it("names the command line, whose package has the release's name, once", () => {
    expect(names).not.toContain("sallyport");
    expect(new Set(components.map(({ purl }) => purl)).size).toBe(components.length);
  });

  it("resolves a package as Node does, and has another number for other content", () => {
    const tree = (version: string): Lock => ({
      "": { name: "root", version: "1.0.0", dependencies: { a: "1", b: "1" } },
      "node_modules/a": { version: "1.0.0", dependencies: { b: "2" } },
      "node_modules/a/node_modules/b": { version },
      "node_modules/b": { version: "1.0.0" },
      "node_modules/t": { version: "1.0.0", dev: true },
    });
    const found = bom(tree("2.0.0"));
    expect(found.components.map(({ purl }) => purl)).toEqual(["pkg:npm/a@1.0.0", "pkg:npm/b@1.0.0", "pkg:npm/b@2.0.0"]);
    expect(found.dependencies.find(({ ref }) => ref === "pkg:npm/a@1.0.0")?.dependsOn).toEqual(["pkg:npm/b@2.0.0"]);
    expect(bom(tree("2.0.0")).serialNumber).toBe(found.serialNumber);
    expect(bom(tree("2.0.1")).serialNumber).not.toBe(found.serialNumber);
  });
});
