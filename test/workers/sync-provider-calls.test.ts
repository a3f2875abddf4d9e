import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { syncDestination } from "../../src/rpc/stubs.ts";
import { get, list, mountKv, put } from "./client.ts";
import { objectIds } from "./created-objects.ts";
import { dump, inEveryObject, spellings } from "./sealing-helpers.ts";
import { openRepoHost, type ProviderAccount, providers } from "./sync-doubles.ts";
import { association, eventually, makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

/** The requests of a push on the network, and the state it leaves in the service. */
interface Call {
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  readonly body: string;
}

let account: ProviderAccount;
let at = "";
let calls: Call[] = [];

beforeEach(async () => {
  await mountKv();
  calls = [];
});

/** Notes every request that leaves for a provider. */
function listen(): void {
  const fetching = globalThis.fetch;
  vi.spyOn(globalThis, "fetch").mockImplementation((to, init) => {
    const request = new Request(to as RequestInfo, init as RequestInit);
    const url = new URL(request.url);
    if (!url.pathname.startsWith("/_double/")) {
      const { method, headers } = request;
      calls.push({ method, url, headers, body: typeof init?.body === "string" ? init.body : "" });
    }
    return fetching(to as RequestInfo, init as RequestInit);
  });
}

/** The secret fields of a destination, a key's inside included. */
function secretsOf(body: Record<string, unknown>): string[] {
  const named = ["secret_access_key", "client_secret", "access_token", "private_key"];
  const found = named.map((field) => body[field]).filter((value) => typeof value === "string");
  const file = typeof body["credentials"] === "string" ? JSON.parse(body["credentials"]).private_key : undefined;
  // A key's head is the same in all keys.
  return [...found, file]
    .filter((value) => typeof value === "string")
    .map((value) => value.trim().slice(-120, -40) || value);
}

describe.each(Object.keys(providers))("a push to %s", (type) => {
  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
    at = `${type}/d`;
    await makeDestination(type, "d", account.body);
  });

  it("is sent to the provider only, without value or credential in URLs", async () => {
    listen();
    await write("app", { v: "canary-value" });
    await setAssociation(at, "app");
    await write("app", { v: "canary-value-2" });
    await eventually(async () => expect((await association(at, "app"))?.["synced_version"]).toBe(2));
    await removeAssociation(at, "app");
    expect(await account.values()).toEqual({});
    const { TEST_CLOUD_A, TEST_DOUBLES } = env;
    const hosts = [
      TEST_CLOUD_A.url,
      ...Object.values(TEST_DOUBLES),
      String(account.body["key_vault_uri"] ?? TEST_CLOUD_A.url),
    ];
    expect(calls.length).toBeGreaterThan(2);
    for (const { url, headers } of calls) {
      expect(hosts.map((known) => new URL(known).host)).toContain(url.host);
      for (const secret of ["canary-value", ...secretsOf(account.body)]) {
        expect(decodeURIComponent(url.href)).not.toContain(secret);
        // A bearer token is meant for the header that carries it.
        for (const [name, value] of headers) if (name !== "authorization") expect(value).not.toContain(secret);
      }
    }
  });

  it("makes few calls, none when unchanged, and one write for a new value", async () => {
    await write("app", { v: "one" });
    await setAssociation(at, "app");
    const reads = new Set(["Token", "getPublicKey"]);
    listen();
    await put(`/sys/sync/destinations/${at}`, account.body);
    await write("app", { v: "one" });
    await eventually(async () => expect((await association(at, "app"))?.["synced_version"]).toBe(2));
    expect(calls.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual([]);
    const before = (await account.requests()).length;
    await write("app", { v: "two" });
    await eventually(async () => expect((await association(at, "app"))?.["synced_version"]).toBe(3));
    const made = (await account.requests()).slice(before).filter(({ operation }) => !reads.has(operation));
    expect(made.length).toBeGreaterThan(0);
    expect(made.length).toBeLessThanOrEqual(type === "cloud-c-sm" ? 3 : 2);
    expect(made.every(({ status }) => status !== null && status < 300)).toBe(true);
    // A requested push is sent for any existing object.
    const asked = (await account.requests()).length;
    await setAssociation(at, "app");
    expect((await account.requests()).length).toBeGreaterThan(asked);
  });

  it("is one push of the newest version after many writes during another push", async () => {
    await write("app", { v: "v0" });
    await setAssociation(at, "app");
    const before = (await account.requests()).length;
    await account.fault({ fault: "delay", ms: 1_000 });
    for (let n = 1; n <= 8; n++) await write("app", { v: `v${n}` });
    await eventually(async () => expect((await association(at, "app"))?.["synced_version"]).toBe(9));
    expect(Object.values(await account.values()).join()).toContain("v8");
    expect((await account.requests()).length - before).toBeLessThanOrEqual(3 * 3);
  });

  it("leaves no value or credential in errors, logs, messages or rows", async () => {
    const logs = ["log", "info", "warn", "error", "debug"] as const;
    const logged = logs.map((level) => vi.spyOn(console, level));
    const single = vi.spyOn(env.SYNC_WORK, "send");
    const batches = vi.spyOn(env.SYNC_WORK, "sendBatch");
    const value = "canary-value-of-a-secret";
    const echo = `{"error":{"code":"X","message":"${value} ${secretsOf(account.body).join(" ")}"},"message":"${value}","Message":"${value}"}`;
    await write("app", { v: value });
    const answers: string[] = [];
    const look = async () => {
      answers.push((await get(`/sys/sync/destinations/${at}`)).text);
      answers.push((await get(`/sys/sync/destinations/${at}/associations`)).text);
    };
    for (const raw of [
      { status: 400, body: echo },
      { status: 403, body: echo },
      { status: 200, body: value },
      { status: 302, body: echo, headers: { location: `http://127.0.0.1:1/${value}` } },
    ]) {
      await account.fault({ fault: "raw", ...raw });
      answers.push((await setAssociation(at, "app")).text);
      await look();
    }
    await put(`/sys/sync/destinations/${at}`, { ...account.body, ...account.wrong });
    await setAssociation(at, "app");
    await look();
    await put(`/sys/sync/destinations/${at}`, account.body);
    await eventually(async () => expect((await association(at, "app"))?.sync_status).toBe("SYNCED"));
    answers.push((await list("/sys/sync/associations")).text, (await list("/sys/sync/destinations")).text);

    const setup = await syncDestination(env, at).setup();
    const fingerprintKey = setup.ok ? setup.value.fingerprintKey : "";
    expect(fingerprintKey).toMatch(/^[0-9a-f]{64}$/);
    const secrets = [value, ...secretsOf(account.body), ...secretsOf(account.wrong)];
    expect(secrets.length).toBeGreaterThan(1);
    const sought = [
      ...secrets.flatMap(spellings),
      fingerprintKey,
      Buffer.from(fingerprintKey, "hex").toString("latin1"),
      Buffer.from(fingerprintKey, "hex").toString("base64").slice(0, -2),
    ];
    const places: [string, string][] = [
      ["an answer", answers.join("\n")],
      ["a log", JSON.stringify(logged.map(({ mock }) => mock.calls))],
      ["a message", JSON.stringify([single.mock.calls, batches.mock.calls])],
      ["the listings", JSON.stringify(await listings())],
    ];
    await inEveryObject((object, state) => void places.push([object.constructor.name, dump(state)]));
    places.push(["SyncControl", await controlRows()]);
    for (const [place, text] of places) {
      for (const spelling of sought) expect(text.includes(spelling), `${place} holds ${spelling}`).toBe(false);
    }
  });
});

it("the private key of a custom application is stored sealed only", async () => {
  const { account: host } = await openRepoHost();
  const made = await put("/sys/sync/repo-host-apps/bot", { app_id: host.appId, private_key: host.appKey });
  const lines = host.appKey.trim().split("\n").slice(3, -2);
  const shown = made.text + (await get("/sys/sync/repo-host-apps/bot")).text;
  const rows = await controlRows();
  expect(rows).toContain("bot");
  for (const line of lines) {
    for (const text of [rows, shown]) {
      for (const spelling of spellings(line)) expect(text.includes(spelling)).toBe(false);
      // As bytes of the key itself.
      expect(text.includes(Buffer.from(line, "base64").toString("latin1"))).toBe(false);
    }
  }
});

async function controlRows(): Promise<string> {
  const objects = env.SYNC_CONTROL as DurableObjectNamespace<StoredObject>;
  const ids = objectIds(objects);
  const all = ids.map((id) => runInDurableObject(objects.get(id), (_object, state) => dump(state)));
  return (await Promise.all(all)).join("\n");
}

async function listings(): Promise<unknown[]> {
  const tables = await env.LISTINGS.prepare(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*'",
  ).all<{ name: string }>();
  const rows = tables.results.map(({ name }) => env.LISTINGS.prepare(`SELECT * FROM "${name}"`).all());
  return (await Promise.all(rows)).map(({ results }) => results);
}
