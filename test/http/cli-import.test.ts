import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type FakeNamespace, FakeVault, TOKEN } from "../doubles/vault.ts";
import { amount } from "../support/long.ts";
import { cli, type Ended, startCli } from "./cli-program.ts";
import { CREDENTIALS, SECRET_WORD, SOURCE } from "./cli-source.ts";
import { Service } from "./events-service.ts";
import { KillingProxy, type Write } from "./killing-proxy.ts";

/* `sallyport import` as a process between a stand-in for Vault and the service. Each test has a namespace of its own. */

// Pushes fail at once.
const service = new Service({ CLOUD_A_SM_URL: "http://127.0.0.1:1" });
const proxy = new KillingProxy(service);
const dir = mkdtempSync(join(tmpdir(), "sallyport-cli-import-"));
const credentials = join(dir, "credentials.json");
let vault: FakeVault;
/** All numbers of versions of the source. */
const VERSIONS = 2 + 1 + 2 + 3 + 6 + 15 + 1 + 0 + 1 + 1 + 2 + (1 + 5);
let namespace = "";
let count = 0;

beforeAll(async () => {
  writeFileSync(credentials, CREDENTIALS);
  await service.create();
  await proxy.start();
}, 300_000);
afterAll(async () => {
  proxy.stop();
  rmSync(dir, { recursive: true });
  await service.destroy();
});
beforeEach(async () => {
  vault = new FakeVault(structuredClone(SOURCE));
  await vault.start();
  namespace = `t${++count}`;
  await call("PUT", "", `sys/namespaces/${namespace}`);
  Object.assign(proxy, { fate: () => "pass", kill: async () => undefined, writes: 0 });
});
afterEach(() => {
  vault.stop();
  expect(vault.faults).toEqual([]);
});

async function call(method: string, below: string, path: string, body?: unknown) {
  const answer = await fetch(`${service.base}/v1/${path}`, {
    method,
    headers: { "X-Vault-Token": "root", "X-Vault-Namespace": below },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, text, data: text === "" ? null : JSON.parse(text).data };
}

/** The same for every attempt of a write. */
const nameOf = ({ method, url, headers, body }: Write): string =>
  `${method} ${headers["x-vault-namespace"]} ${url} ${body}`;

const environment = () => ({
  SALLYPORT_ADDR: proxy.url,
  SALLYPORT_TOKEN: "root",
  SALLYPORT_NAMESPACE: namespace,
  VAULT_TOKEN: TOKEN,
});
const importArguments = (...more: string[]) => ["import", "vault", "--from", vault.url, "--json", ...more];
const run = (...more: string[]) => cli(importArguments(...more), environment());

interface Printed {
  readonly complete: boolean;
  readonly counts: Record<string, Record<string, number>>;
  readonly versions: number;
  readonly versions_without_value: number;
  readonly entries: { kind: string; name: string; action: string; reason: string }[];
}

function printed({ out, err }: Ended): Printed {
  expect(out + err).not.toContain(SECRET_WORD);
  return JSON.parse(out);
}

const encoded = (path: string) => path.split("/").map(encodeURIComponent).join("/");

/** Compares every secret of the source, version by version, with the service's. */
async function expectEqual(source: Readonly<Record<string, FakeNamespace>> = vault.namespaces): Promise<void> {
  for (const [path, { mounts, policies }] of Object.entries(source)) {
    const below = path === "" ? namespace : `${namespace}/${path}`;
    for (const [at, { options, secrets = {}, values = {}, type }] of Object.entries(mounts)) {
      if (type !== "kv") continue;
      for (const [name, value] of Object.entries(values))
        expect((await call("GET", below, encoded(at + name))).data, at + name).toEqual(JSON.parse(value));
      if (options === null) continue;
      for (const [name, { versions, metadata = {} }] of Object.entries(secrets)) {
        const { data } = await call("GET", below, encoded(`${at}metadata/${name}`));
        const first = Number(Object.keys(versions)[0] ?? 1);
        const earlier = Object.entries(data.versions).filter(([number]) => Number(number) < first);
        // In a mount that keeps more versions than the secret had, earlier ones stay, destroyed.
        expect(
          [earlier.length, earlier.filter(([, version]) => !(version as { destroyed: boolean }).destroyed)],
          name,
        ).toEqual([name === "app/pruned" ? 3 : 0, []]);
        expect(Object.keys(data.versions).slice(earlier.length), name).toEqual(Object.keys(versions));
        expect(data, name).toMatchObject({ max_versions: 0, cas_required: false, custom_metadata: null, ...metadata });
        for (const [number, { value, destroyed, deletion_time = "" }] of Object.entries(versions)) {
          const isLive = !destroyed && !(Date.parse(deletion_time) < Date.now());
          expect(data.versions[number].destroyed, `${name} ${number}`).toBe(!isLive);
          const read = await call("GET", below, `${encoded(`${at}data/${name}`)}?version=${number}`);
          expect(read.data.data, `${name} ${number}`).toEqual(isLive ? JSON.parse(value) : null);
        }
      }
    }
    for (const [name, policy] of Object.entries(policies))
      expect((await call("GET", below, `sys/policies/acl/${encodeURIComponent(name)}`)).data.policy).toBe(policy);
  }
}

describe("import vault --dry-run", () => {
  it("plans everything, writes nothing and reads no value of a version", async () => {
    const values: string[] = [];
    vault.trouble = (path) => {
      if (/\/(?:secret|kv)\/data\//.test(path)) values.push(path);
      return null;
    };
    const ended = await run("--dry-run", "--credentials", credentials);
    const { counts, versions, entries } = printed(ended);
    expect([values, proxy.writes]).toEqual([[], 0]);
    expect(counts).toMatchObject({
      namespace: { written: 2 },
      mount: { written: 3 },
      secret: { written: 14 },
      policy: { written: 3, skipped: 3 },
      destination: { written: 1, incomplete: 1 },
      association: { written: 2, incomplete: 1 },
      app: { incomplete: 1 },
    });
    expect(versions).toBe(VERSIONS);
    expect(entries).toContainEqual({
      kind: "source",
      name: "pki/",
      action: "skipped",
      reason: "mounts of type pki are not imported",
    });
    const text = await cli(
      importArguments("--dry-run").filter((word) => word !== "--json"),
      environment(),
    );
    expect(text.out).toMatch(/^ +to write +unchanged/);
    expect(text.out).toMatch(/incomplete +aws-sm\/prod +access_key_id, secret_access_key: give them/);
  });
});

describe("import vault", () => {
  it("copies versions, settings, policies and sync with their states, and finds nothing to do in the next run", async () => {
    const first = await run("--credentials", credentials);
    expect(first.code, first.err).toBe(1);
    const { counts, complete, entries, versions_without_value } = printed(first);
    expect(complete).toBe(false);
    expect(counts["secret"]).toEqual({ written: 14 });
    // Deleted, destroyed, and before the oldest one.
    expect(versions_without_value).toBe(1 + 1 + (3 + 1) + 3);
    expect(entries.filter(({ action }) => action === "incomplete").map(({ name }) => name)).toEqual([
      "github-apps/bot",
      "vercel-project/site",
      "vercel-project/site/secret/app/database",
    ]);
    await expectEqual();
    const numbers = await call("GET", namespace, "secret/data/app/numbers");
    expect(numbers.text).toContain('"b":12345678901234567890,"a":1.50');
    expect((await call("GET", namespace, "secret/config")).data.max_versions).toBe(12);
    const { data } = await call("GET", namespace, "sys/sync/destinations/aws-sm/prod");
    expect(data).toMatchObject({
      connection_details: { region: "eu-west-1" },
      options: { custom_tags: { team: "web" } },
    });
    const set = await call("GET", namespace, "sys/sync/destinations/aws-sm/prod/associations");
    expect(Object.keys(set.data.associated_secrets)).toHaveLength(2);

    proxy.writes = 0;
    const again = printed(await run("--credentials", credentials));
    expect(again.counts["secret"]).toEqual({ unchanged: 14 });
    expect([proxy.writes, again.versions]).toEqual([0, 0]);
    expect(again.counts["association"]).toEqual({ unchanged: 2, incomplete: 1 });
    const plan = printed(await run("--dry-run", "--only", "sync", "--credentials", credentials));
    expect(plan.counts["association"]).toEqual({ unchanged: 2, incomplete: 1 });
  });

  it("appends later versions of the source, and keeps what the service has otherwise", async () => {
    await run("--only", "kv");
    const { secrets, values } = {
      ...vault.namespaces[""]?.mounts["secret/"],
      values: vault.namespaces[""]?.mounts["old/"]?.values as Record<string, string>,
    } as { secrets: Record<string, { versions: Record<number, object> }>; values: Record<string, string> };
    Object.assign(secrets["app/numbers"]?.versions ?? {}, { 2: { value: '{"later":true}' } });
    values["plain"] = '{"user":"other"}';
    await call("POST", namespace, "secret/data/app/empty", { data: { written: "here" } });
    await call("POST", namespace, "secret/data/app/many", { data: { written: "here" } });
    const changed = structuredClone(vault.namespaces);
    const { counts, entries } = printed(await run("--only", "kv", "--only", "policies"));
    expect(counts["secret"]).toEqual({ written: 1, unchanged: 10, differs: 3 });
    expect(
      entries
        .filter(({ action }) => action === "differs")
        .map(({ name, reason }) => `${name}: ${reason}`)
        .sort(),
    ).toEqual([
      `${namespace}/old/plain: has another value here: --overwrite replaces it`,
      `${namespace}/secret/app/empty: has 2 versions here, and 1 at the source`,
      `${namespace}/secret/app/many: has 16 versions here, and 15 at the source`,
    ]);
    for (const name of ["app/empty", "app/many"])
      Reflect.deleteProperty(changed[""]?.mounts["secret/"]?.secrets ?? {}, name);
    expect((await run("--only", "kv", "--overwrite")).code).toBe(1);
    await expectEqual(changed);
  });

  it("is completed by the next runs when it is killed at any write", { timeout: 600_000 }, async () => {
    const every = amount(8, 1);
    const seen = new Map<string, number>();
    let kills = 0;
    proxy.fate = (write) => {
      const request = nameOf(write);
      const times = (seen.get(request) ?? 0) + 1;
      seen.set(request, times);
      if ((seen.size - 1) % every !== 0 || times > 2) return "pass";
      kills += 1;
      return times === 1 ? "kill before" : "kill after";
    };
    let ended: Ended;
    do {
      const started = startCli(importArguments("--parallel", "1", "--credentials", credentials), environment());
      proxy.kill = () => {
        started.child.kill("SIGKILL");
        return started.ended;
      };
      ended = await started.ended;
    } while (ended.code === null);
    expect(kills).toBeGreaterThan(60 / every);
    await expectEqual();
    expect(printed(ended).entries.filter(({ action }) => action === "failed" || action === "differs")).toEqual([]);
  });

  it("waits and repeats after 429, 503 and broken connections, within its bound of requests", async () => {
    const met = new Map<string, number>();
    vault.trouble = (path) => {
      const times = (met.get(path) ?? 0) + 1;
      met.set(path, times);
      if (times > 1 || met.size % 3 === 0) return null;
      if (met.size % 2 === 0) return "reset";
      return { status: met.size % 5 === 0 ? 429 : 503, body: '{"errors":["busy"]}', headers: { "retry-after": "0" } };
    };
    const { counts, entries } = printed(await run("--only", "kv", "--only", "policies", "--parallel", "4"));
    expect(entries.filter(({ action }) => action === "failed")).toEqual([]);
    expect(counts["secret"]).toEqual({ written: 14 });
    expect(vault.mostAtOnce).toBeLessThanOrEqual(4);
    expect(vault.mostAtOnce).toBeGreaterThan(1);
    await expectEqual();
  });

  it("repeats every write whose answer is lost, without a second effect", { timeout: 300_000 }, async () => {
    const seen = new Set<string>();
    // Without a program, only the connection is closed.
    proxy.fate = (write) => {
      const request = nameOf(write);
      if (seen.has(request)) return "pass";
      seen.add(request);
      return "kill after";
    };
    const { counts, entries, versions } = printed(await run("--credentials", credentials));
    expect(entries.filter(({ action }) => action === "failed" || action === "differs")).toEqual([]);
    expect([counts["secret"], versions]).toEqual([{ written: 14 }, VERSIONS]);
    await expectEqual();
  });

  it("reports what the source refuses, and imports the rest", async () => {
    vault.denied = [
      "sys/mounts",
      "sys/namespaces",
      "secret/metadata/app database",
      "secret/data/app/database",
      "sys/sync",
    ];
    const ended = await run();
    const { entries, counts } = printed(ended);
    expect(ended.code).toBe(1);
    expect(entries.map(({ kind, name, action }) => `${kind} ${name} ${action}`)).toEqual(
      expect.arrayContaining([
        "source secret/app database/ failed",
        `secret ${namespace}/secret/app/database failed`,
        "source / skipped",
        "source sys/sync skipped",
      ]),
    );
    expect(counts["secret"]).toEqual({ written: 10, failed: 1 });
  });

  it("is limited to mounts, and to a number of versions before the oldest one", async () => {
    expect(printed(await run("--only", "kv", "--mount", "old")).counts).toEqual({
      mount: { written: 1 },
      secret: { written: 2 },
      namespace: { written: 2 },
    });
    const limited = printed(await run("--only", "kv", "--max-gap", "2"));
    expect(
      limited.entries.filter(({ action }) => action === "differs").map(({ name, reason }) => [name, reason]),
    ).toEqual([
      [`${namespace}/secret/app/pruned`, "3 versions before the oldest one: more than --max-gap"],
      [`${namespace}/team/kv/pruned`, "3 versions before the oldest one: more than --max-gap"],
    ]);
    printed(await run("--only", "kv"));
    await expectEqual(
      Object.fromEntries(Object.entries(vault.namespaces).map(([path, each]) => [path, { ...each, policies: {} }])),
    );
  });

  it("stops at an address that is no server of this API, and refuses redirects", async () => {
    vault.trouble = () => ({ status: 404, body: "<html>" });
    const html = printed(await run("--retries", "0"));
    expect(html.entries[0]?.reason).toContain("not an answer of this API");
    vault.trouble = () => ({ status: 307, body: "", headers: { location: "https://other.example/" } });
    expect(printed(await run()).entries[0]?.reason).toContain("redirected to https://other.example/: use that address");
    vault.trouble = () => null;
    const nothing = await run("--only", "kv", "--mount", "nowhere");
    expect([nothing.code, printed(nothing).entries]).toMatchObject([1, [{ name: "nowhere/", action: "failed" }]]);
    const usage = await cli(["import", "vault", "--from", vault.url], {
      SALLYPORT_ADDR: proxy.url,
      VAULT_TOKEN: TOKEN,
    });
    expect([usage.code, usage.err]).toEqual([2, expect.stringContaining("SALLYPORT_TOKEN: must be set")]);
  });

  it("copies one namespace of a Sallyport into another", async () => {
    await run("--credentials", credentials);
    const source = namespace;
    namespace = `t${++count}`;
    await call("PUT", "", `sys/namespaces/${namespace}`);
    const args = ["import", "vault", "--from", service.base, "--json", "--credentials", credentials];
    const ended = await cli(args, { ...environment(), VAULT_TOKEN: "root", VAULT_NAMESPACE: source });
    const { counts } = JSON.parse(ended.out);
    expect(counts.secret).toEqual({ written: 14 });
    expect(counts.namespace).toEqual({ written: 2 });
    await expectEqual();
  });
});

describe("import dump", () => {
  const dump = (text: string, ...more: string[]) =>
    cli(["import", "dump", "-", "--json", ...more], environment(), text);

  it("takes outputs of kv get with a path, plain fields, and secrets by path", async () => {
    for (const [path, version] of [
      ["secret", "2"],
      ["old", "1"],
    ] as const)
      await call("POST", namespace, `sys/mounts/${path}`, { type: "kv", options: { version } });
    const get = (version: number, data: object | null, more = {}) => ({
      request_id: "1",
      lease_id: "",
      lease_duration: 0,
      renewable: false,
      warnings: null,
      data: {
        data,
        metadata: { version, custom_metadata: { owner: "ann" }, deletion_time: "", destroyed: false, ...more },
      },
    });
    const text = [
      JSON.stringify({ path: "secret/app/db", ...get(7, { word: SECRET_WORD }) }, null, 2),
      JSON.stringify({ path: "secret/app/db", ...get(5, { word: "before" }) }),
      JSON.stringify({ path: "secret/app/db", ...get(6, null, { deletion_time: "2026-10-02T00:00:00Z" }) }),
      '{"path":"/old/plain","data":{"n":12345678901234567890}}',
      JSON.stringify({
        "secret/a": { data: { k: "v" } },
        "secret/b": { user: "x", data: "y" },
        "nowhere/c": { k: "v" },
      }),
    ].join("\n");
    // A member `data` that is no object is a mistake, and is named without its value.
    const wrong = await dump(text);
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("-: secret/b: data must be an object")]);
    const right = text.replace(',"data":"y"', "");
    const first = await dump(right);
    expect(printed(first)).toMatchObject({ counts: { secret: { written: 4, failed: 1 } }, versions: 5 });
    expect(printed(first).entries).toMatchObject([{ name: "nowhere/c", reason: "no KV mount here has this path" }]);
    expect(printed(await dump(right)).counts).toEqual({ secret: { unchanged: 4, failed: 1 } });
    const { data } = await call("GET", namespace, "secret/data/app/db");
    expect(data).toMatchObject({
      data: { word: SECRET_WORD },
      metadata: { version: 2, custom_metadata: { owner: "ann" } },
    });
    expect((await call("GET", namespace, "old/plain")).text).toContain('"n":12345678901234567890');

    const single = JSON.stringify(get(1, { k: "v" }));
    expect((await dump(single)).err).toContain('has no path: add "path", or give --path');
    expect((await dump(single, "--path", "secret/single")).code).toBe(0);
  });
});
