import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Runtime } from "../../scripts/runtime.ts";
import { prepareService } from "./prepared-service.ts";

/* Files of objects are emptied while the service is stopped, as a disk that failed or a copy that broke off leaves them. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-lost-"));
const builtDir = join(dir, "runtime");
const aside = join(dir, "aside.sqlite");
const bindings = { MASTER_KEY: Buffer.alloc(32, 1).toString("base64"), DEV_ROOT_TOKEN: "root" };
let runtime: Runtime | undefined;
let base = "";

async function start(): Promise<void> {
  runtime = new Runtime(builtDir, "ignore");
  base = await runtime.serve({ bindings, dataDir: dir, builtDir, log: false }, AbortSignal.timeout(120_000));
}

async function stop(): Promise<void> {
  await runtime?.stop();
  runtime = undefined;
}

async function ask(method: string, path: string, body?: object) {
  const init = { method, headers: { "X-Orch-Token": "root" } };
  const answer = await fetch(base + path, { ...init, ...(body && { body: JSON.stringify(body) }) });
  return { status: answer.status, text: await answer.text() };
}

const health = async (query = "") => {
  const { status, text } = await ask("GET", `/v1/sys/health${query}`);
  return { status, body: JSON.parse(text) as Record<string, unknown> };
};

/** The file of a class's only object. */
function fileOf(type: string): string {
  const root = join(dir, "v3", "do");
  const found = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
    (name) => name.includes(type) && name.endsWith(".sqlite") && !name.endsWith("metadata.sqlite"),
  );
  expect(found).toHaveLength(1);
  return join(root, found[0] ?? "");
}

/** A database file with SQLite's additional files. */
const SUFFIXES = ["", "-wal", "-shm"];

/** Replaces the file of a class's only object by an empty one. @returns restores it */
function empty(type: string): () => void {
  const file = fileOf(type);
  const kept = SUFFIXES.filter((suffix) => existsSync(file + suffix));
  for (const suffix of kept) copyFileSync(file + suffix, aside + suffix);
  const clear = () => {
    for (const suffix of SUFFIXES) rmSync(file + suffix, { force: true });
  };
  clear();
  writeFileSync(file, "");
  return () => {
    clear();
    for (const suffix of kept) copyFileSync(aside + suffix, file + suffix);
  };
}

const LOST = expect.stringContaining("storage lost: the storage of");

beforeAll(async () => {
  await prepareService(builtDir, dir);
  await start();
  expect((await ask("POST", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } })).status).toBe(204);
  expect((await ask("POST", "/v1/kv/data/a", { data: { value: "kept" } })).status).toBe(200);
  expect((await health()).body).toMatchObject({ degraded: [] });
  await stop();
}, 300_000);

afterEach(stop);

afterAll(async () => {
  await runtime?.kill();
  rmSync(dir, { recursive: true, force: true });
});

describe("a service with a truncated database file", () => {
  it("of a mount returns 503 for that mount, reports it in its health, and serves other paths", {
    timeout: 200_000,
  }, async () => {
    const putBack = empty("KvStore");
    await start();
    for (const _again of [1, 2]) {
      expect(await ask("GET", "/v1/kv/data/a")).toEqual({ status: 503, text: LOST });
      expect(await ask("POST", "/v1/kv/data/a", { data: { value: "new" } })).toEqual({ status: 503, text: LOST });
    }
    expect((await ask("GET", "/v1/sys/mounts")).status).toBe(200);
    await expect.poll(async () => (await health()).body["lost"]).toEqual(["kv-store"]);
    const { status, body } = await health("?counts=true");
    expect([status, body["degraded"], body["failing"]]).toEqual([200, ["storage"], []]);
    expect(body["lost_objects"]).toEqual([expect.stringMatching(/^kv-store [0-9a-f-]{36}$/)]);
    expect(await ask("GET", "/v1/agent/health")).toEqual({ status: 503, text: expect.stringContaining("kv-store") });
    await stop();

    // A later start does not treat it as new either.
    await start();
    expect((await ask("POST", "/v1/kv/data/a", { data: { value: "new" } })).status).toBe(503);
    await stop();
    putBack();
    await start();
    expect((await ask("GET", "/v1/kv/data/a")).text).toContain('"kept"');
    await expect.poll(async () => (await health()).body).toMatchObject({ degraded: [] });
    await stop();
  });

  it("of AccessControl refuses every token, including the development root token", { timeout: 200_000 }, async () => {
    const putBack = empty("AccessControl");
    for (const _again of [1, 2]) {
      await start();
      for (const [method, path, body] of [
        ["GET", "/v1/auth/token/lookup-self"],
        ["GET", "/v1/kv/data/a"],
        ["POST", "/v1/sys/policies/acl/p", { policy: 'path "x" { capabilities = ["read"] }' }],
        ["POST", "/v1/acl/bootstrap", {}],
        ["GET", "/v1/sys/seal-status"],
        ["GET", "/v1/jobs"],
      ] as const) {
        expect([path, await ask(method, path, body)]).toEqual([path, { status: 503, text: LOST }]);
      }
      const { status, body } = await health();
      expect([status, body["failing"], body["lost"]]).toEqual([503, ["access_control"], ["access-control"]]);
      expect(body["parts"]).toMatchObject({ access_control: "lost", event_log: "ok" });
      await stop();
    }
    putBack();
    await start();
    expect((await ask("GET", "/v1/kv/data/a")).text).toContain('"kept"');
    expect((await health()).body).toMatchObject({ degraded: [], failing: [] });
  });
});
