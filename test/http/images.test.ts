import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentPackages } from "../../scripts/agent-packages.ts";
import { isLong } from "../support/long.ts";

/*
 * The images of the three recipes, built twice and run, where buildah is on the PATH and their bases can be had: they are
 * in its store under their names, or its registry answers (docs/internals/tests.md). Settings of buildah's own, such as
 * BUILDAH_ISOLATION and CONTAINERS_STORAGE_CONF, apply.
 */

const SLOW = { timeout: 600_000 };
const baseOf = (file: string): string => /^ARG BASE=(\S+)$/m.exec(readFileSync(file, "utf8"))?.[1] ?? "";
const SERVICE = "deploy/Containerfile";
const RELAY = "packages/relay/Containerfile";
const AGENT = "agent/Containerfile";

function canBuild(): boolean {
  if (!isLong) return false;
  const can = [SERVICE, RELAY, AGENT].map(baseOf).every((base) => {
    const { status } = spawnSync("buildah", ["pull", "--quiet", "--policy", "missing", base], { timeout: 60_000 });
    return status === 0;
  });
  if (!can) console.warn("images: not built; buildah or a base image is not to be had here");
  return can;
}

const buildah = async (...args: string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)("buildah", args, { maxBuffer: 64 << 20, timeout: SLOW.timeout });
  return stdout.trim();
};

interface Image {
  /** Digests of its layers: the names in its configuration differ from build to build. */
  readonly layers: readonly string[];
  readonly user: string;
  readonly command: readonly string[];
  readonly health: readonly string[];
}

/** Builds an image without cached layers, with the times of files set to one moment. */
async function build(file: string, context: string, tag: string): Promise<Image> {
  const how = ["--format", "docker", "--pull-never", "--layers=false", "--timestamp", "1700000000", "--quiet"];
  await buildah("build", ...how, "-f", file, "-t", tag, context);
  const { Docker } = JSON.parse(await buildah("inspect", "--type", "image", tag));
  const { User, Entrypoint, Cmd, Healthcheck } = Docker.config;
  const command = [...(Entrypoint ?? []), ...(Cmd ?? [])];
  return { layers: Docker.rootfs.diff_ids, user: User, command, health: Healthcheck?.Test.slice(1) ?? [] };
}

/** Runs a script of sh in a new container of an image, as its user. */
async function run(tag: string, script: string, ...options: string[]): Promise<string> {
  const container = await buildah("from", "--pull-never", tag);
  try {
    return await buildah("run", ...options, container, "--", "sh", "-c", script);
  } finally {
    await buildah("rm", container);
  }
}

const quoted = (words: readonly string[]): string =>
  words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");

describe.runIf(canBuild())("the images", () => {
  const work = mkdtempSync(join(tmpdir(), "sallyport-images-"));
  const dist = join(work, "dist");
  const tags: string[] = [];
  beforeAll(async () => {
    mkdirSync(dist);
    for (const { debian } of await agentPackages(["x64"])) writeFileSync(join(dist, debian.name), debian.content);
    await promisify(execFile)(process.execPath, ["packages/relay/build.ts"]);
  }, SLOW.timeout);
  afterAll(async () => {
    if (tags.length > 0) await buildah("rmi", ...tags);
    rmSync(work, { recursive: true, force: true });
  }, SLOW.timeout);

  async function builtTwice(file: string, context: string, name: string): Promise<Image & { readonly tag: string }> {
    const tag = `localhost/sallyport-test-${name}`;
    const images: Image[] = [];
    for (const each of [`${tag}:one`, `${tag}:two`]) {
      images.push(await build(file, context, each));
      tags.push(each);
    }
    const [one, two] = images as [Image, Image];
    expect(two.layers).toEqual(one.layers);
    return { ...one, tag: `${tag}:one` };
  }

  it(
    "of the service has equal layers each time, is healthy, cannot write its code, and stops by SIGTERM",
    SLOW,
    async () => {
      const { tag, user, command, health } = await builtTwice(SERVICE, ".", "service");
      expect(user).toBe("node");
      const key = join(work, "key");
      writeFileSync(key, Buffer.alloc(32, 7).toString("base64"), { mode: 0o644 });
      const script = `touch src/new 2>/dev/null && echo writable; id -un
      test -s /etc/ssl/certs/ca-certificates.crt && echo store
      export PORT=18787 TRUSTED_PROXIES=127.0.0.1 MASTER_KEY_FILE=/run/key
      ${quoted(command)} > /tmp/out & service=$!
      for second in $(seq 60); do ${quoted(health)} && echo healthy && break; sleep 1; done
      kill -TERM $service; wait $service; echo "ended $?"`;
      expect((await run(tag, script, "-v", `${key}:/run/key:ro`)).split("\n")).toEqual([
        "node",
        "store",
        "healthy",
        "ended 0",
      ]);
    },
  );

  it("of the relay has equal layers each time, and names the settings that it lacks", SLOW, async () => {
    const { tag, user, command } = await builtTwice(RELAY, "packages/relay", "relay");
    expect(user).toBe("node");
    expect(await run(tag, `id -un; ${quoted(command)} 2>&1 || true`)).toMatch(/^node\n.*NOMAD_ADDR/s);
  });

  it("of the agent has equal layers each time, and prints its version", SLOW, async () => {
    const { tag, user, command } = await builtTwice(AGENT, dist, "agent");
    expect(user).toBe("sallyport-agent");
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    const said = await run(
      tag,
      `id -un; ${quoted(command.slice(0, 1))} --version; stat -c %U /var/lib/sallyport-agent`,
    );
    expect(said).toMatch(new RegExp(`^sallyport-agent\n.*${version.replaceAll(".", "\\.")}.*\nsallyport-agent$`, "s"));
  });
});
