import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, list, mountKv, patch, put, send } from "./client.ts";

/** docs/internals/wire/vault.md, KV version 2: lists, the spelling of paths, wrong paths and verbs, and capabilities. */

const write = (path: string, data: unknown = { k: 1 }, options?: object) =>
  put(`/v1/kv/data/${path}`, { data }, options);
const keys = async (path: string) => (await list(`/v1/kv/metadata/${path}`)).body.data?.keys;

beforeEach(async () => {
  await mountKv();
});

describe("a list", () => {
  it("names secrets and folders directly below, sorted, each once", async () => {
    for (const path of ["b", "a/x", "a/y/z", "a", "a-b", "c/d/e/f", "B"]) await write(path);
    for (const root of ["", "/"])
      expect((await list(`/v1/kv/metadata${root}`)).body.data.keys).toEqual(["B", "a", "a-b", "a/", "b", "c/"]);
    expect(await keys("a/")).toEqual(["x", "y/"]);
    expect(await keys("a")).toEqual(["x", "y/"]);
    expect(await keys("c/d/e/")).toEqual(["f"]);
  });

  it("returns the complete envelope", async () => {
    await write("a");
    const answer = await get("/v1/kv/metadata?list=true");
    expect(answer.text).toBe(
      `{"request_id":"${answer.body.request_id}","lease_id":"","renewable":false,"lease_duration":0,"data":{"keys":["a"]},` +
        '"wrap_info":null,"warnings":null,"auth":null,"mount_type":"kv"}',
    );
  });

  it("is returned for every spelling of the verb", async () => {
    await write("f/a");
    for (const path of ["f/?list=true", "f?list=1", "f/?list=True"]) {
      expect((await get(`/v1/kv/metadata/${path}`)).body.data.keys, path).toEqual(["a"]);
    }
    const override = await get("/v1/kv/metadata/f", { headers: { "X-HTTP-Method-Override": "LIST" } });
    expect(override.body.data.keys).toEqual(["a"]);
  });

  it("returns 404 with an empty list of errors for an absent folder and for a secret", async () => {
    expect(await list("/v1/kv/metadata/")).toMatchObject({ status: 404, text: '{"errors":[]}' });
    await write("a");
    for (const path of ["a", "a/", "none/", "aa"]) {
      expect(await list(`/v1/kv/metadata/${path}`)).toMatchObject({ status: 404, text: '{"errors":[]}' });
    }
  });

  it("contains a path with deleted versions, but not one with deleted metadata", async () => {
    await write("f/a");
    await write("f/b");
    await del("/v1/kv/data/f/a");
    expect(await keys("f/")).toEqual(["a", "b"]);
    await del("/v1/kv/metadata/f/a");
    expect(await keys("f/")).toEqual(["b"]);
    await del("/v1/kv/metadata/f/b");
    expect((await list("/v1/kv/metadata/f/")).status).toBe(404);
  });

  it("is paged with after and limit, without gaps or repetitions", async () => {
    for (const path of ["a", "b/1", "b/2", "b", "c", "d/1"]) await write(`f/${path}`);
    const all = ["a", "b", "b/", "c", "d/"];
    for (const limit of [1, 2, 3, 5, 9]) {
      const seen: string[] = [];
      for (let after = ""; ; ) {
        const page = await list(`/v1/kv/metadata/f/?limit=${limit}&after=${encodeURIComponent(after)}`);
        if (page.status === 404) break;
        expect(page.body.data.keys.length).toBeLessThanOrEqual(limit);
        seen.push(...page.body.data.keys);
        after = seen.at(-1) ?? "";
      }
      expect(seen).toEqual(all);
    }
    expect((await list("/v1/kv/metadata/f/?after=b%2F")).body.data.keys).toEqual(["c", "d/"]);
    expect((await list("/v1/kv/metadata/f/?after=bb")).body.data.keys).toEqual(["c", "d/"]);
    expect((await list("/v1/kv/metadata/f/?limit=x")).body.errors).toEqual(["limit: must be a number, 0 or more"]);
  });
});

describe("a path", () => {
  itRows([
    ["a%20b", "a b"],
    ["100%25", "100%"],
    ["%2541", "%41"],
    ["%C3%BC%E2%98%83%F0%9F%94%91", "ü☃🔑"],
    ["%F4%8F%BF%BF", "\u{10FFFF}"],
    ["q%3Fa%26b%3D1%23", "q?a&b=1#"],
    ["a+b", "a+b"],
    ["a.b", "a.b"],
    ["config", "config"],
    ["%2A%22%27%3C%5C", "*\"'<\\"],
  ])("written as %s is the key %s, in data, metadata and lists", async (encoded, name) => {
    expect((await write(encoded, { name })).status).toBe(200);
    expect((await get(`/v1/kv/data/${encoded}`)).body.data.data).toEqual({ name });
    expect((await get(`/v1/kv/metadata/${encoded}`)).body.data.current_version).toBe(1);
    expect((await get(`/v1/kv/subkeys/${encoded}`)).body.data.subkeys).toEqual({ name: null });
    expect(await keys("")).toEqual([name]);
    expect((await del(`/v1/kv/metadata/${encoded}`)).status).toBe(204);
    expect((await get(`/v1/kv/data/${encoded}`)).status).toBe(404);
  });

  it("nests by an encoded slash as by a plain one", async () => {
    await write("a%2Fb/c");
    expect((await get("/v1/kv/data/a/b%2Fc")).status).toBe(200);
    expect(await keys("a/b/")).toEqual(["c"]);
    expect(await keys("a%2Fb")).toEqual(["c"]);
  });

  it("treats doubled slashes as one, and returns 400 for an encoded empty segment", async () => {
    await write("a//b");
    expect((await get("/v1//kv/data///a/b")).status).toBe(200);
    for (const path of ["a%2F%2Fb", "%2Fa", "a/%2Fb"]) expect((await write(path)).status, path).toBe(400);
    expect(await keys("")).toEqual(["a/"]);
  });

  it("with a trailing slash returns 400 for a write and 404 for a read", async () => {
    await write("a/b");
    expect((await write("a/")).status).toBe(400);
    expect((await put("/v1/kv/metadata/a/", {})).status).toBe(400);
    expect((await patch("/v1/kv/data/a/", { data: {} })).status).toBe(400);
    expect(await get("/v1/kv/data/a/")).toMatchObject({ status: 404, text: '{"errors":[]}' });
    expect(await get("/v1/kv/metadata/a/")).toMatchObject({ status: 404, text: '{"errors":[]}' });
  });

  itRows(["a%00b", "a%0Ab", "a%7Fb", "%zz", "a%2F..%2Fb"])("%s is 400", async (path) => {
    expect((await write(path)).status).toBe(400);
    expect((await get(`/v1/kv/data/${path}`)).status).toBe(400);
  });

  it("may differ from another only in case, and a secret may have the name of a folder", async () => {
    await write("a", { n: 1 });
    await write("A", { n: 2 });
    await write("a/a", { n: 3 });
    const values = await Promise.all(["a", "A", "a/a"].map((path) => get(`/v1/kv/data/${path}`)));
    expect(values.map((answer) => answer.body.data.data.n)).toEqual([1, 2, 3]);
    await del("/v1/kv/metadata/a");
    expect((await get("/v1/kv/data/a/a")).status).toBe(200);
  });
});

describe("a mount", () => {
  it("keeps its secrets apart from those of every other mount and namespace", async () => {
    await mountKv("other");
    await put("/v1/sys/namespaces/ns", {});
    const inside = { headers: { "X-Orch-Namespace": "ns" } };
    await mountKv("kv", inside);
    await write("a", { from: "kv" });
    await put("/v1/other/data/a", { data: { from: "other" } });
    await put("/v1/kv/data/a", { data: { from: "ns" } }, inside);
    expect((await get("/v1/kv/data/a")).body.data.data.from).toBe("kv");
    expect((await get("/v1/other/data/a")).body.data.data.from).toBe("other");
    expect((await get("/v1/kv/data/a", inside)).body.data.data.from).toBe("ns");
    expect((await get("/v1/ns/kv/data/a")).body.data.data.from).toBe("ns");
  });

  it("mounted again at the same path starts empty", async () => {
    await write("a");
    expect((await del("/v1/sys/mounts/kv")).status).toBe(204);
    expect((await get("/v1/kv/data/a")).status).toBe(404);
    await mountKv();
    expect((await get("/v1/kv/data/a")).text).toBe('{"errors":[]}');
    expect((await list("/v1/kv/metadata/")).status).toBe(404);
  });

  it("may have a path of several segments", async () => {
    await mountKv("team/app/kv");
    await put("/v1/team/app/kv/data/a", { data: { k: 1 } });
    expect((await get("/v1/team/app/kv/data/a")).body.data.data).toEqual({ k: 1 });
    expect((await list("/v1/team/app/kv/metadata/")).body.data.keys).toEqual(["a"]);
  });
});

describe("a wrong path", () => {
  const invalid = (command: string) =>
    "Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. " +
    `If using the Vault CLI, use 'vault kv ${command}' for this operation.`;

  itRows([
    ["GET", "get"],
    ["PUT", "put"],
    ["POST", "put"],
    ["DELETE", "delete"],
    ["LIST", "list"],
    ["PATCH", "patch"],
  ])("%s as for version 1 is 404 with the warning that names kv %s", async (method, command) => {
    for (const path of ["secret", "team/secret", ""]) {
      const answer = await send(
        method,
        `/v1/kv/${path}`,
        ["PUT", "POST", "PATCH"].includes(method) ? { k: 1 } : undefined,
      );
      expect(answer).toMatchObject({ status: 404, body: { data: null, warnings: [invalid(command)] } });
    }
  });

  it("at the root of a route warns that only lists work there", async () => {
    const warning = "Non-listing operations on the root of a K/V v2 mount are not supported.";
    for (const root of ["data", "data/", "metadata", "metadata/"]) {
      for (const [method, body] of [["GET"], ["DELETE"], ["PUT", { data: {} }]] as const) {
        const answer = await send(method, `/v1/kv/${root}`, body);
        expect(answer, `${method} ${root}`).toMatchObject({ status: 404, body: { warnings: [warning] } });
      }
    }
  });

  itRows([
    ["GET", "delete/a"],
    ["GET", "undelete/a"],
    ["GET", "destroy/a"],
    ["DELETE", "destroy/a"],
    ["PUT", "subkeys/a"],
    ["PATCH", "subkeys/a"],
    ["DELETE", "config"],
    ["PATCH", "config"],
    ["LIST", "data/a"],
    ["LIST", "config"],
  ])("%s %s is 405: unsupported operation", async (method, path) => {
    const answer = await send(method, `/v1/kv/${path}`, method === "PUT" || method === "PATCH" ? {} : undefined);
    expect([answer.status, answer.body.errors]).toEqual([405, ["unsupported operation"]]);
    expect(answer.headers.get("Allow")).toBeTruthy();
  });
});

describe("a policy", () => {
  async function token(policy: string): Promise<{ token: string }> {
    await put("/v1/sys/policies/acl/p", { policy });
    return { token: (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth.client_token };
  }

  it("with create alone allows the first write of a path only", async () => {
    const who = await token('path "kv/*" { capabilities = ["create"] }');
    expect((await write("a", {}, who)).status).toBe(200);
    expect((await write("a", {}, who)).status).toBe(403);
    await del("/v1/kv/data/a");
    await put("/v1/kv/destroy/a", { versions: [1] });
    expect((await write("a", {}, who)).status).toBe(403);
    await del("/v1/kv/metadata/a");
    expect((await write("a", {}, who)).status).toBe(200);
    expect((await put("/v1/kv/metadata/b", { max_versions: 0 }, who)).status).toBe(204);
    expect((await put("/v1/kv/metadata/b", { max_versions: 0 }, who)).status).toBe(403);
  });

  it("with update alone allows later writes only", async () => {
    const who = await token('path "kv/*" { capabilities = ["update"] }');
    expect((await write("a", {}, who)).status).toBe(403);
    expect((await put("/v1/kv/metadata/a", { max_versions: 0 }, who)).status).toBe(403);
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
    await put("/v1/kv/metadata/a", { max_versions: 0 });
    expect((await write("a", {}, who)).status).toBe(200);
    expect((await put("/v1/kv/delete/a", { versions: [1] }, who)).status).toBe(204);
  });

  it("does not reveal to callers without capabilities whether a path exists", async () => {
    await write("a");
    const who = await token('path "kv/data/b" { capabilities = ["read"] }');
    expect((await get("/v1/kv/data/a", who)).text).toBe((await get("/v1/kv/data/none", who)).text);
    expect((await get("/v1/kv/data/a", who)).status).toBe(403);
    expect((await get("/v1/kv/data/b", who)).status).toBe(404);
  });

  it("requires patch for a patch", async () => {
    await write("a");
    const update = await token('path "kv/*" { capabilities = ["create", "update", "read"] }');
    for (const path of ["data/a", "metadata/a"]) {
      const body = path === "data/a" ? { data: {} } : { max_versions: 1 };
      expect((await patch(`/v1/kv/${path}`, body, update)).status).toBe(403);
    }
    const patcher = await token('path "kv/*" { capabilities = ["patch"] }');
    expect((await patch("/v1/kv/data/a", { data: { m: 1 } }, patcher)).status).toBe(200);
    expect((await patch("/v1/kv/metadata/a", { max_versions: 1 }, patcher)).status).toBe(204);
    expect((await get("/v1/kv/data/a", patcher)).status).toBe(403);
  });

  it("separates reading, listing and deleting", async () => {
    await write("f/a");
    const reader = await token('path "kv/*" { capabilities = ["read"] }');
    expect((await get("/v1/kv/data/f/a", reader)).status).toBe(200);
    expect((await list("/v1/kv/metadata/f/", reader)).status).toBe(403);
    expect((await del("/v1/kv/data/f/a", reader)).status).toBe(403);
    const lister = await token('path "kv/metadata/*" { capabilities = ["list"] }');
    expect((await list("/v1/kv/metadata/f/", lister)).status).toBe(200);
    expect((await get("/v1/kv/metadata/f/a", lister)).status).toBe(403);
  });
});
