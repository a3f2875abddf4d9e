import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Arch, cliArchive } from "../../scripts/agent-packages.ts";
import { RELEASE } from "../../src/platform/version.ts";

/* The command line as one executable: its release archive, on a machine without Node. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-executable-"));
const program = join(dir, "sallyport");
afterAll(() => rmSync(dir, { recursive: true }));

beforeAll(async () => {
  const { name, content } = await cliArchive(process.arch as Arch);
  expect(name).toBe(`sallyport-${RELEASE}-linux-${process.arch}.tar.gz`);
  writeFileSync(join(dir, name), content);
  execFileSync("tar", ["-xzf", join(dir, name), "-C", dir]);
}, 300_000);

async function run(args: readonly string[], env: Readonly<Record<string, string>> = {}, until = "") {
  const child = spawn(program, args, { env: { HOME: dir, ...env } });
  const texts = { out: "", err: "" };
  child.stdout.on("data", (bytes) => (texts.out += bytes));
  child.stderr.on("data", (bytes) => (texts.err += bytes));
  if (until !== "") {
    await expect.poll(() => texts.err).toContain(until);
    child.kill("SIGTERM");
  }
  const [code] = await once(child, "close");
  return { code, ...texts };
}

describe("the executable", () => {
  it("runs each kind of command without Node in its path", async () => {
    expect(await run(["--version"])).toEqual({ code: 0, out: `${RELEASE}\n`, err: "" });
    expect((await run(["kv", "--help"])).out).toContain("kv rollback");
    const unset = await run(["doctor"]);
    expect([unset.code, unset.err]).toEqual([2, expect.stringContaining("SALLYPORT_ADDR: must be set to a URL")]);
    const silent = await run(["kv", "list"], { SALLYPORT_ADDR: "http://127.0.0.1:1", SALLYPORT_TOKEN: "t" });
    expect([silent.code, silent.err]).toEqual([1, expect.stringContaining("no answer")]);
    const env = { SALLYPORT_ADDR: "http://127.0.0.1:1", NOMAD_ADDR: "http://127.0.0.1:1" };
    const relay = await run(["relay", "nomad", "--metrics", "off", "--state-dir", join(dir, "relay")], env, "started");
    expect(relay.code).toBe(0);
  });

  it("is not changed by options of Node in the environment", async () => {
    writeFileSync(join(dir, "evil.cjs"), "console.log('loaded')");
    const { out } = await run(["--version"], { NODE_OPTIONS: `--require ${join(dir, "evil.cjs")}` });
    expect(out).toBe(`${RELEASE}\n`);
  });
});
