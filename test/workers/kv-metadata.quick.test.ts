import { beforeEach, describe, expect, it, vi } from "vitest";
import { SecretEvents } from "../../src/kv/secret-events.ts";
import { itRows } from "../support/rows.ts";
import { holderOf, path } from "./access.ts";
import { del, get, mountKv, patch, put, send } from "./client.ts";

/** docs/internals/wire/vault.md, KV version 2: config, metadata, custom_metadata, subkeys. */

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;
const metadata = async (path = "a") => (await get(`/v1/kv/metadata/${path}`)).body.data;
const custom = async (path = "a") => (await metadata(path)).custom_metadata;

beforeEach(async () => {
  await mountKv();
});

describe("config", () => {
  it("keeps its values when a change is rolled back", async () => {
    const record = SecretEvents.prototype.recordConfig;
    vi.spyOn(SecretEvents.prototype, "recordConfig").mockImplementationOnce(function (this: SecretEvents) {
      record.call(this);
      throw new Error("the disk is full");
    });
    expect((await put("/v1/kv/config", { max_versions: 3 })).status).toBe(500);
    expect((await get("/v1/kv/config")).body.data.max_versions).toBe(0);
  });

  it("has the defaults of a fresh mount", async () => {
    const answer = await get("/v1/kv/config");
    expect(answer.body).toEqual({
      request_id: answer.body.request_id,
      lease_id: "",
      renewable: false,
      lease_duration: 0,
      data: { max_versions: 0, cas_required: false, delete_version_after: "0s", metadata_cas_required: false },
      wrap_info: null,
      warnings: null,
      auth: null,
      mount_type: "kv",
    });
  });

  it("accepts texts, numbers and forms, and keeps unnamed fields", async () => {
    for (const [method, body] of [
      ["PUT", { max_versions: "5", cas_required: "true" }],
      ["POST", "delete_version_after=1h30m&metadata_cas_required=true"],
    ] as const) {
      expect((await send(method, "/v1/kv/config", body)).status).toBe(204);
    }
    const config = (await get("/v1/kv/config")).body.data;
    expect(config).toEqual({
      max_versions: 5,
      cas_required: true,
      delete_version_after: "1h30m0s",
      metadata_cas_required: true,
    });
    await put("/v1/kv/config", { cas_required: false });
    expect((await get("/v1/kv/config")).body.data).toEqual({ ...config, cas_required: false });
  });

  itRows([
    ["max_versions", "x"],
    ["max_versions", -1],
    ["max_versions", 1.5],
    ["max_versions", 10_001],
    ["cas_required", "maybe"],
    ["metadata_cas_required", 2],
    ["delete_version_after", "soon"],
    ["delete_version_after", [1]],
  ])("with %s %j is 400 and names the field", async (field, wrong) => {
    for (const answer of [
      await put("/v1/kv/config", { [field]: wrong }),
      await put("/v1/kv/metadata/a", { [field]: wrong }),
      await patch("/v1/kv/metadata/a", { [field]: wrong }),
    ]) {
      expect(answer.status).toBe(400);
      expect(answer.body.errors[0]).toMatch(new RegExp(`^${field}: `));
    }
    expect((await get("/v1/kv/config")).body.data).toMatchObject({ max_versions: 0, cas_required: false });
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
  });
});

describe("metadata", () => {
  it("shows every version and every setting", async () => {
    await put("/v1/kv/data/a", { data: { n: 1 } });
    await put("/v1/kv/data/a", { data: { n: 2 } });
    await put("/v1/kv/data/a", { data: { n: 3 } });
    await put("/v1/kv/delete/a", { versions: [1] });
    await put("/v1/kv/destroy/a", { versions: [2] });
    const data = await metadata();
    const root = (operation: string) => ({ actor: "root", operation, entity_id: "", client_id: "" });
    const version = (created: string, deletion: unknown, ended?: string) => ({
      created_time: expect.stringMatching(TIME),
      created_by: root(created),
      deletion_time: deletion,
      destroyed: ended === "destroy",
      ...(ended !== undefined && { deleted_by: root(ended) }),
    });
    expect(data).toEqual({
      versions: {
        1: version("create", expect.stringMatching(TIME), "delete"),
        2: version("update", "", "destroy"),
        3: version("update", ""),
      },
      current_version: 3,
      current_metadata_version: 0,
      oldest_version: 0,
      created_time: expect.stringMatching(TIME),
      updated_time: expect.stringMatching(TIME),
      max_versions: 0,
      cas_required: false,
      metadata_cas_required: false,
      delete_version_after: "0s",
      custom_metadata: null,
    });
    expect(data.updated_time >= data.versions[3].created_time).toBe(true);
  });

  it("names the caller that wrote and ended each version, by its token", async () => {
    await put("/v1/sys/policies/acl/kv", {
      policy: 'path "kv/*" { capabilities = ["create", "update", "patch", "delete"] }',
    });
    await put("/v1/sys/auth/people", { type: "userpass" });
    await put("/v1/auth/people/users/ann", { password: "correct horse", token_policies: ["kv"] });
    const ann = (await put("/v1/auth/people/login/ann", { password: "correct horse" })).body.auth;
    const bot = (await put("/v1/auth/token/create", { policies: ["kv"], display_name: "bot" })).body.auth;
    const as = { ann: { token: ann.client_token }, bot: { token: bot.client_token } };
    await put("/v1/kv/data/a", { data: { n: 1 } }, as.ann);
    await patch("/v1/kv/data/a", { data: { n: 2 } }, as.bot);
    await put("/v1/kv/data/a", { data: { n: 3 } }, as.bot);
    await put("/v1/kv/data/a", { data: { n: 4 } }, as.ann);
    const by = (actor: string, operation: string, entity_id = "") => ({
      actor,
      operation,
      entity_id,
      client_id: entity_id,
    });
    const byAnn = (operation: string) => by("people-ann", operation, ann.entity_id);
    const ends = async () =>
      Object.values((await metadata()).versions).map((version) => (version as { deleted_by?: object }).deleted_by);
    expect(ann.entity_id).not.toBe("");
    expect(Object.values((await metadata()).versions)).toMatchObject([
      { created_by: byAnn("create") },
      { created_by: by("token-bot", "patch") },
      { created_by: by("token-bot", "update") },
      { created_by: byAnn("update") },
    ]);
    await del("/v1/kv/data/a", as.bot);
    await put("/v1/kv/delete/a", { versions: [1, 2] }, as.ann);
    await put("/v1/kv/destroy/a", { versions: [2, 3] }, as.bot);
    const destroyed = by("token-bot", "destroy");
    expect(await ends()).toEqual([byAnn("delete"), destroyed, destroyed, by("token-bot", "delete")]);
    // A second end changes nothing; an undeleted version has no end.
    await put("/v1/kv/delete/a", { versions: [1] }, as.bot);
    await put("/v1/kv/undelete/a", { versions: [2, 4] }, as.ann);
    expect(await ends()).toEqual([byAnn("delete"), destroyed, destroyed, undefined]);
    const list = (await send("LIST", "/v1/kv/detailed-metadata")).body.data.key_info.a;
    expect(list.versions[1]).toMatchObject({ created_by: byAnn("create"), deleted_by: byAnn("delete") });
    // As upstream, answers about one version have no caller.
    expect(Object.keys((await get("/v1/kv/data/a?version=4")).body.data.metadata)).not.toContain("created_by");
  });

  it("names no caller for versions that time has ended, and for a value of version 1", async () => {
    await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
    await put("/v1/kv/data/a", { data: { n: 1 } });
    expect((await metadata()).versions[1]).toMatchObject({ created_by: { actor: "root" } });
    expect((await metadata()).versions[1]).not.toHaveProperty("deleted_by");
    await put("/v1/sys/mounts/plain", { type: "kv" });
    await put("/v1/plain/a", { n: 1 });
    await put("/v1/sys/mounts/plain/tune", { options: { version: "2" } });
    expect((await get("/v1/plain/metadata/a")).body.data.versions[1]).not.toHaveProperty("created_by");
  });

  it("creates a path without a version, which is listed and returns 404 on read", async () => {
    expect((await put("/v1/kv/metadata/a", { max_versions: 0 })).status).toBe(204);
    expect(await metadata()).toMatchObject({ versions: {}, current_version: 0, oldest_version: 0 });
    expect((await get("/v1/kv/metadata/?list=true")).body.data.keys).toEqual(["a"]);
    expect(await get("/v1/kv/data/a")).toMatchObject({ status: 404, text: '{"errors":[]}' });
    expect((await del("/v1/kv/data/a")).status).toBe(204);
  });

  it("is unchanged by a write without a setting, which makes no path", async () => {
    for (const body of [{}, "", { metadata_cas: 0 }]) expect((await put("/v1/kv/metadata/a", body)).status).toBe(204);
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
    await put("/v1/kv/metadata/a", { max_versions: 3 });
    const before = await metadata();
    for (const write of [put, patch]) expect((await write("/v1/kv/metadata/a", {})).status).toBe(204);
    expect(await metadata()).toEqual(before);
    const { client_token: token } = await holderOf(path("kv/metadata/a", "update"));
    expect((await put("/v1/kv/metadata/a", {}, { token })).status).toBe(204);
    await del("/v1/kv/metadata/a");
    expect((await put("/v1/kv/metadata/a", {}, { token })).status).toBe(403);
  });

  it("is written by its version only, where that is required", async () => {
    const write = (fields: object, path = "a") => put(`/v1/kv/metadata/${path}`, { max_versions: 3, ...fields });
    const version = async () => (await metadata()).current_metadata_version;
    expect([(await write({})).status, await version()]).toEqual([204, 1]);
    // A check that was asked for counts in any case.
    expect([(await write({ metadata_cas: 0 })).status, (await write({ metadata_cas: "1" })).status]).toEqual([
      400, 204,
    ]);
    expect((await write({ metadata_cas: 2, metadata_cas_required: true })).status).toBe(204);
    await put("/v1/kv/config", { metadata_cas_required: true });
    const required = "metadata check-and-set parameter required for this call";
    const stale = "metadata check-and-set parameter does not match the current version";
    for (const [answer, error] of [
      [await write({}), required],
      [await patch("/v1/kv/metadata/a", { max_versions: 4 }), required],
      [await write({ metadata_cas: null }), stale],
      [await patch("/v1/kv/metadata/a", { max_versions: 4, metadata_cas: 2 }), stale],
      [await write({}, "new"), required],
      [await write({ metadata_cas: 1 }, "new"), "metadata_cas must be 0 when creating new metadata"],
      [await write({ metadata_cas: -1 }), expect.stringMatching(/^metadata_cas: /)],
    ] as const)
      expect([answer.status, answer.body.errors]).toEqual([400, [error]]);
    expect((await patch("/v1/kv/metadata/a", { max_versions: 4, metadata_cas: 3 })).status).toBe(204);
    expect((await write({ metadata_cas: 0 }, "new")).status).toBe(204);
    expect(await metadata()).toMatchObject({
      max_versions: 4,
      metadata_cas_required: true,
      current_metadata_version: 4,
    });
    // Versions of the secret have their own numbers.
    await put("/v1/kv/data/a", { data: {} });
    expect(await version()).toBe(4);
    const warned = await write({ metadata_cas: 4, metadata_cas_required: false });
    expect(warned.body.warnings).toEqual([expect.stringContaining('"metadata_cas_required" set to false')]);
  });

  it("accepts every field in a command line's spelling", async () => {
    const body = {
      max_versions: "7",
      cas_required: "1",
      delete_version_after: "90",
      custom_metadata: "a=1,b=2",
      metadata_cas_required: "true",
    };
    expect((await send("POST", "/v1/kv/metadata/a", body)).status).toBe(204);
    const seven = {
      max_versions: 7,
      cas_required: true,
      delete_version_after: "1m30s",
      metadata_cas_required: true,
      custom_metadata: { a: "1", b: "2" },
    };
    expect(await metadata()).toMatchObject(seven);
  });

  it("is patched by named fields, and null restores the default", async () => {
    await put("/v1/kv/metadata/a", { max_versions: 7, cas_required: true, delete_version_after: "1h" });
    expect((await patch("/v1/kv/metadata/a", { max_versions: 3 })).status).toBe(204);
    expect(await metadata()).toMatchObject({ max_versions: 3, cas_required: true, delete_version_after: "1h0m0s" });
    await patch("/v1/kv/metadata/a", { max_versions: null, cas_required: null, delete_version_after: null });
    expect(await metadata()).toMatchObject({ max_versions: 0, cas_required: false, delete_version_after: "0s" });
  });

  it("of an absent path returns 404 for read and patch, and 204 for delete", async () => {
    expect(await get("/v1/kv/metadata/a")).toMatchObject({ status: 404, text: '{"errors":[]}' });
    expect(await patch("/v1/kv/metadata/a", { max_versions: 1 })).toMatchObject({ status: 404, text: '{"errors":[]}' });
    expect((await del("/v1/kv/metadata/a")).status).toBe(204);
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
  });

  it("is deleted with all versions: a new write starts at 1", async () => {
    await put("/v1/kv/data/a", { data: { n: 1 } });
    await put("/v1/kv/data/a", { data: { n: 2 } });
    await put("/v1/kv/metadata/a", { custom_metadata: { k: "v" } });
    expect((await del("/v1/kv/metadata/a")).status).toBe(204);
    for (const path of ["data/a", "data/a?version=1", "metadata/a", "metadata/?list=true"]) {
      expect((await get(`/v1/kv/${path}`)).text, path).toBe('{"errors":[]}');
    }
    expect((await put("/v1/kv/data/a", { data: {} })).body.data).toMatchObject({ version: 1, custom_metadata: null });
  });

  it("warns when cas_required is disabled under a mount that requires it", async () => {
    await put("/v1/kv/config", { cas_required: true });
    const warned = await put("/v1/kv/metadata/a", { cas_required: false });
    expect(warned.status).toBe(200);
    expect(warned.body.warnings).toEqual([expect.stringContaining('"cas_required" set to false')]);
    expect((await put("/v1/kv/metadata/a", { cas_required: true })).status).toBe(204);
  });

  it("changes updated_time only with an effective delete", async () => {
    await put("/v1/kv/data/a", { data: {} });
    const before = (await metadata()).updated_time;
    await new Promise((resolve) => setTimeout(resolve, 5));
    await put("/v1/kv/delete/a", { versions: [9] });
    expect((await metadata()).updated_time).toBe(before);
    await del("/v1/kv/data/a");
    expect((await metadata()).updated_time > before).toBe(true);
  });
});

describe("custom_metadata", () => {
  it("is kept when a text would clear it, which returns 400", async () => {
    await put("/v1/kv/metadata/a", { custom_metadata: { owner: "team" } });
    for (const refused of [
      await patch("/v1/kv/metadata/a", { custom_metadata: "" }),
      await patch("/v1/kv/metadata/a", { custom_metadata: "a=1" }),
      await put("/v1/kv/metadata/a", { custom_metadata: "" }),
      await put("/v1/kv/metadata/a", { custom_metadata: " " }),
    ]) {
      const error = "custom_metadata validation failed: must be a map of strings";
      expect([refused.status, refused.body.errors]).toEqual([400, [error]]);
    }
    expect(await custom()).toEqual({ owner: "team" });
  });

  itRows(["1.7976931348623157e308", "9007199254740993", "1.50"])(
    "is no map when it is the number %s",
    async (number) => {
      const refused = await put("/v1/kv/metadata/a", `{"custom_metadata":${number}}`);
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("must be a map of strings")]);
    },
  );

  it("appears in metadata, in reads, in responses to writes and in the 404 of a deleted version", async () => {
    await put("/v1/kv/data/a", { data: {} });
    await put("/v1/kv/metadata/a", { custom_metadata: { owner: "team" } });
    expect(await custom()).toEqual({ owner: "team" });
    expect((await get("/v1/kv/data/a")).body.data.metadata.custom_metadata).toEqual({ owner: "team" });
    expect((await put("/v1/kv/data/a", { data: {} })).body.data.custom_metadata).toEqual({ owner: "team" });
    await del("/v1/kv/data/a");
    expect((await get("/v1/kv/data/a")).body.data.metadata.custom_metadata).toEqual({ owner: "team" });
  });

  it("is replaced by a write, merged by a patch, where null removes a key, and null again when empty", async () => {
    await put("/v1/kv/metadata/a", { custom_metadata: { a: "1", b: "2" } });
    await patch("/v1/kv/metadata/a", { custom_metadata: { a: null, c: "3" } });
    expect(await custom()).toEqual({ b: "2", c: "3" });
    await put("/v1/kv/metadata/a", { custom_metadata: { d: "4" } });
    expect(await custom()).toEqual({ d: "4" });
    await put("/v1/kv/metadata/a", { max_versions: 2 });
    expect(await custom()).toEqual({ d: "4" });
    await patch("/v1/kv/metadata/a", { custom_metadata: null });
    expect(await custom()).toBeNull();
    await put("/v1/kv/metadata/a", { custom_metadata: { d: "4" } });
    await put("/v1/kv/metadata/a", { custom_metadata: {} });
    expect(await custom()).toBeNull();
  });

  it("lists all violations in one 400", async () => {
    const wrong = { [`k${"x".repeat(128)}`]: "v", empty: "", long: "v".repeat(513), tab: "a\tb" };
    for (const answer of [
      await put("/v1/kv/metadata/a", { custom_metadata: wrong }),
      await put("/v1/kv/metadata/a", { custom_metadata: { n: 1, list: [], o: {} } }),
      await put("/v1/kv/metadata/a", { custom_metadata: 5 }),
      await put("/v1/kv/metadata/a", {
        custom_metadata: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [`k${n}`, "v"])),
      }),
    ]) {
      expect(answer.status).toBe(400);
      expect(answer.body.errors).toEqual([expect.stringMatching(/^custom_metadata validation failed: /)]);
    }
    const [text] = (await put("/v1/kv/metadata/a", { custom_metadata: wrong })).body.errors;
    expect(text.split("; ")).toHaveLength(4);
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
  });

  it("takes numbers and booleans as texts, and lists no deleted secret on demand", async () => {
    await put("/v1/kv/metadata/a", { custom_metadata: { n: 1.5, is: true } });
    expect((await get("/v1/kv/metadata/a")).body.data.custom_metadata).toEqual({ n: "1.5", is: "1" });
    for (const name of ["b", "c", "d/e"]) await put(`/v1/kv/data/${name}`, { data: {} });
    await del("/v1/kv/data/b");
    const names = async (query: string) => (await get(`/v1/kv/metadata/?list=true${query}`)).body.data.keys;
    expect(await names("")).toEqual(["a", "b", "c", "d/"]);
    expect(await names("&exclude_deleted=true")).toEqual(["a", "c", "d/"]);
    expect(await names("&exclude_deleted=true&after=a&limit=1")).toEqual(["c"]);
  });

  it("keeps a key named __proto__", async () => {
    await put("/v1/kv/metadata/a", '{"custom_metadata":{"__proto__":"x"}}');
    expect((await get("/v1/kv/metadata/a")).text).toContain('"custom_metadata":{"__proto__":"x"}');
  });
});

describe("subkeys", () => {
  beforeEach(async () => {
    await put("/v1/kv/data/a", { data: { one: 1 } });
    await put("/v1/kv/data/a", { data: { x: "secret", o: { p: { q: [1] }, empty: {} } } });
  });

  it("shows the keys without the values, and the version's metadata", async () => {
    const answer = await get("/v1/kv/subkeys/a");
    expect(answer.body.data).toEqual({
      subkeys: { x: null, o: { p: { q: null }, empty: null } },
      metadata: {
        created_time: expect.stringMatching(TIME),
        custom_metadata: null,
        deletion_time: "",
        destroyed: false,
        version: 2,
      },
    });
    expect(answer.body.mount_type).toBe("kv");
  });

  it("accepts a depth and a version", async () => {
    expect((await get("/v1/kv/subkeys/a?depth=1")).body.data.subkeys).toEqual({ x: null, o: null });
    expect((await get("/v1/kv/subkeys/a?depth=2")).body.data.subkeys).toEqual({ x: null, o: { p: null, empty: null } });
    expect((await get("/v1/kv/subkeys/a?depth=0")).body.data.subkeys.o.p).toEqual({ q: null });
    expect((await get("/v1/kv/subkeys/a?version=1")).body.data.subkeys).toEqual({ one: null });
    expect((await get("/v1/kv/subkeys/a?depth=x")).body.errors).toEqual(["depth: must be a number, 0 or more"]);
  });

  it("parses a query that is encoded inside the path", async () => {
    expect((await get("/v1/kv/subkeys/a%3Fversion%3D1%26depth%3D1")).body.data.subkeys).toEqual({ one: null });
    expect((await get("/v1/kv/subkeys/a%3Fdepth=1")).body.data.subkeys).toEqual({ x: null, o: null });
  });

  it("applies policies to such a query", async () => {
    const policy = 'path "kv/subkeys/*" { capabilities = ["read"] } path "kv/subkeys/a" { capabilities = ["deny"] }';
    await put("/v1/sys/policies/acl/p", { policy });
    const token = (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth.client_token;
    await put("/v1/kv/data/b", { data: { open: 1 } });
    expect((await get("/v1/kv/subkeys/a", { token })).status).toBe(403);
    expect((await get("/v1/kv/subkeys/a%3Fversion%3D1", { token })).status).toBe(403);
    expect((await get("/v1/kv/subkeys/b%3Fversion%3D1", { token })).body.data.subkeys).toEqual({ open: null });
  });

  it("returns 404 for an unknown path, and with metadata for a deleted version", async () => {
    expect((await get("/v1/kv/subkeys/none")).text).toBe('{"errors":[]}');
    await del("/v1/kv/data/a");
    const gone = await get("/v1/kv/subkeys/a");
    expect([gone.status, gone.body.data]).toMatchObject([404, { subkeys: null, metadata: { version: 2 } }]);
  });
});
