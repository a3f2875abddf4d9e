import { beforeEach, describe, expect, it, vi } from "vitest";
import { KvStore } from "../../src/worker.ts";
import { both, type Cut, cut, insist } from "../crash/crash-point.ts";
import { issue, path, policies } from "./access.ts";
import { del, get, mountKv, patch, put } from "./client.ts";
import { association, eventually, makeDestination, objects, removeAssociation, write } from "./sync-helpers.ts";

/** Many associations by one call. */

const AT = "/v1/sys/sync/destinations/in-mem/d";
const set = (selector: object, more: object = {}, options?: Parameters<typeof put>[2]) =>
  put(`${AT}/associations/set`, { mount: "kv", selector, ...more }, options);
const secrets = async () =>
  Object.values(await objects("d"))
    .map((value) => JSON.parse(value).of as string)
    .sort();
const holds = (...expected: string[]) => eventually(async () => expect(await secrets()).toEqual(expected.sort()));
const add = (...names: string[]) => Promise.all(names.map((name) => write(name, { of: name })));

let accessor = "";
beforeEach(async () => {
  ({ accessor } = await mountKv());
  await makeDestination("in-mem", "d");
});

describe("a set by selector", () => {
  it("sets what matches now, each as a request does, and nothing that matches later", async () => {
    await add("app/db", "app/web", "apple", "other/x");
    await put("/v1/kv/metadata/other/x", { custom_metadata: { env: "prod" } });
    const made = await set({ path_prefix: "app" });
    expect(made.status, made.text).toBe(200);
    expect(Object.keys(made.body.data.associated_secrets).sort()).toEqual([
      `${accessor}/app/db`,
      `${accessor}/app/web`,
    ]);
    expect([made.body.data.store_name, made.body.data.skipped]).toEqual(["d", []]);
    await holds("app/db", "app/web");
    expect((await association("in-mem/d", "app/db"))?.origins).toBeUndefined();
    await add("app/new");
    await set({ path_glob: ["other/**"], metadata_selector: { env: "prod" } });
    await holds("app/db", "app/web", "other/x");
    const listed = [{ key: "env", operator: "NotIn", values: ["prod"] }];
    await set({ match_all: true, metadata_selector: listed, exclude_glob: ["app/**"] });
    await holds("app/db", "app/web", "apple", "other/x");
    for (const gone of ["apple", "app/web"]) await removeAssociation("in-mem/d", gone);
    await holds("app/db", "other/x");
    await write("app/db", { of: "changed" });
    await holds("changed", "other/x");
  });

  it("leaves what a request has set, takes over what a rule has, and is shown by a dry run", async () => {
    await add("app/a", "app/b");
    await put(`${AT}/rules/web`, { mount: "kv", path_glob: ["app/a"] });
    await eventually(async () => expect(await secrets()).toEqual(["app/a"]));
    const planned = await set({ path_prefix: "app" }, { dry_run: true });
    expect(planned.body.data, planned.text).toMatchObject({
      dry_run: true,
      summary: { matched: 2, create: 1, keep: 1 },
      planned: [{ association: `${accessor}/app/b`, action: "create" }],
      next: "",
    });
    expect(await secrets()).toEqual(["app/a"]);
    await set({ path_prefix: "app" });
    await holds("app/a", "app/b");
    expect(await association("in-mem/d", "app/a")).toMatchObject({ origins: ["manual", "rule:web"] });
    await del(`${AT}/rules/web`);
    await eventually(async () => expect((await get(`${AT}/rules/web`)).status).toBe(404));
    await holds("app/a", "app/b");
    const before = await association("in-mem/d", "app/b");
    await set({ path_prefix: "app" });
    expect(await association("in-mem/d", "app/b")).toEqual(before);
  });

  it("skips secrets whose names collide, and names them", async () => {
    await makeDestination("in-mem", "d", { secret_name_template: "one" });
    await add("app/a", "app/b");
    const made = await set({ path_prefix: "app" });
    expect(Object.keys(made.body.data.associated_secrets)).toEqual([`${accessor}/app/a`]);
    expect(made.body.data.skipped).toEqual([{ secret_name: "app/b", reason: expect.stringContaining("one") }]);
  });

  it("is repeatable after a crash", async () => {
    const names = Array.from({ length: 120 }, (_, each) => `app/k${each}`);
    await add(...names);
    for (const where of [
      ["KvStore", "watchMany", "before"],
      ...both("KvStore", "survey"),
      ...both("SyncDestination", "setSelected"),
    ] as Cut[]) {
      const happened = cut(where);
      const made = await insist(() => set({ path_prefix: "app" }));
      expect(happened(), where.join(".")).toBe(true);
      expect(Object.keys(made.body.data.associated_secrets), where.join(".")).toHaveLength(120);
      vi.restoreAllMocks();
    }
    await holds(...names);
  });

  it.each([
    [{}, "selector: matches every secret of the mount; set match_all=true to do that"],
    [{ path_glob: [""] }, "invalid glob"],
    [{ metadata_selector: { env: "prod" } }, "metadata_selector"],
    [{ path_prefix: "app", key_glob: ["a"] }, "key_glob"],
    ["app", "selector"],
  ])("refuses %j", async (selector, message) => {
    const { status, text } = await set(selector as object);
    expect([status, text]).toEqual([400, expect.stringContaining(message)]);
  });

  it("refuses a secret beside it, none of both, more than 1000 matches, and a removal", async () => {
    expect((await set({ path_prefix: "app" }, { secret_name: "x" })).text).toContain("cannot be set together");
    expect((await put(`${AT}/associations/set`, { mount: "kv" })).text).toContain("secret_name: required");
    const removal = { mount: "kv", selector: { path_prefix: "app" } };
    expect((await put(`${AT}/associations/remove`, removal)).status).toBe(400);
    const candidates = Array.from({ length: 1_001 }, (_, each) => ({ path: `app/${each}`, customMetadata: null }));
    vi.spyOn(KvStore.prototype, "survey").mockReturnValue({ gone: false, candidates, next: null } as never);
    for (const more of [{}, { dry_run: true }]) {
      const { status, text } = await set({ path_prefix: "app" }, more);
      expect([status, text]).toEqual([400, expect.stringContaining("more than 1000 secrets match; use a rule")]);
    }
    expect(await objects("d")).toEqual({});
  });

  it("requires the right to read all that can match", async () => {
    await add("app/a");
    await policies({
      narrow: `${path("sys/sync/*", "create", "read", "update")}${path("kv/data/app/a", "read")}`,
      wide: `${path("sys/sync/*", "create", "read", "update")}${path("kv/data/app/*", "read")}`,
    });
    const { client_token: narrow } = await issue({ policies: ["narrow"] });
    const { client_token: wide } = await issue({ policies: ["wide"] });
    const refused = await set({ path_prefix: "app/" }, {}, { token: narrow });
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining("that the selector can match")]);
    expect((await set({ path_prefix: "app/" }, {}, { token: wide })).status).toBe(200);
  });

  it("is pushed once a pause of syncing ends", async () => {
    await add("app/a", "app/b");
    await patch("/sys/sync/config", { disabled: true });
    const made = await set({ path_prefix: "app" });
    expect(made.body.data.sync_operation_counters).toEqual({ PENDING: 2 });
    await patch("/sys/sync/config", { disabled: false });
    await holds("app/a", "app/b");
  });
});
