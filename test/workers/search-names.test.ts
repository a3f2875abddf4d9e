import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { KvStore } from "../../src/worker.ts";
import { cut } from "../crash/crash-point.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { type Answer, del, get, list, mountKv, put, send } from "./client.ts";
import { dynamicRole, mountEngine, openTenant, writeRole } from "./engine-helpers.ts";
import { addNode, make, nodeId, ScriptedNodes } from "./host-volumes.ts";
import { job, report } from "./reports.ts";
import { makeDestination, write } from "./sync-helpers.ts";

type Options = Parameters<typeof get>[1];

const search = (query: string, options?: Options): Promise<Answer> => get(`/v1/sys/search?${query}`, options);
const pathsOf = ({ status, body, text }: Answer): string[] => {
  expect(status, text).toBe(200);
  return body.data.hits.map((hit: { namespace: string; path: string }) => hit.namespace + hit.path);
};
const found = async (query: string, options?: Options): Promise<string[]> => pathsOf(await search(query, options));
const finds = (query: string, paths: readonly string[], options?: Options) =>
  vi.waitFor(async () => expect(await found(query, options)).toEqual(paths));
const rebuild = () => send("POST", "/v1/sys/listings/rebuild");
/** Names in D1, sorted. */
const listed = async (): Promise<string[]> => {
  const { results } = await env.LISTINGS.prepare("SELECT path FROM names ORDER BY path").all<{ path: string }>();
  return results.map((row) => row.path);
};
const inKv = { headers: { "X-Orch-Namespace": "team" } };

let uuid: string;
const store = () => env.KV_STORE.getByName(uuid) as DurableObjectStub<KvStore>;

beforeEach(async () => {
  ({ uuid } = await mountKv());
});
afterEach(() => void vi.restoreAllMocks());

describe("GET sys/search", () => {
  it("finds secrets by words in any case, those whose name begins with the first word first", async () => {
    for (const name of ["app/Stripe-Key", "stripe/live", "x/old-stripe", "billing/db"]) await write(name, { v: 1 });
    await finds("q=STRIPE&type=secret", ["kv/data/app/Stripe-Key", "kv/data/stripe/live", "kv/data/x/old-stripe"]);
    expect(await found("q=stripe%20live&type=secret")).toEqual(["kv/data/stripe/live"]);
    expect(await found("q=app/str")).toEqual(["kv/data/app/Stripe-Key"]);
    expect(await found("q=nothing")).toEqual([]);
  });

  it("finds secrets of both versions of the API, moved mounts and every type of object", async () => {
    await put("/v1/sys/mounts/one", { type: "kv", options: { version: "1" } });
    await put("/v1/one/find-a", { v: "1" });
    await write("find-b", { v: 1 });
    await put("/v1/kv/metadata/find-c", { max_versions: 3 });
    await policies({ "find-p": path("kv/*", "read") });
    await makeDestination("in-mem", "find-d");
    const all = [
      "kv/data/find-b",
      "kv/data/find-c",
      "one/find-a",
      "sys/policies/acl/find-p",
      "sys/sync/destinations/in-mem/find-d",
    ];
    await vi.waitFor(async () => expect((await found("q=find-")).sort()).toEqual(all));
    for (const mount of ["one", "one/"]) expect(await found(`q=find-&mount=${mount}`)).toEqual(["one/find-a"]);
    expect(await found("q=find-&mount=kv&type=policy,secret")).toEqual(["kv/data/find-b", "kv/data/find-c"]);
    expect(await found("q=find-&mount=none")).toEqual([]);
    expect((await send("POST", "/v1/sys/remount", { from: "one", to: "two" })).status).toBe(200);
    await finds("q=find-a", ["two/find-a"]);
  });

  it("finds roles of engines until they are deleted", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    await writeRole("find-role", dynamicRole(tenant));
    await finds("q=find-role", ["cloud-b/roles/find-role"]);
    const reader = await holderOf(path("cloud-b/roles/find-role", "read"));
    expect(await found("q=find", { token: reader.client_token })).toEqual(["cloud-b/roles/find-role"]);
    const user = await holderOf(path("cloud-b/creds/*", "read"));
    expect(await found("q=find", { token: user.client_token })).toEqual([]);
    expect((await del("/v1/cloud-b/roles/find-role")).status).toBeLessThan(300);
    await finds("q=find-role", []);
  });

  it("forgets deleted secrets and mounts", async () => {
    await write("gone/a", { v: 1 });
    await write("gone/b", { v: 1 });
    await finds("q=gone", ["kv/data/gone/a", "kv/data/gone/b"]);
    await del("/v1/kv/metadata/gone/a");
    await finds("q=gone", ["kv/data/gone/b"]);
    expect((await del("/v1/kv/data/gone/b")).status).toBe(204);
    expect(await found("q=gone")).toEqual(["kv/data/gone/b"]);
    await del("/v1/sys/mounts/kv");
    expect(await found("q=gone")).toEqual([]);
    await vi.waitFor(async () => expect(await listed()).toEqual([]));
  });

  it("finds what is in the namespace and below it, and never above or beside it", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/sys/namespaces/other", {});
    await put("/v1/sys/namespaces/sub", {}, inKv);
    for (const namespace of ["team", "other", "team/sub"]) {
      const there = { headers: { "X-Orch-Namespace": namespace } };
      await mountKv("kv", there);
      await put("/v1/kv/data/deep", { data: { v: 1 } }, there);
      await policies({ deep: path("kv/*", "read") }, there);
    }
    await write("deep", { v: 1 });
    const all = ["", "other/", "team/", "team/sub/"];
    const of = (namespaces: string[]) =>
      [...namespaces.map((at) => `${at}kv/data/deep`), ...namespaces.map((at) => `${at}sys/policies/acl/deep`)].sort();
    const sorted = async (query: string, options?: Options) => (await found(query, options)).sort();
    await vi.waitFor(async () =>
      expect(await sorted("q=deep")).toEqual(of(all).filter((each) => each !== "sys/policies/acl/deep")),
    );
    expect(await sorted("q=deep", inKv)).toEqual(of(["team/", "team/sub/"]));
    expect(await sorted("q=deep&namespace=team/sub")).toEqual(of(["team/sub/"]));
    expect(await sorted("q=deep&namespace=sub", inKv)).toEqual(of(["team/sub/"]));
    const own = await issue({ policies: ["deep"] }, inKv);
    expect(await sorted("q=deep", { token: own.client_token, ...inKv })).toEqual(["team/kv/data/deep"]);
    await del("/v1/sys/mounts/kv", { headers: { "X-Orch-Namespace": "team/sub" } });
    expect(await found("q=deep&namespace=team/sub&type=secret")).toEqual([]);
  });

  it("returns pages that neither skip nor repeat, also while names are added and removed", async () => {
    for (let n = 0; n < 25; n++) await write(`p/${String(n).padStart(2, "0")}`, { v: n });
    await finds("q=p/&limit=1", ["kv/data/p/00"]);
    await vi.waitFor(async () => expect((await listed()).length).toBe(25));
    const seen: string[] = [];
    for (let after = ""; ; ) {
      const page = await search(`q=p/&limit=7&type=secret&after=${after}`);
      seen.push(...pathsOf(page));
      after = page.body.data.next;
      if (after === "") break;
      if (seen.length === 7) {
        await del("/v1/kv/metadata/p/06");
        await write("p/00a", { v: 1 });
        await vi.waitFor(async () => expect(await listed()).toContain("p/00a"));
      }
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => `kv/data/p/${String(n).padStart(2, "0")}`));
  });

  it("returns 400 for bad input, and for the position of another caller", async () => {
    for (const query of [
      "",
      "q=",
      "q=%20",
      `q=${"x".repeat(257)}`,
      "q=a%20b%20c%20d%20e%20f%20g%20h%20i",
      "q=a&type=teapot",
      "q=a&type=secret,",
      "q=a&limit=0",
      "q=a&limit=101",
      "q=a&limit=x",
      "q=a&limit=-1",
      "q=a&after=x",
      "q=a&after=AAAA",
      "q=a&namespace=none",
    ]) {
      const { status, body } = await search(query);
      expect([query, status, body.errors?.length]).toEqual([query, 400, 1]);
    }
    for (const name of ["a1", "a2"]) await write(name, { v: 1 });
    await finds("q=a&type=secret", ["kv/data/a1", "kv/data/a2"]);
    const { next } = (await search("q=a&type=secret&limit=1")).body.data;
    expect(await found(`q=a&type=secret&after=${next}`)).toEqual(["kv/data/a2"]);
    const other = await issue({ policies: ["root"] });
    expect((await search(`q=a&after=${next}`, { token: other.client_token })).status).toBe(400);
    expect((await search("q=a", { token: null })).status).toBe(403);
  });

  it("returns 503 while D1 is down", async () => {
    await write("x", { v: 1 });
    vi.spyOn(env.LISTINGS, "withSession").mockImplementation(() => {
      throw new Error("down");
    });
    const { status, body } = await search("q=x");
    expect([status, body.errors]).toEqual([503, ["the names cannot be read at the moment; try again"]]);
    expect((await search("q=x&type=policy")).status).toBe(200);
  });
});

describe("rights of a search", () => {
  const TREE = ["a/one", "a/two", "b/one", "top-one"];
  const all = TREE.map((name) => `kv/data/${name}`);
  const RIGHTS: readonly [rules: string, sees: readonly string[]][] = [
    [path("kv/metadata/*", "list"), all],
    [path("kv/*", "read"), all],
    [path("*", "read", "list"), all],
    [path("kv/metadata/a/*", "list"), ["kv/data/a/one", "kv/data/a/two"]],
    [path("kv/metadata/a/", "list"), ["kv/data/a/one", "kv/data/a/two"]],
    [path("kv/metadata/", "list"), ["kv/data/top-one"]],
    [path("kv/data/b/one", "read"), ["kv/data/b/one"]],
    [path("kv/metadata/b/one", "read"), ["kv/data/b/one"]],
    [path("kv/data/+/one", "read"), ["kv/data/a/one", "kv/data/b/one"]],
    [path("kv/*", "create", "update", "delete", "patch"), []],
    [path("kv/data/*", "list"), []],
    [path("kv/*", "read", "list") + path("kv/data/a/*", "deny") + path("kv/metadata/a*", "deny"), all.slice(2)],
    [path("kv/*", "read", "list") + path("kv/+/a/*", "deny"), all],
    [path("kv/*", "deny"), []],
    [path("sys/search", "read"), []],
    [path("sys/*", "read", "list", "sudo"), []],
    [path("other/*", "read", "list"), []],
  ];

  it("finds a secret with list on its folder or read on its path, and no other", async () => {
    for (const name of TREE) await write(name, { v: 1 });
    await vi.waitFor(async () => expect((await listed()).length).toBe(TREE.length));
    for (const [rules, sees] of RIGHTS) {
      const { client_token: token } = await holderOf(rules);
      const answers = TREE.map(async (name) => [
        (await list(`/v1/kv/metadata/${name.slice(0, name.lastIndexOf("/") + 1)}`, { token })).status,
        (await get(`/v1/kv/data/${name}`, { token })).status,
        (await get(`/v1/kv/metadata/${name}`, { token })).status,
      ]);
      const isShown = (await Promise.all(answers)).map((statuses) => statuses.includes(200));
      expect([rules, all.filter((_, index) => isShown[index])]).toEqual([rules, sees]);
      for (const limit of [1, 2, 100]) {
        const seen: string[] = [];
        for (let after = ""; ; ) {
          const page = await search(`q=o&type=secret&limit=${limit}&after=${after}`, { token });
          const paths = pathsOf(page);
          expect(paths.length, rules).toBeLessThanOrEqual(limit);
          seen.push(...paths);
          after = page.body.data.next;
          if (after === "") break;
        }
        expect(seen.sort(), `${rules} ${limit}`).toEqual([...sees].sort());
      }
    }
  });

  it("does not show hidden names in positions", async () => {
    for (let n = 0; n < 30; n++) await write(`hidden/canary-${n}`, { v: 1 });
    await write("zz/canary", { v: 1 });
    await vi.waitFor(async () => expect((await listed()).length).toBe(31));
    const { client_token: token } = await holderOf(path("kv/metadata/zz/*", "list"));
    const { text, body } = await search("q=canary&limit=1", { token });
    expect(body.data.hits.map(({ name }: { name: string }) => name)).toEqual(["zz/canary"]);
    expect(text).not.toContain("hidden");
    expect(Buffer.from(body.data.next, "base64url").toString("latin1")).not.toContain("hidden");
  });

  it("finds policies and destinations with list or read, and says what it did not search", async () => {
    await policies({ "find-p": path("kv/*", "read") });
    await makeDestination("in-mem", "find-d");
    const types = "q=find-&type=policy,destination";
    const both = ["sys/policies/acl/find-p", "sys/sync/destinations/in-mem/find-d"];
    const cases: readonly [string, readonly string[], readonly string[]][] = [
      [path("sys/policies/acl", "list") + path("sys/sync/destinations", "list"), both, []],
      [path("sys/*", "list"), both, []],
      [path("sys/policies/acl/find-p", "read"), both.slice(0, 1), ["policy", "destination"]],
      [path("sys/sync/destinations/in-mem/find-d", "read"), both.slice(1), ["policy", "destination"]],
      [path("sys/sync/destinations/in-mem", "list"), both.slice(1), ["policy", "destination"]],
      [path("kv/*", "read"), [], ["policy", "destination"]],
    ];
    for (const [rules, sees, lacks] of cases) {
      const { client_token: token } = await holderOf(rules);
      const { body } = await search(types, { token });
      expect([rules, body.data.hits.map((hit: { path: string }) => hit.path)]).toEqual([rules, sees]);
      expect(body.data.not_searched.map(({ type }: { type: string }) => type)).toEqual(lacks);
    }
  });

  it("finds nodes, volumes and jobs with the right of their list, in pages", async () => {
    new ScriptedNodes();
    for (const number of [1, 2, 3]) await addNode(number, { Name: `find-n${number}` });
    await put("/v1/namespace/dev", {});
    await report(job({ ID: "find-j", Name: "find-j" }), job({ ID: "find-k", Name: "Find-K" }, { Namespace: "dev" }));
    const volume = await make({ Name: "find-v" });
    const nodes = [1, 2, 3].map((number) => `node/${nodeId(number)}`);
    const volumes = [`default/volume/host/${volume.ID}`];
    const jobs = ["default/job/find-j", "dev/job/find-k"];
    const cases: readonly [rules: string, sees: readonly string[], lacks: readonly string[]][] = [
      ['node { policy = "read" }', nodes, ["volume", "job"]],
      ['namespace "default" { capabilities = ["host-volume-read"] }', volumes, ["node", "volume", "job"]],
      ['namespace "default" { capabilities = ["list-jobs"] }', jobs.slice(0, 1), ["node", "volume"]],
      ['namespace "*" { capabilities = ["list-jobs"] }', jobs, ["node", "volume"]],
      [path("kv/*", "list"), [], ["node", "volume", "job"]],
    ];
    for (const [rules, sees, lacks] of [...cases, [null, [...nodes, ...volumes, ...jobs], []] as const]) {
      const token = rules === null ? "root" : (await holderOf(rules)).client_token;
      for (const limit of [1, 2, 100]) {
        const seen: string[] = [];
        for (let after = ""; ; ) {
          const { body, text } = await search(`q=FIND&type=node,volume,job&limit=${limit}&after=${after}`, { token });
          expect(body.data?.hits.length, text).toBeLessThanOrEqual(limit);
          for (const hit of body.data.hits) seen.push(hit.namespace === "" ? hit.path : `${hit.namespace}/${hit.path}`);
          expect(body.data.not_searched.map(({ type }: { type: string }) => type)).toEqual(lacks);
          after = body.data.next;
          if (after === "") break;
        }
        expect([rules, limit, seen]).toEqual([rules, limit, sees]);
      }
    }
  });

  it("judges by the policies of the moment", async () => {
    await write("now", { v: 1 });
    await policies({ mine: path("kv/metadata/*", "list") });
    const { client_token: token } = await issue({ policies: ["mine"] });
    await finds("q=now", ["kv/data/now"], { token });
    await policies({ mine: path("kv/metadata/x/*", "list") });
    expect(await found("q=now", { token })).toEqual([]);
  });
});

describe("the names in D1", () => {
  it("hold no value", async () => {
    await write("named", { password: "canary-value" });
    await vi.waitFor(async () => expect(await listed()).toEqual(["named"]));
    expect(JSON.stringify((await env.LISTINGS.prepare("SELECT * FROM names").all()).results)).not.toContain("canary");
  });

  it("cost no row for a further version", async () => {
    await write("again", { v: 1 });
    await vi.waitFor(async () => expect(await listed()).toEqual(["again"]));
    const sent = vi.spyOn(env.LISTINGS, "batch");
    await write("again", { v: 2 });
    await runInDurableObject(store(), (object) => object["outbox"].drain());
    expect(sent).not.toHaveBeenCalled();
  });

  it("are complete after a kill before or after any step of a delivery", async () => {
    for (const when of ["before", "after"] as const) {
      const happened = cut(["KvStore", "put", when]);
      await put(`/v1/kv/data/${when}`, { data: { v: 1 } }).catch(() => null);
      expect(happened()).toBe(true);
      await put(`/v1/kv/data/next-${when}`, { data: { v: 1 } });
      const expected = await runInDurableObject(store(), (_object, { storage: { sql } }) =>
        sql
          .exec<{ path: string }>("SELECT path FROM secrets ORDER BY path")
          .toArray()
          .map((row) => row.path),
      );
      await vi.waitFor(async () => expect(await listed()).toEqual(expected));
    }
  });

  it("lose and double nothing when the object dies while D1 writes", async () => {
    for (const when of ["before", "after"] as const) {
      const original = env.LISTINGS.batch.bind(env.LISTINGS);
      vi.spyOn(env.LISTINGS, "batch").mockImplementationOnce(async (...given) => {
        if (when === "after") await original(...given);
        await runInDurableObject(store(), (_object, state) => state.abort("killed")).catch(() => null);
        throw new Error("killed");
      });
      await put(`/v1/kv/data/${when}`, { data: { v: 1 } }).catch(() => null);
      await put("/v1/kv/data/later", { data: { v: 1 } }).catch(() => put("/v1/kv/data/later", { data: { v: 1 } }));
      await vi.waitFor(async () => expect(await listed()).toEqual(expect.arrayContaining([when, "later"])));
      vi.restoreAllMocks();
    }
    expect(await listed()).toEqual(["after", "before", "later"]);
  });

  it("follow once D1 is back, without a rebuild", async () => {
    const down = vi.spyOn(env.LISTINGS, "batch").mockRejectedValue(new Error("down"));
    await write("first", { v: 1 });
    await write("second", { v: 1 });
    await vi.waitFor(() => expect(down).toHaveBeenCalled());
    expect(await listed()).toEqual([]);
    down.mockRestore();
    await write("third", { v: 1 });
    await vi.waitFor(async () => expect(await listed()).toEqual(["first", "second", "third"]));
  });

  it("are rebuilt: lost ones come back, stale ones and those of unknown mounts go", async () => {
    for (let n = 0; n < 5; n++) await write(`s${n}`, { v: n });
    await vi.waitFor(async () => expect((await listed()).length).toBe(5));
    await env.LISTINGS.batch([
      env.LISTINGS.prepare("DELETE FROM names WHERE path IN ('s1', 's3')"),
      env.LISTINGS.prepare("INSERT INTO names VALUES (?, 'stale', 'x/stale', 'x/stale')").bind(uuid),
      env.LISTINGS.prepare("INSERT INTO names VALUES ('nobody', 'ghost', 'ghost', 'ghost')"),
    ]);
    const { status, body } = await rebuild();
    expect([status, body.data.behind, body.data.listed_names]).toEqual([200, 0, 5]);
    expect(await listed()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    for (const when of ["before", "after"] as const) {
      await env.LISTINGS.prepare("DELETE FROM names").run();
      const happened = cut(["KvStore", "relistNames", when]);
      await rebuild();
      expect(happened()).toBe(true);
    }
    expect((await rebuild()).status).toBe(200);
    expect(await listed()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
  });

  it("are rebuilt in pages of bounded rows", async () => {
    await write("s", { v: 1 });
    await runInDurableObject(store(), (_object, { storage: { sql } }) => {
      for (let n = 0; n < 2_500; n++)
        sql.exec(
          `INSERT INTO secrets SELECT ?, created, updated, current_version, oldest_version, max_versions, cas_required,
             delete_version_after, custom_metadata, 0, 0 FROM secrets WHERE path = 's'`,
          `many/${String(n).padStart(4, "0")}`,
        );
    });
    expect((await rebuild()).body.data.listed_names).toBe(2_501);
    expect(await found("q=many/2499")).toEqual(["kv/data/many/2499"]);
    await runInDurableObject(store(), (_object, { storage: { sql } }) =>
      sql.exec("DELETE FROM secrets WHERE path LIKE 'many/1%'"),
    );
    expect((await rebuild()).body.data.listed_names).toBe(1_501);
  });

  it("include secrets that are older than the search", async () => {
    await write("old", { v: 1 });
    await vi.waitFor(async () => expect(await listed()).toEqual(["old"]));
    await env.LISTINGS.prepare("DELETE FROM names").run();
    await runInDurableObject(store(), (_object, { storage: { sql } }) =>
      sql.exec("INSERT INTO outbox (topic, lane, seq, body, enlisted) VALUES ('names', 'upgrade', 1, 'null', 0)"),
    );
    await runInDurableObject(store(), (_object, state) => state.abort("restarted")).catch(() => null);
    await write("new", { v: 1 });
    await runInDurableObject(store(), (object) => object["outbox"].drain("names"));
    await vi.waitFor(async () => expect(await listed()).toEqual(["new", "old"]));
  });
});
