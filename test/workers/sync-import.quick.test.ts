import { beforeEach, describe, expect, it } from "vitest";
import { holderOf, path } from "./access.ts";
import { get, mountKv, put } from "./client.ts";
import {
  association,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";
import { RemotePlace } from "./sync-places.ts";

/** Import of a provider's objects as secrets. */

const D = "cloud-a-ps/d";
let place: RemotePlace;

const load = (body: object = {}, at = D, options?: Parameters<typeof put>[2]) =>
  put(`/v1/sys/sync/destinations/${at}/import`, { mount: "kv", name_glob: ["**"], ...body }, options);
const actions = (answer: Awaited<ReturnType<typeof load>>): Record<string, string> => {
  expect(answer.status, answer.text).toBe(200);
  const objects = answer.body.data.objects as { external_name: string; action: string; reason?: string }[];
  return Object.fromEntries(objects.map((one) => [one.external_name, one.reason ?? one.action]));
};
const secret = async (name: string) => (await get(`/v1/kv/data/${name}`)).body.data;
const values = async () => Object.fromEntries([...(await place.objects())].map(([name, { value }]) => [name, value]));

beforeEach(async () => {
  await mountKv();
  place = await RemotePlace.open("cloud-a-ps");
  await makeDestination("cloud-a-ps", "d", place.body);
  await place.write("/app/db", '{"user":"u","port":5432}');
  await place.write("/app/token", "plain-text");
  await place.write("other", "left-alone");
});

describe("an import", () => {
  it("writes what it finds as secrets, and adopts it", async () => {
    const before = await values();
    const body = { name_glob: ["app/**"], exclude_glob: ["**/none"], path_prefix: "old/" };
    expect(actions(await load(body))).toEqual({ "/app/db": "import", "/app/token": "import" });
    expect(await secret("old/app/db")).toMatchObject({
      data: { user: "u", port: 5432 },
      metadata: { version: 1, custom_metadata: { imported_from: D, imported_name: "/app/db" } },
    });
    expect((await secret("old/app/token")).data).toEqual({ value: "plain-text" });
    await eventually(async () => {
      expect(await association(D, "old/app/db")).toMatchObject({ external_name: "/app/db", sync_status: "SYNCED" });
      expect(await association(D, "old/app/token")).toMatchObject({
        external_name: "/app/token",
        sync_status: "SYNCED",
      });
    });
    // The same content, now ours; nothing else is there.
    const after = await values();
    expect(JSON.parse(after["/app/db"] ?? "")).toEqual(JSON.parse(before["/app/db"] ?? ""));
    expect({ ...after, "/app/db": "" }).toEqual({ ...before, "/app/db": "" });
    await write("old/app/token", { value: "rotated" });
    await eventually(async () => expect((await values())["/app/token"]).toBe("rotated"));
    // A set keeps the object's name.
    expect((await setAssociation(D, "old/app/token")).status).toBe(200);
    await eventually(async () =>
      expect(await association(D, "old/app/token")).toMatchObject({ external_name: "/app/token" }),
    );
    expect(Object.keys(await values()).sort()).toEqual(["/app/db", "/app/token", "other"]);
  });

  it("says in a dry run what it would do, and does nothing", async () => {
    await write("app/db", { mine: 1 });
    const before = await place.writes();
    const planned = await load({ dry_run: true });
    expect(planned.body.data).toMatchObject({ dry_run: true, next: "", counters: { import: 2, refuse: 1 } });
    expect(actions(planned)).toEqual({
      "/app/db": "a secret exists at kv/app/db",
      "/app/token": "import",
      other: "import",
    });
    expect((await get("/v1/kv/metadata/other")).status).toBe(404);
    expect(await association(D, "other")).toBeUndefined();
    expect(await place.writes()).toBe(before);
  });

  it("leaves a secret that exists, and names it", async () => {
    await write("app/db", { mine: 1 });
    expect(actions(await load())["/app/db"]).toBe("a secret exists at kv/app/db");
    expect(await secret("app/db")).toMatchObject({
      data: { mine: 1 },
      metadata: { version: 1, custom_metadata: null },
    });
  });

  it("repeated writes nothing twice, and keeps what was adopted", async () => {
    await load();
    await write("app/token", { value: "newer" });
    await eventually(async () => expect((await values())["/app/token"]).toBe("newer"));
    expect(actions(await load())).toEqual({ "/app/db": "keep", "/app/token": "keep", other: "keep" });
    expect((await secret("app/db")).metadata.version).toBe(1);
    expect((await secret("app/token")).data).toEqual({ value: "newer" });
  });

  it("that ended between two steps is continued by the next", async () => {
    const mark = { imported_from: D, imported_name: "other" };
    // Marked, but not written; and written, but not adopted.
    await put("/v1/kv/metadata/other", { custom_metadata: mark });
    await put("/v1/kv/metadata/app/token", { custom_metadata: { ...mark, imported_name: "/app/token" } });
    await write("app/token", { value: "plain-text" });
    expect(actions(await load())).toEqual({ "/app/db": "import", "/app/token": "adopt", other: "import" });
    for (const name of ["other", "app/token"]) expect((await secret(name)).metadata.version).toBe(1);
    await eventually(async () => expect(await association(D, "app/token")).toMatchObject({ sync_status: "SYNCED" }));
  });

  it("goes on page by page", async () => {
    const seen: string[] = [];
    for (let after: string | undefined; after !== ""; ) {
      const page = await load({ limit: 1, ...(after && { after }) });
      seen.push(...Object.keys(actions(page)));
      after = page.body.data.next;
    }
    expect(seen.sort()).toEqual(["/app/db", "/app/token", "other"]);
  });

  it("writes only paths that the caller may create", async () => {
    const rights = [
      path("sys/sync/destinations/*", "update"),
      path("kv/data/app/*", "create"),
      path("kv/metadata/app/token", "create"),
    ];
    const { client_token: token } = await holderOf(rights.join("\n"));
    expect(actions(await load({}, D, { token }))).toEqual({
      "/app/db": "permission denied: create on kv/metadata/app/db",
      "/app/token": "import",
      other: "permission denied: create on kv/data/other",
    });
    expect((await get("/v1/kv/metadata/app/db")).status).toBe(404);
  });

  it("refuses names that are no paths, two objects of one path, and requests without names", async () => {
    await place.write("/other", "the same path");
    const found = actions(await load());
    expect([found["/other"], found["other"]].sort()).toEqual(["import", "other has the same path"].sort());
    for (const [body, error] of [
      [{ name_glob: [] }, "name_glob: required; ** stands for every name"],
      [{ path_prefix: "/x" }, "path_prefix: must not begin with a slash"],
      [{ mount: "none" }, "mount: no secret engine mount at none/"],
      [{ limit: 101 }, "limit: must be 1 to 100"],
      [{ after: "elsewhere" }, "The position is not one of an earlier page"],
      [{ after: "0 \ud800" }, "The position is not one of an earlier page"],
    ] as const) {
      expect((await load(body)).body.errors[0]).toContain(error);
    }
    await put(`/v1/sys/sync/destinations/${D}`, { ...place.body, update_policy: "owned-only" });
    expect((await load()).body.errors[0]).toContain("update_policy: an object is adopted by writing it");
    const wrong = await RemotePlace.open("cloud-a-ps");
    await makeDestination("cloud-a-ps", "w", wrong.wrongCredentials);
    expect((await load({}, "cloud-a-ps/w")).status).toBe(400);
    const api = await RemotePlace.open("https");
    await makeDestination("https", "s", api.body);
    expect((await load({}, "https/s")).body.errors[0]).toContain("cannot be listed: An inspect_url without");
  });
});

describe("an import from", () => {
  it.each([
    "app-config",
    "ci-variables",
    "cloud-b-ac",
    "deploy-environment",
    "deploy-project",
    "deploy-service",
    "deploy-site",
    "iac-variables",
    "repo-host-variables",
  ])("%s takes its variables", async (type) => {
    const at = `${type}/v`;
    place = await RemotePlace.open(type);
    await makeDestination(type, "v", place.body);
    await place.writeShown("TOKEN", "plain-text");
    const planned = await load({ dry_run: true }, at);
    expect([actions(planned), planned.body.data.dry_run, await place.writes()]).toEqual([{ TOKEN: "import" }, true, 0]);
    expect(actions(await load({}, at))).toEqual({ TOKEN: "import" });
    expect((await secret("TOKEN")).data).toEqual({ value: "plain-text" });
    await eventually(async () => expect(await association(at, "TOKEN")).toMatchObject({ sync_status: "SYNCED" }));
    expect(await values()).toEqual({ TOKEN: "plain-text" });
  });

  it.each(["deploy-project", "deploy-site", "iac-variables"])(
    "%s names collisions, goes on where it ended, and leaves out what is not shown",
    async (type) => {
      const at = `${type}/v`;
      place = await RemotePlace.open(type);
      await makeDestination(type, "v", place.body);
      for (const name of ["A", "B", "C"]) await place.writeShown(name, `value of ${name}`);
      // Vercel shows what is not sensitive, also of others.
      if (type !== "deploy-project") await place.write("HIDDEN", "not shown");
      await write("B", { mine: 1 });
      const first = await load({ limit: 2 }, at);
      const next = await load({ limit: 2, after: first.body.data.next }, at);
      expect({ ...actions(first), ...actions(next) }).toEqual({
        A: "import",
        B: "a secret exists at kv/B",
        C: "import",
      });
      expect(next.body.data.next).toBe("");
      // Marked and written, but not adopted.
      await place.writeShown("D", "value of D");
      await put("/v1/kv/metadata/D", { custom_metadata: { imported_from: at, imported_name: "D" } });
      await write("D", { value: "value of D" });
      expect(actions(await load({ name_glob: ["D"] }, at))).toEqual({ D: "adopt" });
      expect((await secret("D")).metadata.version).toBe(1);
      await eventually(async () => expect(await association(at, "D")).toMatchObject({ sync_status: "SYNCED" }));
    },
  );

  it("https takes the objects of its list, page by page, or adopts their names", async () => {
    place = await RemotePlace.open("https");
    const origin = new URL(String(place.body["url"])).origin;
    const list = { inspect_url: `${origin}/api/list`, list_pointer: "/items", name_pointer: "/name" };
    const pages = { ...list, next_pointer: "/next", version_pointer: "/version" };
    await makeDestination("https", "l", { ...place.body, ...pages, value_pointer: "/value" });
    for (const name of ["a", "b/c", "d"]) await place.write(name, `value of ${name}`);
    const planned = actions(await load({ dry_run: true }, "https/l"));
    expect(planned).toEqual({ a: "import", "b/c": "import", d: "import" });
    expect(actions(await load({ name_glob: ["a", "b/**"] }, "https/l"))).toEqual({ a: "import", "b/c": "import" });
    expect((await secret("b/c")).data).toEqual({ value: "value of b/c" });
    await eventually(async () => expect(await association("https/l", "b/c")).toMatchObject({ sync_status: "SYNCED" }));
    expect(await values()).toEqual({ a: "value of a", "b/c": "value of b/c", d: "value of d" });
    const other = await RemotePlace.open("https");
    await makeDestination("https", "n", { ...other.body, ...pages });
    for (const name of ["d", "e"]) await other.write(name, "unknown");
    await write("d", { of: "the mount" });
    expect(actions(await load({}, "https/n"))).toEqual({
      d: "adopt",
      e: "the provider shows no values, and there is no secret at this path",
    });
  });

  it.each([
    ["cloud-a-sm", "app/db"],
    ["cloud-b-kv", "app-db"],
    ["cloud-c-sm", "app-db"],
  ])("%s takes its secrets", async (type, name) => {
    const at = `${type}/s`;
    place = await RemotePlace.open(type);
    await makeDestination(type, "s", place.body);
    await place.write(name, '{"a":"1"}');
    expect(actions(await load({}, at))).toEqual({ [name]: "import" });
    expect((await secret(name)).data).toEqual({ a: "1" });
    await eventually(async () => expect(await association(at, name)).toMatchObject({ sync_status: "SYNCED" }));
    expect(await values()).toEqual({ [name]: '{"a":"1"}' });
    expect(actions(await load({}, at))).toEqual({ [name]: "keep" });
  });

  it.each(["cluster-secrets", "kv-v2"])("%s takes its secrets with their keys", async (type) => {
    const at = `${type}/v`;
    place = await RemotePlace.open(type);
    await makeDestination(type, "v", place.body);
    const [plain, whole] = type === "kv-v2" ? ["app/token", "app/deep/db"] : ["app-token", "app-db"];
    await place.write(plain, "plain-text");
    await place.write(whole, type === "kv-v2" ? '{"user":"u","port":5432}' : '{"user":"u"}');
    const before = await values();
    expect(actions(await load({ name_glob: ["app**"] }, at))).toEqual({ [plain]: "import", [whole]: "import" });
    expect((await secret(plain)).data).toEqual({ value: "plain-text" });
    if (type === "kv-v2") expect((await secret(whole)).data).toEqual({ user: "u", port: 5432 });
    else expect((await secret(whole)).data).toEqual({ value: '{"user":"u"}' });
    for (const name of [plain, whole]) {
      await eventually(async () => expect(await association(at, name)).toMatchObject({ sync_status: "SYNCED" }));
    }
    const after = await values();
    // An engine orders keys in its own way.
    expect([after[plain], JSON.parse(after[whole] ?? "")]).toEqual(["plain-text", JSON.parse(before[whole] ?? "")]);
    expect(actions(await load({ name_glob: ["app**"] }, at))).toEqual({ [plain]: "keep", [whole]: "keep" });
  });

  it("kv-v2 refuses what the service would spell in another way, and takes the rest", async () => {
    place = await RemotePlace.open("kv-v2");
    await makeDestination("kv-v2", "n", place.body);
    for (const name of ["app/{{", "app/{{ .SecretPath }}", "app/a b", "app/token"])
      await place.write(name, "plain-text");
    const respelled = "the service would spell the name in another way";
    expect(actions(await load({}, "kv-v2/n"))).toEqual({
      "app/{{": respelled,
      "app/{{ .SecretPath }}": respelled,
      "app/a b": respelled,
      "app/token": "import",
    });
    const wrong = await load({ after: '0 ["../../other/metadata/"]' }, "kv-v2/n");
    expect([wrong.status, wrong.body.errors[0]]).toEqual([400, expect.stringContaining("The position is not one")]);
  });

  it("in-mem takes what a destination has retained", async () => {
    await makeDestination("in-mem", "m", { deletion_policy: "retain", secret_name_template: "x/{{ .SecretPath }}" });
    await write("gone", { a: 1 });
    await setAssociation("in-mem/m", "gone");
    await removeAssociation("in-mem/m", "gone");
    expect(await objects("m")).toEqual({ "x/gone": '{"a":1}' });
    expect(actions(await load({}, "in-mem/m"))).toEqual({ "x/gone": "import" });
    expect((await secret("x/gone")).data).toEqual({ a: 1 });
  });

  it.each(["repo-host", "ci-context"])(
    "%s, which shows no values, adopts the names of secrets that exist",
    async (type) => {
      const at = `${type}/r`;
      place = await RemotePlace.open(type);
      await makeDestination(type, "r", place.body);
      await place.write("TOKEN", "unknown");
      await place.write("MANY", "unknown");
      await place.write("NONE", "unknown");
      await write("TOKEN", { value: "ours" });
      await write("MANY", { a: 1, b: 2 });
      expect(actions(await load({}, at))).toEqual({
        TOKEN: "adopt",
        MANY: "the object holds one text, so the secret must have one key",
        NONE: "the provider shows no values, and there is no secret at this path",
      });
      await eventually(async () => expect((await values())["TOKEN"]).toBe("ours"));
      const adopted = { external_name: "TOKEN", sync_status: "SYNCED" };
      await eventually(async () => expect(await association(at, "TOKEN")).toMatchObject(adopted));
    },
  );

  it("edge-store, whose objects are whole secrets, adopts the names of secrets that exist", async () => {
    place = await RemotePlace.open("edge-store");
    await makeDestination("edge-store", "e", place.body);
    await place.write("MANY", "unknown");
    await place.write("NONE", "unknown");
    await write("MANY", { a: 1, b: 2 });
    expect(actions(await load({}, "edge-store/e"))).toEqual({
      MANY: "adopt",
      NONE: "the provider shows no values, and there is no secret at this path",
    });
    await eventually(async () => expect((await values())["MANY"]).toBe('{"a":1,"b":2}'));
  });
});
