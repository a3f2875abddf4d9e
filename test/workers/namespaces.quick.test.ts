import { describe, expect, it } from "vitest";
import { MountRequest } from "../../src/access/mounts/mounts.ts";
import { TokenRequest } from "../../src/access/tokens/token.ts";
import { itRows } from "../support/rows.ts";
import { accessObject, eventsOf, issue, path, policies } from "./access.ts";
import { del, get, list, mountKv, patch, put, send } from "./client.ts";

const at = (namespace: string, token = "root") => ({ token, headers: { "X-Orch-Namespace": namespace } });
const make = async (...paths: string[]) => {
  for (const full of paths) {
    const parent = full.split("/").slice(0, -1).join("/");
    const made = await put(`/v1/sys/namespaces/${full.split("/").at(-1)}`, {}, at(parent));
    if (made.status !== 200) throw new Error(made.text);
  }
};

describe("namespaces", () => {
  it("can be created, read, listed and deleted", async () => {
    const made = await put("/v1/sys/namespaces/a", { custom_metadata: { team: "x" } });
    expect(made.status).toBe(200);
    expect(made.body.data).toEqual({
      id: expect.stringMatching(/^\w{5}$/),
      path: "a/",
      custom_metadata: { team: "x" },
    });
    expect((await get("/v1/sys/namespaces/a")).body.data).toEqual(made.body.data);
    await make("b");
    const listed = await list("/v1/sys/namespaces");
    expect(listed.body.data.keys).toEqual(["a/", "b/"]);
    expect(listed.body.data.key_info["a/"]).toEqual(made.body.data);
    expect((await del("/v1/sys/namespaces/a")).status).toBe(204);
    expect((await get("/v1/sys/namespaces/a")).status).toBe(404);
    expect((await del("/v1/sys/namespaces/a")).status).toBe(204);
  });

  it("return a status or a warning to clients of upstream, which read a body", async () => {
    const headers = { "X-Vault-Request": "true" };
    await make("a");
    const gone = [await del("/v1/sys/namespaces/a", { headers }), await del("/v1/sys/namespaces/a", { headers })];
    expect(gone).toMatchObject([
      { status: 200, body: { data: { status: "deleted" }, warnings: null } },
      { status: 200, body: { data: null, warnings: ["requested namespace does not exist"] } },
    ]);
  });

  it("return 404 without errors for an empty list", async () => {
    const answer = await list("/v1/sys/namespaces");
    expect([answer.status, answer.body]).toEqual([404, { errors: [] }]);
  });

  it("nest, and a list shows only the next level", async () => {
    await make("a", "a/b", "a/b/c");
    expect((await list("/v1/sys/namespaces", at("a"))).body.data.keys).toEqual(["b/"]);
    expect((await get("/v1/sys/namespaces/b", at("a"))).body.data.path).toBe("a/b/");
    const refused = await del("/v1/sys/namespaces/a");
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ['child namespaces exist under path "a/", cannot remove'],
    ]);
  });

  it("keep their id when written again, and PATCH changes single keys", async () => {
    const { id } = (await put("/v1/sys/namespaces/a", { custom_metadata: { x: "1", y: "2" } })).body.data;
    const changed = await patch("/v1/sys/namespaces/a", { custom_metadata: { x: null, z: "3" } });
    expect(changed.body.data).toEqual({ id, path: "a/", custom_metadata: { y: "2", z: "3" } });
    expect((await put("/v1/sys/namespaces/a", {})).body.data).toEqual({ id, path: "a/", custom_metadata: {} });
  });

  it("are not created by PATCH", async () => {
    expect((await patch("/v1/sys/namespaces/a", { custom_metadata: { x: "1" } })).status).toBe(404);
    expect((await get("/v1/sys/namespaces/a")).status).toBe(404);
  });

  itRows(["sys", "auth", "root", "acl", "volumes", "a b", "a%2Fb", "x".repeat(129), "..%2Fa", "a*", "+"])(
    "cannot be named %s",
    async (name) => {
      expect((await put(`/v1/sys/namespaces/${name}`, {})).status).toBe(400);
    },
  );

  it("cannot overlap with a mount, nor a mount with one", async () => {
    await mountKv("team/kv");
    expect((await put("/v1/sys/namespaces/team", {})).body.errors).toEqual(["path is already in use at team/kv/"]);
    await make("ns");
    for (const taken of ["ns", "ns/kv"]) {
      const refused = await put(`/v1/sys/mounts/${taken}`, { type: "kv-v2" });
      expect([refused.status, refused.body.errors]).toEqual([400, ["path is already in use by the namespace ns/"]]);
    }
  });

  it.each(["a", "a/", "/a", "/a/"])("are selected by the header %j", async (header) => {
    await make("a");
    await mountKv("kv", at("a"));
    expect(Object.keys((await get("/v1/sys/mounts", at(header))).body.data)).toEqual([
      "cubbyhole/",
      "identity/",
      "kv/",
      "sys/",
    ]);
  });

  it.each(["", "/", "root", "root/"])("select the root for the header %j", async (header) => {
    await mountKv("top");
    expect(Object.keys((await get("/v1/sys/mounts", at(header))).body.data)).toEqual([
      "cubbyhole/",
      "identity/",
      "sys/",
      "top/",
    ]);
  });

  it("may lead the path instead of or after the header", async () => {
    await make("a", "a/b");
    await mountKv("kv", at("a/b"));
    await put("/v1/kv/data/x", { data: { k: "v" } }, at("a/b"));
    expect(Object.keys((await get("/v1/a/b/sys/mounts")).body.data)).toEqual([
      "cubbyhole/",
      "identity/",
      "kv/",
      "sys/",
    ]);
    for (const answer of [
      await get("/v1/a/b/kv/data/x"),
      await get("/v1/b/kv/data/x", at("a")),
      await get("/a/b/kv/data/x"),
    ]) {
      expect(answer.body.data.data).toEqual({ k: "v" });
    }
    expect((await put("/v1/a/sys/namespaces/c", {})).body.data.path).toBe("a/c/");
  });

  it("return 404 if unknown, and 400 for invalid names", async () => {
    expect((await get("/v1/sys/mounts", at("nowhere"))).status).toBe(404);
    expect((await get("/v1/sys/mounts", at("a b"))).status).toBe(400);
  });

  it("separate mounts of the same path", async () => {
    await make("a");
    const [one, two] = [await mountKv("kv"), await mountKv("kv", at("a"))];
    expect(one.uuid).not.toBe(two.uuid);
    await put("/v1/kv/data/x", { data: { in: "a" } }, at("a"));
    expect((await get("/v1/kv/data/x")).status).toBe(404);
    // A write may reuse a cached authorization, which is about the other mount here.
    await put("/v1/kv/data/x", { data: { in: "a" } }, at("a"));
    await put("/v1/kv/data/x", { data: { in: "the root" } });
    expect((await get("/v1/kv/data/x", at("a"))).body.data.data).toEqual({ in: "a" });
  });

  it("are deleted with their policies and tokens and their events, but return 400 with mounts", async () => {
    await make("a");
    await mountKv("kv", at("a"));
    await policies({ p: path("kv/*", "read") }, at("a"));
    const { client_token, accessor } = await issue({ policies: ["p"] }, at("a"));
    const refused = await del("/v1/sys/namespaces/a");
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain("kv/");
    await del("/v1/sys/mounts/kv", at("a"));
    expect((await del("/v1/sys/namespaces/a")).status).toBe(204);
    await make("a");
    expect((await list("/v1/sys/policies/acl", at("a"))).body.data.keys).toEqual(["default"]);
    expect((await get("/v1/auth/token/lookup-self", at("a", client_token))).status).toBe(403);
    expect((await eventsOf(`ACLToken:${accessor}`)).map(({ Type }) => Type)).toContain("ACLTokenDeleted");
    expect((await eventsOf("ACLPolicy:a/p")).map(({ Type }) => Type)).toEqual([
      "ACLPolicyUpserted",
      "ACLPolicyDeleted",
    ]);
  });

  it("send policy events without texts", async () => {
    await make("a", "a/b");
    const secret = `# ${"x".repeat(400_000)}`;
    const document = `${path("kv/*", "read")}${secret}`;
    for (const namespace of ["a", "a/b"]) {
      await policies({ p: document }, at(namespace));
      await del("/v1/sys/policies/acl/p", at(namespace));
      const told = await eventsOf(`ACLPolicy:${namespace}/p`);
      expect(told.map(({ Type }) => Type)).toEqual(["ACLPolicyUpserted", "ACLPolicyDeleted"]);
      for (const { Payload } of told) {
        expect(JSON.stringify(Payload)).not.toContain("xxx");
        expect(Payload.ACLPolicy).toMatchObject({ Name: `${namespace}/p`, Rules: "", Description: "" });
      }
    }
    await policies({ whole: path("kv/*", "read") });
    expect((await eventsOf("ACLPolicy:whole"))[0].Payload.ACLPolicy.Rules).toBe(path("kv/*", "read"));
  });

  it("refuse content from a request authorized just before their deletion", async () => {
    const root = (await get("/v1/auth/token/lookup-self")).body.data.accessor;
    const access = accessObject();
    const late = [
      await access.putPolicy("gone/", "p", ""),
      await access.putNamespace("gone/", "x", {}),
      await access.enableMount("gone/", "kv", MountRequest.parse({ type: "kv-v2" })),
      await access.createToken(root, "gone/", "auth/token/create", TokenRequest.parse({}), {
        orphan: false,
        role: null,
      }),
    ];
    for (const result of late) expect(result).toMatchObject({ ok: false, reason: "missing" });
  });

  itRows(["health", "seal-status", "init", "rotate", "leader"])("return 400 for sys/%s", async (route) => {
    await make("a");
    const method = route === "rotate" ? "PUT" : "GET";
    const refused = await send(method, `/v1/a/sys/${route}`, method === "PUT" ? {} : undefined);
    expect([refused.status, refused.body.errors]).toEqual([400, ["operation unavailable in namespaces"]]);
  });

  it("return 400 for a key rotation with the header", async () => {
    await make("a");
    expect((await put("/v1/sys/rotate", {}, at("a"))).status).toBe(400);
  });
});

describe("a token of a child namespace", () => {
  const ALL = path("*", "create", "read", "update", "patch", "delete", "list", "sudo");
  /** Two sibling namespaces with an administrator each, and one below the first. */
  const world = async () => {
    await make("a", "b", "a/c");
    await mountKv("kv");
    for (const namespace of ["a", "b", "a/c"]) await mountKv("kv", at(namespace));
    for (const namespace of ["a", "b"]) await policies({ admin: ALL }, at(namespace));
    const admin = async (namespace: string) => await issue({ policies: ["admin"] }, at(namespace));
    return { a: await admin("a"), b: await admin("b") };
  };

  it("has rights in its namespace and below, by header or path", async () => {
    const { client_token: token } = (await world()).a;
    for (const namespace of ["a", "a/c"]) {
      expect((await get("/v1/sys/mounts", at(namespace, token))).status).toBe(200);
      expect((await put(`/v1/${namespace}/kv/data/x`, { data: {} }, { token })).status).toBe(200);
    }
  });

  it("has no rights in the parent or a sibling, for any policies", async () => {
    const { client_token: token } = (await world()).a;
    for (const namespace of ["", "b", "nowhere"]) {
      expect((await get("/v1/sys/mounts", at(namespace, token))).status, namespace).toBe(403);
      expect((await put("/v1/kv/data/x", { data: {} }, at(namespace, token))).status, namespace).toBe(403);
    }
    expect((await get("/v1/b/kv/data/x", { token })).status).toBe(403);
    expect((await put("/v1/b/sys/policies/acl/x", { policy: 'path "a" {}' }, { token })).status).toBe(403);
  });

  it("has no rights on events and volumes, and no policy can grant them", async () => {
    const { client_token: token } = (await world()).a;
    for (const route of ["/v1/acl/policies", "/v1/acl/token/self", "/v1/namespaces", "/v1/event/stream"]) {
      expect((await get(route, { token })).status, route).toBe(403);
    }
    const refused = await put("/v1/sys/policies/acl/x", { policy: 'operator { policy = "write" }' }, at("a", token));
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).toContain("root namespace");
  });

  it("cannot read tokens outside by text, accessor or list", async () => {
    const { a, b } = await world();
    const outside = await issue({ policies: ["root"] });
    const here = at("a", a.client_token);
    for (const { client_token, accessor } of [b, outside]) {
      const seen = [
        await put("/v1/auth/token/lookup", { token: client_token }, here),
        await put("/v1/auth/token/renew", { token: client_token }, here),
        await put("/v1/auth/token/lookup-accessor", { accessor }, here),
        await put("/v1/auth/token/renew-accessor", { accessor }, here),
        await put("/v1/auth/token/revoke-accessor", { accessor }, here),
        await put("/v1/sys/capabilities", { token: client_token, path: "x" }, here),
        await put("/v1/sys/capabilities-accessor", { accessor, path: "x" }, here),
      ];
      expect(seen.map(({ status }) => status)).toEqual([403, 400, 400, 400, 400, 400, 400]);
      await put("/v1/auth/token/revoke", { token: client_token }, here);
      await put("/v1/auth/token/revoke-orphan", { token: client_token }, here);
      expect((await put("/v1/auth/token/lookup", { token: client_token })).status).toBe(200);
    }
    expect((await list("/v1/auth/token/accessors", here)).body.data.keys).toEqual([a.accessor]);
  });

  it("creates tokens in its namespace, with its policies, and never root", async () => {
    const { client_token } = (await world()).a;
    const here = at("a", client_token);
    const child = await issue({ policies: ["admin"] }, here);
    const shown = await get("/v1/auth/token/lookup-self", at("a", child.client_token));
    expect(shown.body.data).toMatchObject({ namespace_path: "a/", policies: ["admin", "default"] });
    expect((await send("POST", "/v1/auth/token/create", { policies: ["root"] }, here)).status).toBe(400);
    expect((await send("POST", "/v1/auth/token/create", { policies: ["root"] }, at("a"))).status).toBe(400);
    expect((await issue({}, at("a"))).policies, "of a parent that is root").toEqual(["default"]);
  });

  it("gets capabilities relative to the namespace of the request", async () => {
    const { client_token } = (await world()).a;
    await policies(
      {
        narrow:
          path("kv/data/x", "read") +
          path("c/kv/data/y", "list") +
          path("sys/capabilities-self", "update") +
          path("c/sys/capabilities-self", "update"),
      },
      at("a"),
    );
    const { client_token: token } = await issue({ policies: ["narrow"] }, at("a", client_token));
    const ask = (namespace: string, asked: string) =>
      put("/v1/sys/capabilities-self", { path: asked }, at(namespace, token));
    expect((await ask("a", "kv/data/x")).body.data.capabilities).toEqual(["read"]);
    expect((await ask("a", "c/kv/data/y")).body.data.capabilities).toEqual(["list"]);
    expect((await ask("a/c", "kv/data/y")).body.data.capabilities).toEqual(["list"]);
    expect((await ask("a/c", "kv/data/x")).body.data.capabilities).toEqual(["deny"]);
  });

  it("has only the policies of its own namespace", async () => {
    await world();
    await policies({ other: path("sys/mounts", "read") });
    const { client_token } = await issue({ policies: ["other"] }, at("a"));
    const outside = await issue({ policies: ["other"] });
    for (let n = 0; n < 2; n++) {
      expect((await get("/v1/sys/mounts", { token: outside.client_token })).status).toBe(200);
      expect((await get("/v1/sys/mounts", at("a", client_token))).status).toBe(403);
    }
  });
});
