/**
 * `npm run agent:packages -- <directory> <architecture>…`: the node agent as packages without Node.js, and the files of
 * `/install/`. An agent is the bundle in the executable of Node (single executable application). The blob that is put
 * in is equal for all architectures, since it has no code cache.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { inject } from "postject";
import { BUILD_DATE, RELEASE } from "../src/platform/version.ts";
import { type ArchiveFile, debianPackage, tarGz } from "./archives.ts";

/** The version of the package `node`, whose executable is taken, and the digests of its parts per architecture. */
const NODE = "24.21.0";
const NODE_INTEGRITY = {
  x64: "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  arm64: "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
} as const;
export type Arch = keyof typeof NODE_INTEGRITY;
export const ARCHS = Object.keys(NODE_INTEGRITY) as Arch[];
const DEBIAN_ARCH: Readonly<Record<Arch, string>> = { x64: "amd64", arm64: "arm64" };

/** Marks the place of the blob in the executable; a constant of Node. */
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
/** A static asset of the platform has at most 25 MiB. */
const PART_BYTES = 23 * 1024 * 1024;
const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface AgentPackage {
  readonly arch: Arch;
  /** `sallyport-agent-…-linux-x64.tar.gz`. */
  readonly archive: { readonly name: string; readonly content: Buffer };
  readonly debian: { readonly name: string; readonly content: Buffer };
}

/** Builds one program of this repository as an executable without Node.js. @param output its path */
export async function buildExecutable(entry: string, arch: Arch, output: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "sallyport-executable-"));
  try {
    const at = (name: string) => join(work, name);
    buildSync({
      absWorkingDir: ROOT,
      entryPoints: [entry],
      outfile: at("main.cjs"),
      bundle: true,
      minify: true,
      platform: "node",
      format: "cjs",
      target: "node24",
      logLevel: "error",
      // Optional native addons of ws.
      external: ["bufferutil", "utf-8-validate"],
    });
    const config = {
      main: at("main.cjs"),
      output: at("blob"),
      disableExperimentalSEAWarning: true,
      // NODE_OPTIONS of a node's operator must not change the agent.
      useCodeCache: false,
      useSnapshot: false,
      execArgvExtension: "none",
    };
    writeFileSync(at("sea.json"), JSON.stringify(config));
    execFileSync(nodeOf("local", work), ["--experimental-sea-config", at("sea.json")], { stdio: "pipe" });
    copyFileSync(nodeOf(arch, work), output);
    chmodSync(output, 0o755);
    await inject(output, "NODE_SEA_BLOB", readFileSync(at("blob")), { sentinelFuse: FUSE });
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** The executable of Node for an architecture: the installed one, or that of the package for another architecture. */
function nodeOf(arch: Arch | "local", work: string): string {
  if (arch === "local" || (process.platform === "linux" && arch === process.arch)) {
    const installed = realpathSync(join(ROOT, "node_modules/node/bin/node"));
    const version = execFileSync(installed, ["--version"], { encoding: "utf8" }).trim();
    if (version !== `v${NODE}`) throw new Error(`node_modules has Node ${version}, and the packages need v${NODE}`);
    return installed;
  }
  const name = `node-linux-${arch}`;
  execFileSync("npm", ["pack", `${name}@${NODE}`, "--silent", "--pack-destination", work], { stdio: "pipe" });
  const tarball = join(work, `${name}-${NODE}.tgz`);
  const digest = `sha512-${createHash("sha512").update(readFileSync(tarball)).digest("base64")}`;
  if (digest !== NODE_INTEGRITY[arch]) throw new Error(`${name}@${NODE} is not the package that this release needs`);
  execFileSync("tar", ["-xzf", tarball, "-C", work, "package/bin/node"]);
  return join(work, "package/bin/node");
}

/** The package of an executable. @param executable its content */
export async function packageOf(arch: Arch, executable: Uint8Array): Promise<AgentPackage> {
  const time = new Date(BUILD_DATE);
  const own = (path: string): Buffer => readFileSync(join(ROOT, path));
  const docs = "usr/share/doc/sallyport-agent";
  const files: ArchiveFile[] = [
    { path: "usr/bin/sallyport-agent", content: executable, executable: true },
    { path: "usr/lib/systemd/system/sallyport-agent.service", content: own("agent/sallyport-agent.service") },
    { path: `${docs}/agent.md`, content: own("docs/guides/agent.md") },
    { path: `${docs}/copyright`, content: own("LICENSE") },
    { path: `${docs}/sallyport-agent-csi.conf`, content: own("agent/sallyport-agent-csi.conf") },
  ];
  const bytes = files.reduce((sum, { content }) => sum + content.length, 0);
  const control = `Package: sallyport-agent
Version: ${RELEASE}
Architecture: ${DEBIAN_ARCH[arch]}
Maintainer: Sallyport
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: libc6 (>= 2.28), libstdc++6, passwd
Section: admin
Priority: optional
Description: Sallyport node agent
 Carries out the volume operations of a Sallyport service on this machine.
`;
  const scripts = ["postinst", "prerm"].map(
    (name): ArchiveFile => ({
      path: name,
      content: own(`agent/packaging/${name}`),
      executable: true,
    }),
  );
  const controls = [{ path: "control", content: Buffer.from(control) }, ...scripts];
  return {
    arch,
    archive: { name: `sallyport-agent-${RELEASE}-linux-${arch}.tar.gz`, content: await tarGz(files, time) },
    debian: {
      name: `sallyport-agent_${RELEASE}_${DEBIAN_ARCH[arch]}.deb`,
      content: await debianPackage(controls, files, time),
    },
  };
}

/** The static files below `/install/`: the script `agent`, which has the digests, and the archives in parts. */
export function installFiles(packages: readonly Pick<AgentPackage, "arch" | "archive">[]): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  const cases = packages.map(({ arch, archive: { name, content } }) => {
    const parts = Array.from({ length: Math.ceil(content.length / PART_BYTES) }, (_, at) => `${name}.${at}`);
    for (const [at, part] of parts.entries()) files.set(part, content.subarray(at * PART_BYTES, (at + 1) * PART_BYTES));
    const sum = createHash("sha256").update(content).digest("hex");
    return `    ${arch}) sum=${sum} parts="${parts.join(" ")}" ;;`;
  });
  const script = readFileSync(join(ROOT, "agent/packaging/install.sh"), "utf8")
    .replaceAll("@VERSION@", RELEASE)
    .replace("@PACKAGES@", cases.join("\n"));
  const digest = createHash("sha256").update(script).digest("hex");
  return files.set("agent", Buffer.from(script)).set("agent.sha256", Buffer.from(`${digest}  agent\n`));
}

/** Builds the packages of these architectures. */
export async function agentPackages(archs: readonly Arch[]): Promise<AgentPackage[]> {
  const work = mkdtempSync(join(tmpdir(), "sallyport-packages-"));
  try {
    const packages: AgentPackage[] = [];
    for (const arch of archs) {
      const executable = join(work, arch);
      await buildExecutable("agent/src/main.ts", arch, executable);
      packages.push(await packageOf(arch, readFileSync(executable)));
    }
    return packages;
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** The command line without Node.js, as an archive with one executable. */
export async function cliArchive(arch: Arch): Promise<{ readonly name: string; readonly content: Buffer }> {
  const work = mkdtempSync(join(tmpdir(), "sallyport-cli-"));
  try {
    const executable = join(work, "sallyport");
    await buildExecutable("packages/cli/src/main.ts", arch, executable);
    const files: ArchiveFile[] = [
      { path: "sallyport", content: readFileSync(executable), executable: true },
      { path: "LICENSE", content: readFileSync(join(ROOT, "LICENSE")) },
    ];
    return { name: `sallyport-${RELEASE}-linux-${arch}.tar.gz`, content: await tarGz(files, new Date(BUILD_DATE)) };
  } finally {
    rmSync(work, { recursive: true });
  }
}

export function writeFiles(directory: string, files: ReadonlyMap<string, Uint8Array>): void {
  mkdirSync(directory, { recursive: true });
  for (const [name, content] of files) writeFileSync(join(directory, name), content);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [, , directory = "build/assets/install", ...archs] = process.argv;
  const files = installFiles(await agentPackages(archs.length > 0 ? (archs as Arch[]) : ARCHS));
  rmSync(directory, { recursive: true, force: true });
  writeFiles(directory, files);
  console.log(`${files.size} files in ${directory}`);
}
