/**
 * `npm run release`: the files of a release in `dist/`, with their digests and a bill of materials. The same sources
 * and lock file give the same bytes, in any folder and at any time.
 *
 *   SHA256SUMS      digests of all other files, for `sha256sum -c`
 *   SHA256SUMS.minisig  its signature, for `minisign -V`, by the key in the file that `RELEASE_KEY_FILE` names
 *   *.mjs           the node agent, the CSI driver and the command line, one file each, for Node 20 or newer
 *   sallyport-agent-*.tar.gz, *.deb, sallyport-*.tar.gz  the node agent and the command line for Linux without Node, per
 *                   architecture; not with `--no-packages`
 *   *.cdx.json      the bill of materials (CycloneDX)
 *   *.provenance.json  the provenance: which sources and parameters have made which files (in-toto, SLSA)
 *   worker/         the Worker, its migrations and its static assets with the console, to deploy with wrangler
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { BUILD_DATE, RELEASE } from "../src/platform/version.ts";
import { ARCHS, agentPackages, cliArchive, installFiles, writeFiles } from "./agent-packages.ts";
import { buildAssets } from "./build-assets.ts";
import { bundle } from "./deploy-check.ts";
import { commitOf, PROVENANCE, provenance } from "./provenance.ts";
import { type Lock, sbom } from "./sbom.ts";
import { publicKeyOf, signatureOf, signingKey } from "./signature.ts";

const PACKAGES = "--no-packages";
const [out = "dist"] = process.argv.slice(2).filter((argument) => argument !== PACKAGES);
const archs = process.argv.includes(PACKAGES) ? [] : ARCHS;
const temporary = mkdtempSync(join(tmpdir(), "sallyport-release-"));

async function release(): Promise<void> {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "worker"), { recursive: true });
  await buildAssets();
  await worker();
  for (const [folder, name] of [
    ["agent", "sallyport-agent"],
    ["packages/csi-dir", "sallyport-csi-dir"],
    ["packages/cli", "sallyport"],
  ] as const) {
    execFileSync(process.execPath, [join(folder, "build.ts")], { stdio: "pipe" });
    cpSync(join(folder, "dist", `${name}.mjs`), join(out, `${name}.mjs`));
  }
  await packagePrograms();
  for (const name of ["LICENSE", "CHANGELOG.md"]) cpSync(name, join(out, name));
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Lock };
  writeFileSync(join(out, "sallyport.cdx.json"), `${JSON.stringify(sbom(packages, BUILD_DATE), null, 2)}\n`);
  writeProvenance();
  const sums = filesIn(out).map((path) => `${digest(join(out, path))}  ${path}\n`);
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  signDigests();
  console.log(
    `Sallyport ${RELEASE}: ${sums.length} files in ${out}, digest of SHA256SUMS ${digest(join(out, "SHA256SUMS"))}`,
  );
}

function writeProvenance(): void {
  const files = new Map(filesIn(out).map((path) => [path, digest(join(out, path))]));
  const [commit, lock] = [commitOf("."), digest("package-lock.json")];
  if (commit === null) console.log("The sources are those of no commit: the provenance names none.");
  const of = { release: RELEASE, packages: archs.length > 0, commit, lock, files };
  writeFileSync(join(out, PROVENANCE), `${JSON.stringify(provenance(of), null, 2)}\n`);
}

function signDigests(): void {
  const path = process.env["RELEASE_KEY_FILE"];
  if (!path) return;
  const key = signingKey(readFileSync(path, "utf8"));
  const sums = readFileSync(join(out, "SHA256SUMS"));
  writeFileSync(join(out, "SHA256SUMS.minisig"), signatureOf(sums, key, `Sallyport ${RELEASE}`));
  console.log(`Signed for the public key ${publicKeyOf(key)}`);
}

/** The agent's packages with the files from which the Worker serves them, and the command line's archives. */
async function packagePrograms(): Promise<void> {
  const built = await agentPackages(archs);
  for (const { archive, debian } of built)
    for (const { name, content } of [archive, debian]) writeFileSync(join(out, name), content);
  for (const arch of archs) {
    const { name, content } = await cliArchive(arch);
    writeFileSync(join(out, name), content);
  }
  if (built.length > 0) writeFiles(join(out, "worker/assets/install"), installFiles(built));
}

/** As wrangler uploads it, with a configuration that deploys these files. */
async function worker(): Promise<void> {
  const into = join(out, "worker");
  await bundle(temporary);
  const built = join(temporary, "out");
  cpSync(join(built, "worker.js"), join(into, "worker.js"));
  const map = JSON.parse(readFileSync(join(built, "worker.js.map"), "utf8")) as { sources: string[] };
  // Paths of this machine would make two releases differ.
  const sources = map.sources.map((source) => sourcePath(resolve(built, source), source));
  const { sourceRoot: _, ...rest } = { sourceRoot: "", ...map, sources };
  writeFileSync(join(into, "worker.js.map"), JSON.stringify(rest));
  cpSync("migrations", join(into, "migrations"), { recursive: true });
  const isPackage = (path: string): boolean => relative("build/assets", path) === "install";
  cpSync("build/assets", join(into, "assets"), { recursive: true, filter: (path) => !isPackage(path) });
  const config = readFileSync("wrangler.toml", "utf8");
  writeFileSync(
    join(into, "wrangler.toml"),
    replaced(
      replaced(config, 'main = "src/worker.ts"', 'main = "worker.js"\nno_bundle = true'),
      'build/assets"',
      'assets"',
    ),
  );
}

function sourcePath(path: string, source: string): string {
  const at = path.lastIndexOf("node_modules/");
  if (at >= 0) return path.slice(at);
  const inside = relative(".", path).replaceAll("\\", "/");
  return inside.startsWith("..") ? source : inside;
}

function replaced(text: string, old: string, by: string): string {
  if (!text.includes(old)) throw new Error(`wrangler.toml has no ${old}`);
  return text.replace(old, by);
}

const digest = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

/** In one order on every machine. */
const filesIn = (dir: string): string[] =>
  readdirSync(dir, { recursive: true, encoding: "utf8" })
    .filter((path) => statSync(join(dir, path)).isFile())
    .map((path) => path.replaceAll("\\", "/"))
    .sort();

try {
  await release();
} finally {
  rmSync(temporary, { recursive: true });
}
