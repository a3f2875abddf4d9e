import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import type { Listing } from "../../src/sync/destinations/destination-type.ts";
import { kvV2Destination } from "../../src/sync/destinations/kv-v2/adapter.ts";
import { type Account, type KvV2Double, startKvV2 } from "../doubles/kv-v2/server.ts";
import { AdapterCalls, referenceOf } from "../support/adapter-calls.ts";

const settings = { SYNC_ALLOWED_HOSTS: "127.0.0.1" };
const clusterId = async () => "0b5f5c1e-own-cluster";
const json = { value: '{"a":"1","n":12345678901234567890}', contentType: "application/json" } as const;
let double: KvV2Double;
let account: Account;
let at: AdapterCalls<ReturnType<typeof kvV2Destination.connection.parse>>;

beforeAll(async () => {
  double = await startKvV2();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
  const body = { address: double.url, mount: account.mount, token: account.token };
  at = new AdapterCalls(kvV2Destination, body, { settings, clusterId });
});

const secret = (name = "app/db") => account.engine.all().get(name);
const foreign = (name: string, data: object = { theirs: "x" }) => {
  const cas = Number((account.engine.all().get(name) ?? { version: 0 }).version);
  account.engine.write(name, { options: { cas }, data });
};

describe("put", () => {
  it("writes a secret as the engine's data, with numbers as they are spelled, and marks it", async () => {
    const tags = { "hashicorp:vault": "", team: "web" };
    expect(await at.put("app/db", { ...json, tags })).toEqual({
      outcome: "ok",
      reference: expect.stringMatching(/^1 \d{4}-/),
    });
    expect(JSON.stringify(secret()?.data)).toBe(json.value);
    expect(secret()?.custom).toEqual({
      managed_by: "sallyport",
      sallyport_origin: "0b5f5c1e-own-cluster",
      team: "web",
    });
  });

  it("writes one key as value", async () => {
    await at.put("app/db/password", { value: 'it\'s "quoted"' });
    expect(secret("app/db/password")?.data).toEqual({ value: 'it\'s "quoted"' });
  });

  it("updates a recorded secret with one call, and removes tags of earlier pushes", async () => {
    const reference = referenceOf(await at.put("app/db", { tags: { old: "1" } }));
    account.calls.length = 0;
    const again = await at.put("app/db", { value: "two", reference, tagsWritten: true });
    expect(account.calls).toEqual(["POST data"]);
    await at.put("app/db", {
      value: "3",
      reference: referenceOf(again),
      tags: { fresh: "1" },
      previousTagKeys: ["old"],
    });
    expect(secret()).toMatchObject({ version: 3, custom: { fresh: "1", managed_by: "sallyport" } });
    expect(secret()?.custom).not.toHaveProperty("old");
  });

  it("writes over another writer's version, a deletion and a removal under the policy replace", async () => {
    const reference = referenceOf(await at.put("app/db"));
    foreign("app/db");
    const second = await at.put("app/db", { reference, tagsWritten: true });
    expect(referenceOf(second)).toMatch(/^3 /);
    account.engine.deleteNewest("app/db");
    expect(referenceOf(await at.put("app/db", { reference: referenceOf(second) }))).toMatch(/^4 /);
    account.engine.deleteAll("app/db");
    expect(referenceOf(await at.put("app/db", { reference: referenceOf(second), tagsWritten: true }))).toMatch(/^1 /);
  });

  it("leaves a foreign secret alone under the other policies, and takes one that was deleted", async () => {
    foreign("app/db");
    expect(await at.put("app/db", { updatePolicy: "owned-only" })).toMatchObject({
      outcome: "client",
      code: "not_owned",
    });
    expect(await at.put("app/db", { updatePolicy: "if-not-exists" })).toEqual({ outcome: "ok", left: true });
    expect(secret()?.data).toEqual({ theirs: "x" });
    account.engine.deleteNewest("app/db");
    expect(referenceOf(await at.put("app/db", { updatePolicy: "if-not-exists" }))).toMatch(/^2 /);
  });

  it.each(["data", "metadata"] as const)(
    "after a lost answer of %s, a repeat writes no second version",
    async (only) => {
      account.faults.push({ kind: "lost", only });
      expect(await at.put("app/db", json)).toMatchObject({ outcome: "unknown" });
      for (const updatePolicy of ["replace", "owned-only", "if-not-exists"] as const) {
        expect(await at.put("app/db", { ...json, updatePolicy, unsureSince: 1 })).not.toMatchObject({ left: true });
      }
      expect(secret()).toMatchObject({ version: 1, custom: { managed_by: "sallyport" } });
    },
  );

  it("marks a secret that does not live before its data, one that lives afterwards", async () => {
    await at.put("app/db");
    expect(account.calls).toEqual(["GET metadata", "POST metadata", "POST data"]);
    foreign("app/other");
    account.calls.length = 0;
    await at.put("app/other");
    expect(account.calls).toEqual(["GET metadata", "POST data", "PATCH metadata"]);
  });

  it.each([
    ["replace", { managed_by: "sallyport" }],
    ["owned-only", {}],
    ["if-not-exists", {}],
  ] as const)(
    "by %s, a refused write leaves %j on a secret that another writer has deleted",
    async (updatePolicy, left) => {
      foreign("app/db");
      account.engine.deleteNewest("app/db");
      account.denied.add("post data");
      expect(await at.put("app/db", { updatePolicy })).toMatchObject({ code: "permission_denied" });
      const { custom_metadata } = account.engine.metadata("app/db") as { custom_metadata: object | null };
      expect(custom_metadata ?? {}).toMatchObject(left);
      expect(Object.keys(custom_metadata ?? {}).includes("managed_by")).toBe("managed_by" in left);
    },
  );

  it.each([
    ["owned-only", { outcome: "client", code: "not_owned" }],
    ["if-not-exists", { outcome: "ok", left: true }],
  ] as const)("under %s gives way to a writer who creates the secret meanwhile", async (updatePolicy, expected) => {
    const { engine } = account;
    const announce = engine.announce.bind(engine);
    engine.announce = (name, body) => {
      announce(name, body);
      engine.write(name, { options: { cas: 0 }, data: { theirs: "x" } });
    };
    expect(await at.put("app/db", { updatePolicy, tags: { team: "web" } })).toMatchObject(expected);
    expect(secret()).toEqual({ data: { theirs: "x" }, custom: {}, version: 1 });
  });

  it.each([
    ["known", { owner: "them", managed_by: "sallyport" }],
    // A limit of Vault, which the page names.
    ["ignored", { managed_by: "sallyport" }],
  ] as const)("where metadata_cas is %s, metadata made meanwhile becomes %j", async (known, expected) => {
    const { engine } = account;
    engine.metadataCas = known;
    const announce = engine.announce.bind(engine);
    engine.announce = (name, body) => {
      engine.announce = announce;
      announce(name, { custom_metadata: { owner: "them" } });
      announce(name, body);
    };
    expect(await at.put("app/db")).toMatchObject({ outcome: "ok" });
    const { sallyport_origin: _origin, ...custom } = secret()?.custom ?? {};
    expect(custom).toEqual(expected);
  });

  it("marks secrets of an engine that requires metadata_cas", async () => {
    account.engine.metadataCas = "required";
    foreign("app/other");
    for (const name of ["app/db", "app/other"]) {
      expect(await at.put(name, { tags: { team: "web" } })).toMatchObject({ outcome: "ok" });
      expect(secret(name)?.custom).toMatchObject({ managed_by: "sallyport", team: "web" });
    }
  });

  it("finds and removes what a refused write has left", async () => {
    account.denied.add("post data");
    expect(await at.put("app/db")).toMatchObject({ outcome: "client", code: "permission_denied" });
    expect(account.engine.announced()).toEqual(["app/db"]);
    expect(await at.inspect("app/db")).toMatchObject({ state: "present", owned: true });
    expect(await at.remove("app/db", { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(account.engine.announced()).toEqual([]);
  });

  it("reports a write that was answered with 503 as unsure, and recognises it later", async () => {
    account.faults.push({ kind: "status", status: 503 });
    expect(await at.put("app/db")).toMatchObject({ outcome: "external", code: "provider_unavailable", unsure: true });
  });

  it("does without the right to read data: a repeat writes the same data again", async () => {
    account.faults.push({ kind: "lost", only: "data" });
    account.denied.add("get data");
    expect(await at.put("app/db", json)).toMatchObject({ outcome: "unknown" });
    expect(referenceOf(await at.put("app/db", { ...json, unsureSince: 1 }))).toMatch(/^2 /);
  });

  it.each([
    [
      { kind: "status", status: 429, headers: { "retry-after": "7" } },
      { code: "throttled", retryAfterMs: 7_000 },
    ],
    [
      { kind: "status", status: 472 },
      { outcome: "external", code: "provider_unavailable" },
    ],
    [
      { kind: "status", status: 412 },
      { outcome: "external", code: "provider_unavailable" },
    ],
    [
      { kind: "status", status: 413 },
      { outcome: "client", code: "value_too_large" },
    ],
    [
      { kind: "status", status: 400, errors: ["hunter2-hunter2 is not good"] },
      { outcome: "client", code: "refused" },
    ],
    [{ kind: "cut" }, { outcome: "unknown", code: "network_error" }],
  ] as const)("%j is %j", async (fault, expected) => {
    account.faults.push(fault);
    const put = await at.put("app/db");
    expect(put).toMatchObject(expected);
    expect(JSON.stringify(put)).not.toContain("hunter2");
  });

  it("reports a value that the storage refuses", async () => {
    const errors = ["1 error occurred:\n\t* put failed due to value being too large; got 2, max: 1\n\n"];
    account.faults.push({ kind: "status", status: 500, errors });
    expect(await at.put("app/db")).toMatchObject({ outcome: "client", code: "value_too_large" });
  });
});

describe("the place", () => {
  it("refuses this service itself, for every operation", async () => {
    const own = at.with({}, { settings, clusterId: async () => double.clusterId });
    const loop = { outcome: "client", code: "loop" };
    expect(await own.put("app/db")).toMatchObject(loop);
    expect(await own.remove("app/db")).toMatchObject(loop);
    expect(await own.inspect("app/db")).toMatchObject(loop);
    expect(await own.probe()).toMatchObject(loop);
    expect(account.calls).toEqual([]);
  });

  it("refuses an engine that is not KV v2", async () => {
    account.kind = { type: "kv", options: { version: "1" } };
    expect(await at.put("app/db")).toMatchObject({ outcome: "client", code: "wrong_type" });
    expect(account.calls).toEqual([]);
  });

  it("tells a refused token from a missing right and a missing mount", async () => {
    expect(await at.with({ token: "hvs.wrong" }).probe()).toMatchObject({ code: "auth_failed" });
    expect(await at.with({ mount: "missing" }).probe()).toMatchObject({ code: "permission_denied" });
    account.denied.add("get metadata");
    expect(await at.probe("app/db")).toMatchObject({ code: "permission_denied" });
  });

  it("sends no token to a host that is no longer listed", async () => {
    const unlisted = at.with({}, { settings: {}, clusterId });
    expect(await unlisted.put("app/db")).toMatchObject({ outcome: "client", code: "host_not_allowed" });
    expect(kvV2Destination.checkSettings?.(at.connection, {})).toContain("SYNC_ALLOWED_HOSTS");
    const plain = { ...at.connection, address: "http://vault.example.com" };
    expect(kvV2Destination.checkSettings?.(plain, { SYNC_ALLOWED_HOSTS: "vault.example.com" })).toContain("https");
  });
});

describe("identity tokens", () => {
  const identity = () => ({
    issuer: "https://sallyport.example.com",
    subject: "sync:kv-v2:d",
    audience: "vault",
    sign: async () => account.jwt,
  });
  const body = () => ({ token: "", identity_token_audience: "vault", auth_role: "sync" });

  it("log in once for many calls, and again after a session was revoked", async () => {
    const federated = at.with(body(), { settings, clusterId, identity: identity() });
    await federated.put("a");
    await federated.put("b");
    expect(account.sessions.size).toBe(1);
    account.sessions.clear();
    expect(await federated.put("c")).toMatchObject({ outcome: "ok" });
    expect(account.sessions.size).toBe(1);
  });

  it("that the role does not accept are refused credentials", async () => {
    const wrong = { ...identity(), sign: async () => "jwt.other" };
    const federated = at.with(body(), { settings, clusterId, identity: wrong });
    expect(await federated.put("a")).toMatchObject({ outcome: "client", code: "auth_failed" });
  });

  it("need a role, and exclude a token", () => {
    const parse = (changed: object) => kvV2Destination.connection.safeParse({ ...at.connection, ...changed }).success;
    expect(parse({ token: "", identity_token_audience: "vault" })).toBe(false);
    expect(parse({ identity_token_audience: "vault", auth_role: "sync" })).toBe(false);
    expect(parse({ token: "" })).toBe(false);
    expect(parse({ token: "", identity_token_audience: "vault", auth_role: "sync" })).toBe(true);
  });
});

describe("a listing", () => {
  const page = (cursor: string): Promise<Listing> | undefined =>
    kvV2Destination.reading?.list(cursor, at.connection, { settings, send: sender({ deadlineMs: 5_000 }) });

  it("goes on from the next folder, also when that is gone, with cursors that are paths", async () => {
    const expected = ["top"];
    for (let n = 10; n < 40; n++) expected.push(`f${n}/a`, `f${n}/deep/er/b`, `f${n}/deep/z`);
    for (const name of expected) foreign(name);
    const names: string[] = [];
    const cursors: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const listed: Listing | undefined = await page(cursor);
      if (listed?.outcome !== "ok") throw new Error(JSON.stringify(listed));
      names.push(...listed.names);
      cursor = listed.next;
      if (cursor !== null) cursors.push(cursor);
    }
    expect(names.toSorted()).toEqual(expected.toSorted());
    expect(cursors.length).toBeGreaterThan(3);
    for (const cursor of cursors) expect(cursor).toMatch(/^f\d\d\/(deep\/(er\/)?)?$/);
    account.engine.deleteAll("f20/deep/er/b");
    const rest = await page("f20/deep/er/");
    expect(rest?.outcome === "ok" && rest.names.slice(0, 3)).toEqual(["f21/a", "f21/deep/z", "f21/deep/er/b"]);
  });

  it.each(["../../other/metadata/", "a/../b/", "/", "a//", "a", '["a/"]', "\ud800/", "a/".repeat(101)])(
    "refuses the cursor %j without a call",
    async (cursor) => {
      expect(await page(cursor)).toMatchObject({ outcome: "client", code: "cursor_invalid" });
      expect(account.calls).toEqual([]);
    },
  );

  it("stays in the mount, whatever names a server lists", async () => {
    account.engine.list = () => ["../", "..", "./", "", "/", "a/../../b/", "x"];
    expect(await page("")).toEqual({ outcome: "ok", names: ["..", "x"], next: null });
    expect(account.calls).toEqual(["LIST metadata"]);
    const read = kvV2Destination.reading?.read?.("..", at.connection, {
      settings,
      send: sender({ deadlineMs: 5_000 }),
    });
    expect(await read).toMatchObject({ outcome: "client", code: "name_invalid" });
    expect(account.calls).toEqual(["LIST metadata"]);
  });
});

describe("remove", () => {
  it("removes all versions with the metadata, or the newest version", async () => {
    await at.put("app/db");
    expect(await at.remove("app/db")).toEqual({ outcome: "ok" });
    expect(() => account.engine.metadata("app/db")).toThrow();
    await at.put("app/db");
    expect(await at.with({ delete_mode: "version" }).remove("app/db")).toEqual({ outcome: "ok" });
    expect(account.engine.metadata("app/db")).toMatchObject({ current_version: 1 });
    expect(secret()).toBeUndefined();
  });

  it("of an absent secret succeeds, and spares a foreign one", async () => {
    expect(await at.remove("app/none", { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(await at.remove("app/none")).toEqual({ outcome: "ok" });
    foreign("app/db");
    expect(await at.remove("app/db", { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(secret()?.data).toEqual({ theirs: "x" });
  });
});

describe("inspect", () => {
  const found = (state: string, owned: boolean | null) => ({ outcome: "ok", state, owned });

  it("finds changes by version, time and tags", async () => {
    const tags = { "hashicorp:vault": "", team: "web" };
    expect(await at.inspect("app/db")).toEqual(found("absent", null));
    const reference = referenceOf(await at.put("app/db", { tags }));
    expect(await at.inspect("app/db", { reference, tags })).toEqual(found("unchanged", true));
    expect(await at.inspect("app/db")).toEqual(found("present", true));
    account.engine.patch("app/db", { custom_metadata: { team: "other" } });
    expect(await at.inspect("app/db", { reference, tags })).toEqual(found("changed", true));
    expect(await at.inspect("app/db", { reference })).toEqual(found("unchanged", true));
    foreign("app/db");
    expect(await at.inspect("app/db", { reference })).toEqual(found("changed", true));
    account.engine.deleteAll("app/db");
    foreign("app/db");
    expect(await at.inspect("app/db", { reference })).toEqual(found("changed", false));
    account.engine.deleteNewest("app/db");
    expect(await at.inspect("app/db", { reference })).toEqual(found("absent", null));
  });
});

describe("names and tags", () => {
  it.each([
    ["a//b/", "a/b"],
    ["/a/../b", "a/--/b"],
    ["./a", "-/a"],
  ])("%s becomes %s", (name, expected) => expect(kvV2Destination.naming.adapt?.(name)).toBe(expected));

  it.each([
    [{ team: "" }, "1 to 512"],
    [{ managed_by: "me" }, "ours"],
    [{ ["k".repeat(129)]: "v" }, "1 to 128"],
    [Object.fromEntries(Array.from({ length: 63 }, (_, n) => [`k${n}`, "v"])), "at most 62"],
  ])("refuses the tags %j", (tags, rule) => {
    expect(kvV2Destination.checkTags?.({ "hashicorp:vault": "", ...tags })).toContain(rule);
  });
});
