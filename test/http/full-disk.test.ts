import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isFull } from "../../scripts/disk.ts";
import { Runtime } from "../../scripts/runtime.ts";
import { prepareService } from "./prepared-service.ts";

/* A file system of its own, small enough to be filled. To mount one takes root. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-full-"));
const isMounted = mount();
let runtime: Runtime | undefined;
let base = "";

function mount(): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", dir], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function ask(method: string, path: string, body?: object) {
  const init = { method, headers: { "X-Orch-Token": "root" } };
  const answer = await fetch(base + path, { ...init, ...(body && { body: JSON.stringify(body) }) });
  return { status: answer.status, text: await answer.text() };
}

beforeAll(async () => {
  if (!isMounted) return;
  const builtDir = join(dir, "runtime");
  const signal = AbortSignal.timeout(280_000);
  await prepareService(builtDir, dir);
  runtime = new Runtime(builtDir, "ignore");
  const bindings = { MASTER_KEY: Buffer.alloc(32, 1).toString("base64"), DEV_ROOT_TOKEN: "root" };
  base = await runtime.serve({ bindings, dataDir: dir, builtDir, log: false }, signal);
  expect((await ask("POST", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } })).status).toBe(204);
}, 300_000);

afterAll(async () => {
  await runtime?.kill();
  if (isMounted) execFileSync("umount", ["-l", dir]);
  rmSync(dir, { recursive: true, force: true });
});

describe.runIf(isMounted)("a service whose disk is full", () => {
  it("serves reads, returns 507 for writes, reports the cause in its health, and loses nothing", {
    timeout: 300_000,
  }, async () => {
    for (const value of ["one", "two"])
      expect((await ask("POST", "/v1/kv/data/a", { data: { value } })).status).toBe(200);
    const filler = join(dir, "filler");
    expect(isFull(dir)).toBe(false);
    const fill = () => {
      for (;;) appendFileSync(filler, Buffer.alloc(64 * 1024));
    };
    expect(fill).toThrow("ENOSPC");
    expect(isFull(dir)).toBe(true);

    const large = { data: { value: "x".repeat(300_000) } };
    for (const [method, path, body] of [
      ["POST", "/v1/kv/data/a", large],
      ["POST", "/v1/kv/data/b", large],
      ["PUT", "/v1/acl/policy/p", { Rules: `node { policy = "read" } # ${"x".repeat(100_000)}` }],
      ["POST", "/v1/sys/policies/acl/q", { policy: `path "x" { capabilities = ["read"] } # ${"x".repeat(100_000)}` }],
    ] as const) {
      const refused = await ask(method, path, body);
      expect([path, refused.status, refused.text]).toEqual([
        path,
        507,
        expect.stringContaining("disk of the service is full"),
      ]);
    }
    expect((await ask("GET", "/v1/kv/data/a")).text).toContain('"two"');
    await expect.poll(async () => (await ask("GET", "/v1/sys/health")).text).toMatch(/"degraded":\[.*"disk"\]/);
    expect(await ask("GET", "/v1/agent/health")).toMatchObject({
      status: 503,
      text: expect.stringContaining("disk is full"),
    });

    rmSync(filler);
    await expect.poll(async () => (await ask("POST", "/v1/kv/data/a", large)).status, { timeout: 60_000 }).toBe(200);
    const { data } = JSON.parse((await ask("GET", "/v1/kv/metadata/a")).text);
    expect(data.current_version).toBe(3);
    expect((await ask("GET", "/v1/kv/data/a?version=2")).text).toContain('"two"');
    // Objects that could not be created on the full disk are created now.
    const health = async () => (await ask("GET", "/v1/sys/health")).text;
    await expect.poll(health, { timeout: 60_000 }).toContain('"degraded":[]');
  });
});
