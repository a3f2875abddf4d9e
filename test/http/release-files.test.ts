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
import * as z from "zod";
import { BUDGET_KIB } from "../../scripts/deploy-check.ts";
import { commitOf, PROVENANCE, provenance } from "../../scripts/provenance.ts";
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
  const env = { ...process.env, WRANGLER_LOG: "log", RELEASE_KEY_FILE: keyFile, GIT_DIR: join(dir, "no-git") };
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}

/** The fields that in-toto and SLSA require, and no others of theirs than those that we write. */
const Digest = z.union([
  z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  z.strictObject({ gitCommit: z.string().regex(/^[0-9a-f]{40}$/) }),
]);
const Files = z.array(
  z.strictObject({ name: z.string().min(1), digest: z.record(z.string(), z.string()).pipe(Digest) }),
);
const Statement = z.strictObject({
  _type: z.literal("https://in-toto.io/Statement/v1"),
  subject: Files.transform((files) => files as { name: string; digest: { sha256: string } }[]),
  predicateType: z.literal("https://slsa.dev/provenance/v1"),
  predicate: z.strictObject({
    buildDefinition: z.strictObject({
      buildType: z.string().regex(/^[a-z]+:\S+$/),
      externalParameters: z.strictObject({ release: z.string(), packages: z.boolean() }),
      resolvedDependencies: Files,
    }),
    runDetails: z.strictObject({ builder: z.strictObject({ id: z.string().regex(/^[a-z]+:\S+$/) }) }),
  }),
});

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

  it("has a provenance of in-toto and SLSA for exactly the files with digests", () => {
    const { subject, predicate } = Statement.parse(JSON.parse(read(PROVENANCE)));
    const listed = subject.map(({ name, digest }) => `${digest.sha256}  ${name}`);
    const sums = read("SHA256SUMS").trim().split("\n");
    expect(listed).toEqual(sums.filter((line) => !line.endsWith(`  ${PROVENANCE}`)));
    expect(sums.length).toBe(listed.length + 1);
    const [lock] = run("sha256sum", ["package-lock.json"], process.cwd()).split(" ");
    const { externalParameters, resolvedDependencies } = predicate.buildDefinition;
    expect(externalParameters).toEqual({ release: RELEASE, packages: false });
    expect(resolvedDependencies).toEqual([{ name: "package-lock.json", digest: { sha256: lock } }]);
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

describe("the provenance", () => {
  it("names the commit of a checkout, unless its files differ from it", () => {
    const checkout = join(dir, "checkout");
    const git = (...args: string[]) => {
      const author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
      const { status, stdout, stderr } = spawnSync("git", ["-C", checkout, ...author, ...args], { encoding: "utf8" });
      expect([status, stderr]).toEqual([0, expect.any(String)]);
      return stdout.trim();
    };
    mkdirSync(checkout);
    expect(commitOf(checkout)).toBeNull();
    git("init", "-q");
    writeFileSync(join(checkout, "file"), "one");
    git("add", "file");
    git("commit", "-qm", "one");
    const commit = git("rev-parse", "HEAD");
    expect(commitOf(checkout)).toBe(commit);
    const made = provenance({ release: "1.0.0", packages: true, commit, lock: "a".repeat(64), files: new Map() });
    const { resolvedDependencies } = Statement.parse(made).predicate.buildDefinition;
    expect(resolvedDependencies[0]).toEqual({ name: "source", digest: { gitCommit: commit } });
    writeFileSync(join(checkout, "file"), "two");
    expect(commitOf(checkout)).toBeNull();
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
