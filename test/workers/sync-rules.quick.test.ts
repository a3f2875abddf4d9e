import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { RuleDefinition } from "../../src/contracts/sync-rules.ts";
import { unwrap } from "../../src/platform/http/errors.ts";
import { syncDestination } from "../../src/rpc/stubs.ts";
import { DesiredState } from "../../src/sync/associations/desired-state.ts";
import { defineRule, RuleBody } from "../../src/sync/rules/rule.ts";
import { KvStore } from "../../src/worker.ts";
import { issue, path, policies } from "./access.ts";
import { del, get, mountKv, patch, put } from "./client.ts";
import {
  association,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";

/** Associations by rule. */

const AT = "/v1/sys/sync/destinations/in-mem/d";
const rule = (name: string, body: object, options?: Parameters<typeof put>[2]) =>
  put(`${AT}/rules/${name}`, { mount: "kv", ...body }, options);
const read = async (name: string) => (await get(`${AT}/rules/${name}`)).body.data;
const secrets = async () =>
  Object.values(await objects("d"))
    .map((value) => JSON.parse(value).of as string)
    .sort();
const holds = (...expected: string[]) => eventually(async () => expect(await secrets()).toEqual(expected.sort()));
const add = (...names: string[]) => Promise.all(names.map((name) => write(name, { of: name })));

beforeEach(async () => {
  await mountKv();
  await makeDestination("in-mem", "d");
});

describe("a rule", () => {
  it("sets what matches today and later, and removes what no longer does", async () => {
    await add("app/db", "app/web", "apple", "other");
    const made = await rule("web", { path_prefix: "app" });
    expect([made.status, made.body.data?.status], made.text).toEqual([200, "active"]);
    await holds("app/db", "app/web");
    expect(await association("in-mem/d", "app/db")).toMatchObject({ sync_status: "SYNCED", origins: ["rule:web"] });
    await add("app/new", "apples");
    await holds("app/db", "app/new", "app/web");
    await add("app/new");
    await del("/v1/kv/metadata/app/db");
    await holds("app/new", "app/web");
    await eventually(async () =>
      expect(await read("web")).toMatchObject({
        mount: "kv",
        status: "active",
        progress: { matched: 2, applied: 2, pending_removals: 0 },
        sync_operation_counters: { SYNCED: 2 },
      }),
    );
    expect((await get(`${AT}/rules/web/matches`)).body.data).toEqual({
      matches: [
        { secret_name: "app/new", state: "set" },
        { secret_name: "app/web", state: "set" },
      ],
      next: "",
    });
    expect((await get(`${AT}/rules?list=true`)).body.data.keys).toEqual(["web"]);
    expect((await del(`${AT}/rules/web`)).status).toBe(204);
    await holds();
    await eventually(async () => expect((await get(`${AT}/rules/web`)).status).toBe(404));
  });

  it("tells the mount of a page of secrets by one call", async () => {
    await add(...Array.from({ length: 60 }, (_, each) => `app/k${each}`));
    const watches = vi.spyOn(KvStore.prototype, "watch");
    const many = vi.spyOn(KvStore.prototype, "watchMany");
    await rule("web", { path_prefix: "app" });
    await eventually(async () => expect(await read("web")).toMatchObject({ progress: { applied: 60 } }));
    await eventually(async () => expect(Object.keys(await objects("d"))).toHaveLength(60));
    expect([watches.mock.calls.length, many.mock.calls.length]).toEqual([0, 2]);
    expect(many.mock.calls.flatMap(([, begun]) => begun)).toHaveLength(60);
  });

  it("pushes a change first that came after its comparison and before the mount was told", async () => {
    await add("app/a", "app/b", "app/c");
    await patch("/sys/sync/config", { disabled: true });
    const original = KvStore.prototype.watchMany;
    vi.spyOn(KvStore.prototype, "watchMany").mockImplementationOnce(async function (
      this: KvStore,
      ...given: Parameters<typeof original>
    ) {
      await scheduler.wait(5);
      await put("/v1/kv/data/app/c", { data: { of: "changed" } });
      return original.apply(this, given);
    } as unknown as typeof original);
    await rule("web", { path_prefix: "app" });
    const first = await runInDurableObject(env.SYNC_DESTINATION.getByName("in-mem/d"), (_object, state) =>
      state.storage.sql.exec("SELECT id, failed FROM work ORDER BY failed, ready_at").toArray(),
    );
    expect(first.map(({ id, failed }) => [String(id).replace(/^[^/]*\//, ""), failed])).toEqual([
      ["app/c", 0],
      ["app/a", 2],
      ["app/b", 2],
    ]);
    await patch("/sys/sync/config", { disabled: false });
    await holds("app/a", "app/b", "changed");
  });

  it("wakes a Worker as soon as a page is set, and not after the time that a request has for its own push", async () => {
    await add("app/db", "app/web");
    const sent = vi.spyOn(env.SYNC_WORK, "send");
    await rule("web", { path_prefix: "app" });
    await eventually(async () => expect(await read("web")).toMatchObject({ progress: { applied: 2 } }));
    expect(sent.mock.calls.map(([body]) => body)).toContainEqual({ destination: "in-mem/d" });
    await holds("app/db", "app/web");
  });

  it("works while another one's mount fails", async () => {
    const survey = KvStore.prototype.survey;
    vi.spyOn(KvStore.prototype, "survey").mockImplementation(function (this: KvStore, ...given) {
      if (given[0] === "bad/") throw new Error("down");
      return survey.apply(this, given);
    });
    expect((await rule("bad", { path_prefix: "bad/" })).body.data.status).toBe("scanning");
    await add("app/db");
    expect((await rule("web", { path_prefix: "app/" })).body.data.status).toBe("active");
    await holds("app/db");
  });

  it("is answered while its mount does not answer", async () => {
    const open = Promise.withResolvers<void>();
    const survey = KvStore.prototype.survey;
    vi.spyOn(KvStore.prototype, "survey").mockImplementation(async function (
      this: KvStore,
      ...given: Parameters<KvStore["survey"]>
    ) {
      await open.promise;
      return survey.apply(this, given);
    } as unknown as KvStore["survey"]);
    await add("app/db");
    expect((await rule("web", { path_prefix: "app/" })).body.data.status).toBe("scanning");
    open.resolve();
    await holds("app/db");
  });

  it("follows metadata, globs and exclusions", async () => {
    await add("a/one", "a/two", "a/private/x");
    await put("/v1/kv/metadata/a/one", { custom_metadata: { env: "prod" } });
    await put("/v1/kv/metadata/a/private/x", { custom_metadata: { env: "prod" } });
    const body = { path_glob: ["a/**"], exclude_glob: ["a/private/**"], metadata_selector: { env: "prod" } };
    expect((await rule("prod", body)).status).toBe(200);
    await holds("a/one");
    const listed = [{ key: "env", operator: "NotIn", values: ["prod"] }];
    await rule("prod", { ...body, metadata_selector: listed });
    await holds("a/two");
    await rule("prod", body);
    await holds("a/one");
    await put("/v1/kv/metadata/a/two", { custom_metadata: { env: "prod" } });
    await holds("a/one", "a/two");
    await put("/v1/kv/metadata/a/one", { custom_metadata: { env: "test" } });
    await holds("a/two");
  });

  it("and a request, and another rule are one object, which goes with its last origin", async () => {
    await add("app/db");
    await rule("one", { path_prefix: "app" });
    await rule("two", { path_glob: ["*/db"], priority: 50 });
    await setAssociation("in-mem/d", "app/db");
    expect(await association("in-mem/d", "app/db")).toMatchObject({ origins: ["manual", "rule:two", "rule:one"] });
    expect(Object.keys(await objects("d"))).toHaveLength(1);
    await removeAssociation("in-mem/d", "app/db");
    await holds("app/db");
    await del(`${AT}/rules/two`);
    await holds("app/db");
    await eventually(async () =>
      expect(await association("in-mem/d", "app/db")).toMatchObject({ origins: ["rule:one"] }),
    );
    await del(`${AT}/rules/one`);
    await holds();
  });

  it("leaves the name of a shared object to the rule that comes first after a change of priorities", async () => {
    await add("app/db");
    const named = (name: string, priority: number) => {
      const body = { path_prefix: "app", name_template: `${name}/{{ .SecretPath }}`, priority };
      return rule(name, body);
    };
    const isNamed = (name: string) =>
      eventually(async () => expect(Object.keys(await objects("d"))).toEqual([`${name}/app/db`]));
    await named("one", 50);
    await named("two", 100);
    await isNamed("one");
    await named("one", 150);
    await isNamed("two");
    await named("one", 50);
    await isNamed("one");
  });

  it("is an origin by which drift is counted", async () => {
    await add("app/a", "app/b", "other");
    await setAssociation("in-mem/d", "other");
    const plain = (await get(`${AT}/drift`)).body.data;
    expect([plain.origins, plain.objects[Object.keys(plain.objects)[0] ?? ""].origins]).toEqual([undefined, undefined]);
    await rule("web", { path_prefix: "app" });
    await holds("app/a", "app/b", "other");
    await setAssociation("in-mem/d", "app/a");
    const { data } = (await get(`${AT}/drift`)).body;
    expect(data.origins).toEqual({ manual: { in_sync: 2 }, "rule:web": { in_sync: 2 } });
    expect(data.counters).toEqual({ in_sync: 3 });
    const origins = Object.entries<{ origins?: string[] }>(data.objects).map(([key, found]) => [
      key.replace(/^[^/]*\//, ""),
      found.origins,
    ]);
    expect(origins.sort()).toEqual([
      ["app/a", ["manual", "rule:web"]],
      ["app/b", ["rule:web"]],
      ["other", undefined],
    ]);
  });

  it("names its objects by its own template, and again when that changes", async () => {
    await add("app/db");
    await rule("web", { path_prefix: "app", name_template: "one/{{ .SecretPath }}" });
    await eventually(async () => expect(Object.keys(await objects("d"))).toEqual(["one/app/db"]));
    await rule("web", { path_prefix: "app", name_template: "two/{{ .SecretPath }}" });
    await eventually(async () => expect(Object.keys(await objects("d"))).toEqual(["two/app/db"]));
    const byKey = {
      path_prefix: "app",
      granularity: "secret-key",
      name_template: "{{ .SecretPath }}-{{ .SecretKey }}",
    };
    await rule("web", byKey);
    await eventually(async () => expect(await objects("d")).toEqual({ "app/db-of": "app/db" }));
  });

  it("removes what an edit of its prefix leaves out while its associations are set again", async () => {
    await add("app/a", "app/b", "web/a");
    const all = { match_all: true, max_removals: 100 };
    await rule("web", all);
    await holds("app/a", "app/b", "web/a");
    await setAssociation("in-mem/d", "app/b");
    await removeAssociation("in-mem/d", "app/b");
    await rule("web", { ...all, match_all: false, path_prefix: "web", name_template: "{{ .SecretPath }}" });
    await holds("web/a");
    expect(Object.keys(await objects("d"))).toEqual(["web/a"]);
    expect(await association("in-mem/d", "app/b")).toBeUndefined();
  });

  it("sets nothing for a secret that stops matching while its page is set", async () => {
    await add("app/a");
    await put("/v1/kv/metadata/app/a", { custom_metadata: { env: "prod" } });
    const original = DesiredState.prototype.setPage;
    let isSet = false;
    vi.spyOn(DesiredState.prototype, "setPage").mockImplementationOnce(async function (this: DesiredState, page) {
      await put("/v1/kv/metadata/app/a", { custom_metadata: { env: "test" } });
      await eventually(async () => expect(await read("web")).toMatchObject({ progress: { matched: 0 } }));
      const set = await original.call(this, page);
      isSet = true;
      return set;
    });
    await rule("web", { path_prefix: "app", metadata_selector: { env: "prod" } });
    await eventually(() => expect(isSet).toBe(true));
    expect([await association("in-mem/d", "app/a"), await secrets()]).toEqual([undefined, []]);
  });

  it("with retain leaves the object there", async () => {
    await add("app/db");
    await rule("web", { path_prefix: "app", on_unmatch: "retain" });
    await holds("app/db");
    await del(`${AT}/rules/web`);
    await eventually(async () => expect(await association("in-mem/d", "app/db")).toBeUndefined());
    await holds("app/db");
  });

  it("with hold keeps the object, which is not pushed until it matches again, is set or removed", async () => {
    await add("app/db", "app/web");
    await rule("web", { path_prefix: "app", on_unmatch: "hold" });
    await holds("app/db", "app/web");
    await rule("web", { path_prefix: "other", on_unmatch: "hold" });
    await eventually(async () =>
      expect(await association("in-mem/d", "app/db")).toMatchObject({ note: expect.stringMatching(/^held: /) }),
    );
    await eventually(async () =>
      expect(await association("in-mem/d", "app/web")).toMatchObject({ note: expect.any(String) }),
    );
    await write("app/db", { of: "changed" });
    await write("app/web", { of: "changed-too" });
    expect(await secrets()).toEqual(["app/db", "app/web"]);
    expect(await association("in-mem/d", "app/db")).toMatchObject({ sync_status: "SYNCED", synced_version: 1 });
    await setAssociation("in-mem/d", "app/db");
    await holds("app/web", "changed");
    await rule("web", { path_prefix: "app", on_unmatch: "hold" });
    await holds("changed", "changed-too");
    expect((await del(`${AT}/rules/web?on_unmatch=hold`)).status).toBe(204);
    await eventually(async () =>
      expect(await association("in-mem/d", "app/web")).toMatchObject({ note: expect.any(String) }),
    );
    await removeAssociation("in-mem/d", "app/web");
    await holds("changed");
  });

  it("pushes the keys that it names", async () => {
    await write("app/db", { user: "u", password: "p", note: "n" });
    await write("app/none", { note: "n" });
    const keys = { key_glob: ["user", "pass*", "n*"], exclude_key_glob: ["note"] };
    await rule("web", { path_prefix: "app", name_template: "{{ .SecretPath }}", ...keys });
    const holdsJust = (expected: object) => eventually(async () => expect(await objects("d")).toEqual(expected));
    await holdsJust({ "app/db": '{"password":"p","user":"u"}' });
    const template = "{{ .SecretPath }}-{{ .SecretKey }}";
    await rule("web", { path_prefix: "app", granularity: "secret-key", name_template: template, ...keys });
    await holdsJust({ "app/db-user": "u", "app/db-password": "p" });
    await rule("web", { path_prefix: "app", granularity: "secret-key", name_template: template, key_glob: ["note"] });
    await holdsJust({ "app/db-note": "n", "app/none-note": "n" });
  });

  it("pushes a text by its value template, and names a key that is missing", async () => {
    await write("app/db", { user: "u", "the-password": "p" });
    await write("app/web", { user: "u" });
    const template = '{{ .Data.user | uppercase }}:{{ index .Data "the-password" | base64 }}';
    const body = { path_prefix: "app", name_template: "{{ .SecretPath }}", value_template: template };
    expect((await rule("web", body)).status).toBe(200);
    await eventually(async () => expect(await objects("d")).toEqual({ "app/db": "U:cA==" }));
    await eventually(async () =>
      expect(await association("in-mem/d", "app/web")).toMatchObject({
        sync_status: "CLIENT_SIDE_ERROR",
        error_message: 'value_template: the secret has no key "the-password"',
      }),
    );
    await rule("web", { ...body, value_template: "{{ .Data.user }}" });
    await eventually(async () => expect(await objects("d")).toEqual({ "app/db": "u", "app/web": "u" }));
    for (const [wrong, message] of [
      ["fixed", /^value_template: must name a key/],
      ["{{ .Data.user | now }}", /^value_template: has no function now/],
      ["{{ .Data.user }}{{ if }}", /^value_template: takes/],
    ] as const) {
      const answer = await rule("web", { ...body, value_template: wrong });
      expect([answer.status, answer.body.errors]).toEqual([400, [expect.stringMatching(message)]]);
    }
    const keyed = await rule("web", {
      ...body,
      granularity: "secret-key",
      name_template: "{{ .SecretKey }}{{ .SecretPath }}",
    });
    expect(keyed.body.errors).toEqual([expect.stringMatching(/^value_template: is for granularity secret-path/)]);
    // The destination changes to one object per key; the values behind a template are never pushed by themselves.
    expect((await patch(AT, { granularity: "secret-key" })).status).toBe(200);
    await write("app/zoo", { user: "z", "the-password": "hidden" });
    await eventually(async () => expect(await objects("d")).toEqual({ "app/db": "u", "app/web": "u", "app/zoo": "z" }));
  });

  it("reads as it was written, which Terraform compares, with the defaults of all other fields", async () => {
    for (const written of [
      { mount: "kv", path_prefix: "app/", metadata_selector: { env: "prod", team: "web" }, max_removals: 20 },
      { mount: "kv/", path_glob: ["a/*"], metadata_selector: [{ key: "env", operator: "In", values: ["prod"] }] },
      { mount: "kv", match_all: true, value_template: "{{ .Data.a }}", on_unmatch: "hold", max_removals: "5%" },
    ]) {
      expect((await rule("web", written)).status).toBe(200);
      const first = await read("web");
      expect(first).toMatchObject(written);
      // A second apply, and one of all that was read, change nothing.
      for (const body of [written, first]) {
        expect((await rule("web", body)).status).toBe(200);
        const { generation, evaluated_at, ...again } = await read("web");
        expect(again).toMatchObject(written);
      }
      expect(await read("web")).toMatchObject({ exclude_glob: [], key_glob: [], priority: 100, paused: false });
    }
  });

  it("takes back what its read shows, and has its defaults for null and for empty texts", async () => {
    const given = {
      path_prefix: "app",
      path_glob: ["app/*"],
      exclude_glob: ["app/x"],
      metadata_selector: { env: "prod" },
      name_template: "t-{{ .SecretPath }}-{{ .SecretKey }}",
      granularity: "secret-key",
      key_glob: ["a*"],
      exclude_key_glob: ["ab"],
      on_unmatch: "hold",
      max_secrets: 5,
      max_removals: 3,
      priority: 7,
      paused: true,
    };
    const shown = async (): Promise<object> => {
      const data = await read("web");
      return Object.fromEntries(["match_all", ...Object.keys(given)].map((field) => [field, data[field]]));
    };
    await rule("web", { match_all: true });
    const defaults = await shown();
    for (const empty of [null, ""]) {
      expect((await rule("web", given)).status).toBe(200);
      const before = await shown();
      const again = await rule("web", before);
      expect([again.status, await shown()], again.text).toEqual([200, before]);
      const texts = [
        "path_prefix",
        "path_glob",
        "exclude_glob",
        "name_template",
        "granularity",
        "on_unmatch",
        "paused",
      ];
      const fields = empty === null ? Object.keys(given) : texts;
      const cleared = await rule("web", {
        match_all: true,
        ...Object.fromEntries(fields.map((field) => [field, empty])),
      });
      expect([cleared.status, await shown()], cleared.text).toEqual([200, defaults]);
    }
  });

  it("follows its mount to another path", async () => {
    await add("app/db");
    await rule("web", { path_prefix: "app" });
    await holds("app/db");
    expect((await put("/v1/sys/remount", { from: "kv", to: "moved" })).status).toBe(200);
    await eventually(async () => expect((await read("web")).mount).toBe("moved/"));
    await put("/v1/moved/data/app/web", { data: { of: "app/web" } });
    await holds("app/db", "app/web");
  });

  it("ends with its mount, and with its destination", async () => {
    await add("app/db");
    await rule("web", { path_prefix: "app" });
    await holds("app/db");
    expect((await del("/v1/sys/sync/destinations/in-mem/d")).status).toBe(400);
    await del("/v1/sys/mounts/kv");
    await holds();
    await eventually(async () =>
      expect(await read("web")).toMatchObject({ status: "error", problems: ["the mount was deleted"] }),
    );
    expect((await del("/v1/sys/sync/destinations/in-mem/d?purge=true")).status).toBe(204);
    await eventually(async () => expect((await get("/v1/sys/sync/destinations/in-mem/d")).status).toBe(404));
  });

  it("of a Worker of an older version is taken with the defaults of later fields", async () => {
    await add("app/db");
    const body = { match_all: true, max_removals: 1_000, mount: "kv" };
    const defined = unwrap(defineRule("web", RuleBody.parse(body)));
    const { key_glob: _, exclude_key_glob: _excluded, value_template: _value, given: _given, ...older } = defined;
    const { uuid, accessor } = (await get("/v1/sys/mounts/kv")).body.data;
    const mount = { uuid, accessor, path: "kv" };
    const object = syncDestination(env, "in-mem/d");
    const sent = older as RuleDefinition;
    expect(await object.previewRule("web", mount, sent, "")).toMatchObject({
      ok: true,
      value: { summary: { create: 1 } },
    });
    expect(await object.putRule("web", mount, sent)).toMatchObject({ ok: true });
    await holds("app/db");
    expect(await read("web")).toMatchObject({ key_glob: [], value_template: "" });
  });

  it("that is paused neither adds, removes nor pushes", async () => {
    await Promise.all(["app/db", "app/web"].map((name) => write(name, { of: `${name} 1` })));
    await rule("web", { path_prefix: "app" });
    await holds("app/db 1", "app/web 1");
    expect((await rule("web", { path_prefix: "app", paused: true })).body.data.status).toBe("paused");
    await add("app/new");
    await write("app/web", { of: "app/web 2" });
    await del("/v1/kv/metadata/app/db");
    await eventually(async () =>
      expect(await association("in-mem/d", "app/web")).toMatchObject({
        sync_status: "PENDING",
        note: "not pushed: its rules are paused",
        synced_version: 1,
      }),
    );
    expect((await read("web")).progress).toMatchObject({ pending_removals: 0 });
    await holds("app/db 1", "app/web 1");
    await rule("web", { path_prefix: "app" });
    await holds("app/new", "app/web 2");
    expect(await association("in-mem/d", "app/web")).not.toHaveProperty("note");
  });

  it("that goes on pushes what another paused one, which comes first, has not pushed", async () => {
    await write("app/web", { of: "1" });
    await rule("first", { path_prefix: "app", priority: 1 });
    await rule("second", { path_prefix: "app", paused: true });
    await holds("1");
    await rule("first", { path_prefix: "app", priority: 1, paused: true });
    await write("app/web", { of: "2" });
    await eventually(async () => expect(await association("in-mem/d", "app/web")).toHaveProperty("note"));
    await holds("1");
    await rule("second", { path_prefix: "app" });
    await holds("2");
    await write("app/web", { of: "3" });
    await holds("3");
  });

  it("that is paused does not keep a request from pushing", async () => {
    await write("app/web", { of: "1" });
    await rule("web", { path_prefix: "app" });
    await holds("1");
    await rule("web", { path_prefix: "app", paused: true });
    await write("app/web", { of: "2" });
    await setAssociation("in-mem/d", "app/web");
    await holds("2");
  });
});

it("a match that a rule may not set keeps no object, and no name", async () => {
  await add("app/db", "app/web");
  await setAssociation("in-mem/d", "app/db");
  const stopped = { path_prefix: "app", max_secrets: 1, priority: 1 };
  expect((await rule("stopped", stopped)).body.data.status).toBe("limit_exceeded");
  const named = (name: string) => rule("web", { path_prefix: "app", name_template: `${name}/{{ .SecretPath }}` });
  const names = async () => Object.keys(await objects("d")).sort();
  await named("one");
  await removeAssociation("in-mem/d", "app/db");
  await eventually(async () => expect(await names()).toEqual(["one/app/db", "one/app/web"]));
  await named("two");
  await eventually(async () => expect(await names()).toEqual(["two/app/db", "two/app/web"]));
  await setAssociation("in-mem/d", "app/db");
  expect((await del(`${AT}/rules/web`)).status).toBe(204);
  await holds("app/db");
  await removeAssociation("in-mem/d", "app/db");
  await holds();
  expect(await read("stopped")).toMatchObject({ progress: { matched: 2, applied: 0 } });
});

describe("a removal of many", () => {
  it("waits for a confirmation of exactly its plan", async () => {
    await add(...Array.from({ length: 12 }, (_, n) => `app/${n}`), "app/keep/x");
    await rule("web", { path_prefix: "app" });
    await eventually(async () => expect(await secrets()).toHaveLength(13));
    const narrowed = await rule("web", { path_prefix: "app/keep" });
    expect(narrowed.body.data).toMatchObject({
      status: "confirmation_required",
      progress: { pending_removals: 12 },
      problems: ["12 secrets no longer match; confirm their removal"],
    });
    expect(await secrets()).toHaveLength(13);
    const confirm = (plan_id: string) => put(`${AT}/rules/web/confirm`, { plan_id });
    const wrong = await confirm("pl_0000000000000000");
    expect([wrong.status, wrong.body.errors]).toEqual([409, ["plan is out of date"]]);
    expect((await confirm(narrowed.body.data.plan_id)).status).toBe(200);
    await holds("app/keep/x");
  });

  it("does not count matches that were refused and never set", async () => {
    const names = { name_template: '{{ .SecretPath | replace "/" "-" }}', max_removals: 0 };
    await add("app/a/b");
    await rule("web", { path_prefix: "app", ...names });
    await holds("app/a/b");
    await add("app/a-b");
    const matches = async () => (await get(`${AT}/rules/web/matches`)).body.data.matches;
    await eventually(async () =>
      expect(await matches()).toEqual([
        expect.objectContaining({ secret_name: "app/a-b", state: "refused" }),
        { secret_name: "app/a/b", state: "set" },
      ]),
    );
    await del("/v1/kv/metadata/app/a-b");
    await eventually(async () => expect(await matches()).toEqual([{ secret_name: "app/a/b", state: "set" }]));
    expect(await read("web")).toMatchObject({ status: "active", progress: { pending_removals: 0 }, problems: [] });
  });

  it("by metadata, one after the other, waits from the limit of an hour on, and ends when they match again", async () => {
    const names = Array.from({ length: 4 }, (_, n) => `app/${n}`);
    await add(...names);
    const mark = (name: string, env: string) => put(`/v1/kv/metadata/${name}`, { custom_metadata: { env } });
    for (const name of names) await mark(name, "prod");
    await rule("web", { path_prefix: "app", metadata_selector: { env: "prod" }, max_removals: 2 });
    await holds(...names);
    for (const name of names.slice(0, 3)) await mark(name, "test");
    await eventually(async () => expect((await read("web")).status).toBe("confirmation_required"));
    expect((await secrets()).length).toBeGreaterThanOrEqual(2);
    for (const name of names) await mark(name, "prod");
    await holds(...names);
    await eventually(async () => expect(await read("web")).toMatchObject({ status: "active", problems: [] }));
  });

  it("does not happen when more match than the rule may add", async () => {
    await add("app/a", "app/b");
    await rule("web", { path_prefix: "app", max_secrets: 2 });
    await holds("app/a", "app/b");
    await add("app/c");
    await eventually(async () => expect((await read("web")).status).toBe("limit_exceeded"));
    expect(await secrets()).toEqual(["app/a", "app/b"]);
    await del("/v1/kv/metadata/app/a");
    await holds("app/b", "app/c");
  });
});

describe("a dry run", () => {
  it("says what a rule would do, and does nothing", async () => {
    await add("app/db", "app/web", "other");
    const plan = await rule("web", { path_prefix: "app", dry_run: true });
    expect(plan.body.data, plan.text).toMatchObject({
      dry_run: true,
      summary: { matched: 2, create: 2, keep: 0, delete: 0, retain: 0, refused: 0 },
      planned: [{ action: "create", external_name: expect.stringMatching(/app\/db$/) }, { action: "create" }],
      next: "",
    });
    expect((await get(`${AT}/rules/web`)).status).toBe(404);
    await rule("web", { path_prefix: "app" });
    await holds("app/db", "app/web");
    const narrowed = await rule("web", { path_prefix: "app/db", dry_run: true });
    expect(narrowed.body.data).toMatchObject({
      summary: { matched: 1, keep: 1, delete: 1 },
      planned: [{ action: "delete", external_name: expect.stringMatching(/app\/web$/), reason: expect.any(String) }],
    });
  });
});

it("refuses bad rules, and callers who may not read all that can match", async () => {
  const statuses: [object, number, RegExp][] = [
    [{}, 400, /set match_all=true/],
    [{ path_prefix: "a", mount: "none" }, 400, /no secret engine mount/],
    [{ path_prefix: "a", path_glob: ["x["] }, 400, /path_glob: invalid glob/],
    [{ path_prefix: "a", name_template: "fixed" }, 400, /name_template: /],
    [{ path_prefix: "a", max_secrets: 0 }, 400, /max_secrets: must be 1 to 100000/],
    [{ path_prefix: "a", max_removals: "101%" }, 400, /max_removals: must be a number, or a percentage/],
  ];
  for (const [body, status, message] of statuses) {
    const answer = await rule("web", body);
    expect([answer.status, answer.body.errors], answer.text).toEqual([status, [expect.stringMatching(message)]]);
  }
  expect((await put(`${AT}/rules/Web_1`, { mount: "kv", match_all: true })).status).toBe(400);
  expect((await put("/v1/sys/sync/destinations/in-mem/none/rules/x", { mount: "kv", match_all: true })).status).toBe(
    404,
  );
  const sync = path("sys/sync/*", "create", "update", "read");
  const rows: [string, object, number][] = [
    [path("kv/data/app/*", "read"), { path_prefix: "app/" }, 200],
    [path("kv/data/app/*", "read"), { path_prefix: "app" }, 403],
    [`${path("kv/data/app/*", "read")}${path("kv/data/app", "read")}`, { path_prefix: "app" }, 200],
    [path("kv/data/app/*", "read"), { match_all: true }, 403],
    [path("kv/data/app/*", "read"), { path_glob: ["app/a*", "app/b*"] }, 200],
    [`${path("kv/data/app/*", "read")}${path("kv/data/app/x", "deny")}`, { path_prefix: "app/" }, 403],
    [`${path("kv/data/app/*", "read")}${path("kv/data/app/+/secret", "deny")}`, { path_prefix: "app/" }, 403],
    [path("kv/data/app/+", "read"), { path_prefix: "app/" }, 403],
  ];
  for (const [index, [rules, body, status]] of rows.entries()) {
    await policies({ [`p${index}`]: `${sync}${rules}` });
    const { client_token: token } = await issue({ policies: [`p${index}`] });
    const answer = await rule(`r${index}`, body, { token });
    expect([index, answer.status], answer.text).toEqual([index, status]);
  }
});
