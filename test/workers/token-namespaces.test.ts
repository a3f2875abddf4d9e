import { beforeEach, describe, expect, it } from "vitest";
import { holderOf, issue, path, policies } from "./access.ts";
import { get, list, mountKv, put } from "./client.ts";

/** Tokens in namespaces: the namespace that authorizes a request, and the visibility of others. */

const at = (namespace: string, token = "root") => ({ token, headers: { "X-Orch-Namespace": namespace } });
const ALL_TOKENS = ["", "sub/"].map((below) => path(`${below}auth/token/*`, "update", "read", "sudo")).join("");

beforeEach(async () => {
  for (const name of ["ns1", "ns2"]) await put(`/v1/sys/namespaces/${name}`, {});
  await put("/v1/sys/namespaces/sub", {}, at("ns1"));
  for (const name of ["", "ns1", "ns1/sub", "ns2"]) await policies({ tokens: ALL_TOKENS }, at(name));
});

const tokenIn = async (namespace: string, ...names: string[]): Promise<string> =>
  (await issue({ policies: names, no_default_policy: true }, at(namespace))).client_token;
const namespaceOf = async (token: string): Promise<string> =>
  (await get("/v1/auth/token/lookup-self", { token })).body.data.namespace_path;

describe("auth/token/lookup-self, renew-self and revoke-self", () => {
  it("apply to the token's own namespace, for any header", async () => {
    for (const headers of [
      {},
      { "X-Vault-Namespace": "ns1" },
      { "X-Orch-Namespace": "ns2" },
      { "X-Vault-Namespace": "ns9" },
    ]) {
      const token = (await issue({ policies: ["default"] }, at("ns1"))).client_token;
      const own = { token, headers: headers as Record<string, string> };
      const about = JSON.stringify(headers);
      const shown = await get("/v1/auth/token/lookup-self", own);
      expect([shown.status, shown.body.data?.namespace_path], about).toEqual([200, "ns1/"]);
      expect((await put("/v1/auth/token/renew-self", {}, own)).body.auth?.client_token, about).toBe(token);
      expect((await put("/v1/auth/token/revoke-self", {}, own)).status, about).toBe(204);
      expect((await get("/v1/auth/token/lookup-self", own)).status, about).toBe(403);
    }
  });

  it("require the capability of the token's policies there", async () => {
    await policies({ narrow: path("auth/token/lookup-self", "deny") }, at("ns1"));
    const token = await tokenIn("ns1", "narrow");
    expect((await get("/v1/auth/token/lookup-self", { token })).status).toBe(403);
    expect((await put("/v1/auth/token/renew-self", {}, { token })).status).toBe(403);
  });

  it("are the only paths without the header", async () => {
    const token = await tokenIn("ns1", "tokens");
    for (const route of ["/v1/auth/token/lookup-accessor", "/v1/auth/token/create", "/v1/sys/capabilities-self"]) {
      expect((await put(route, { accessor: "x", path: "a" }, { token })).status, route).toBe(403);
    }
  });
});

describe("auth/token/lookup, renew and revoke", () => {
  it.each(["ns1", "ns1/sub"])("apply to the namespace of the named token %s", async (namespace) => {
    const token = await tokenIn("ns1", "tokens");
    const other = await tokenIn(namespace, "tokens");
    for (const headers of [{}, { "X-Orch-Namespace": "ns1" }, { "X-Orch-Namespace": "ns1/sub" }]) {
      const options = { token, headers: headers as Record<string, string> };
      const found = await put("/v1/auth/token/lookup", { token: other }, options);
      expect([found.status, found.body.data?.namespace_path], JSON.stringify(headers)).toEqual([200, `${namespace}/`]);
      expect((await get(`/v1/auth/token/lookup?token=${other}`, options)).status).toBe(200);
      expect((await put("/v1/auth/token/renew", { token: other }, options)).body.auth.client_token).toBe(other);
    }
    expect((await put("/v1/auth/token/revoke", { token: other }, { token })).status).toBe(204);
    expect((await get("/v1/auth/token/lookup-self", { token: other })).status).toBe(403);
  });

  it("follow rules about the named token's namespace", async () => {
    const there = (await holderOf(path("ns1/auth/token/lookup", "update"))).client_token;
    const denied = (await holderOf(path("auth/token/lookup", "update") + path("ns1/auth/token/*", "deny")))
      .client_token;
    const above = (await holderOf(path("auth/token/lookup", "update"))).client_token;
    const other = await tokenIn("ns1", "tokens");
    const statuses = await Promise.all(
      [there, denied, above].map(
        async (token) => (await put("/v1/auth/token/lookup", { token: other }, { token })).status,
      ),
    );
    expect(statuses).toEqual([200, 403, 200]);
    const root = await tokenIn("", "tokens");
    expect((await put("/v1/auth/token/lookup", { token: root }, { token: there })).status).toBe(403);
  });

  it("follow rules about the header's namespace if it lies in the caller's", async () => {
    const { client_token: token } = await holderOf(path("ns1/auth/token/lookup", "update"));
    const below = await tokenIn("ns1/sub", "tokens");
    expect((await put("/v1/auth/token/lookup", { token: below }, at("ns1", token))).status).toBe(200);
    expect((await put("/v1/auth/token/lookup", { token: below }, { token })).status).toBe(403);
  });

  it("apply the parameter constraints of that rule", async () => {
    const rule = 'path "auth/token/renew" { capabilities = ["update"] denied_parameters = { increment = [] } }';
    await policies({ plain: rule }, at("ns1"));
    const token = await tokenIn("ns1", "plain");
    const other = await tokenIn("ns1", "tokens");
    const refused = await put("/v1/auth/token/renew", { token: other, increment: 60 }, { token });
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining("increment")]);
    expect((await put("/v1/auth/token/renew", { token: other }, { token })).status).toBe(200);
  });

  it("treat a token outside the caller's namespace as unknown", async () => {
    const token = await tokenIn("ns1", "tokens");
    const foreign = [await tokenIn("ns2", "tokens"), await tokenIn("", "tokens"), "root", "hvs.none"];
    for (const options of [{ token }, at("ns1", token)]) {
      const answers = foreign.map(async (named) => {
        const lookup = await put("/v1/auth/token/lookup", { token: named }, options);
        const renew = await put("/v1/auth/token/renew", { token: named }, options);
        const revoke = await put("/v1/auth/token/revoke", { token: named }, options);
        const orphan = await put("/v1/auth/token/revoke-orphan", { token: named }, options);
        return [lookup.status, lookup.body.errors, renew.status, renew.body.errors, revoke.status, orphan.status];
      });
      const none = [403, ["bad token"], 400, ["token not found"], 204, 204];
      expect(await Promise.all(answers)).toEqual(foreign.map(() => none));
    }
    for (const named of foreign.slice(0, 2))
      expect((await get("/v1/auth/token/lookup-self", { token: named })).status).toBe(200);
  });

  it("return 403 for every token without the capability", async () => {
    await policies({ few: path("auth/token/lookup", "read") + path("auth/token/revoke-orphan", "update") }, at("ns1"));
    const token = await tokenIn("ns1", "few");
    const own = await tokenIn("ns1", "tokens");
    for (const verb of ["lookup", "renew", "revoke", "revoke-orphan"]) {
      for (const body of [{ token: own }, { token: "hvs.none" }, { token: "root" }, {}]) {
        const refused = await put(`/v1/auth/token/${verb}`, body, { token });
        expect([refused.status, refused.body.errors], verb).toEqual([403, ["permission denied"]]);
      }
    }
    expect(await namespaceOf(own)).toBe("ns1/");
  });

  it("look up the caller without a token in the request", async () => {
    const token = await tokenIn("ns1", "tokens");
    for (const options of [{ token }, at("ns1", token)]) {
      for (const body of [{}, { token: "" }, { token: null }]) {
        expect((await put("/v1/auth/token/lookup", body, options)).body.data?.id).toBe(token);
      }
      expect((await get("/v1/auth/token/lookup", options)).body.data?.id).toBe(token);
      for (const verb of ["renew", "revoke", "revoke-orphan"]) {
        const refused = await put(`/v1/auth/token/${verb}`, {}, options);
        expect([refused.status, refused.body.errors], verb).toEqual([400, ["token: required"]]);
      }
    }
    const last = (await issue({ policies: ["tokens"], num_uses: 1 }, at("ns1"))).client_token;
    expect((await put("/v1/auth/token/lookup", {}, { token: last })).body.data).toMatchObject({
      id: last,
      num_uses: 0,
    });
  });
});

describe("a token id chosen by the caller", () => {
  it("is accepted in the root namespace only, so that others cannot probe for ids", async () => {
    await issue({ id: "of-the-root", policies: ["default"] });
    const admin = (await issue({ policies: ["tokens"] }, at("ns1"))).client_token;
    const ask = (id: string, token: string) => put("/v1/auth/token/create", { id }, at("ns1", token));
    const answers = await Promise.all(["of-the-root", "root", "of-nobody"].map((id) => ask(id, admin)));
    const refused = [400, ["id: tokens get ids of their callers' choice in the root namespace only"]];
    expect(answers.map(({ status, body }) => [status, body.errors])).toEqual([refused, refused, refused]);
    expect((await ask("of-nobody", "root")).status).toBe(400);
    expect((await put("/v1/auth/token/create", { id: "of-the-root" })).body.errors).toEqual([
      "cannot create a token with a duplicate ID",
    ]);
  });
});

describe("a child token in another namespace", () => {
  it("requires sudo there, also with equal policy names and without policies", async () => {
    await policies({ same: path("sys/mounts", "read") }, at("ns1"));
    await policies({ same: path("ns1/auth/token/create", "update") });
    const plain = (await issue({ policies: ["same"], no_default_policy: true })).client_token;
    for (const body of [
      { policies: ["same"] },
      {},
      { policies: ["same"], no_default_policy: true },
      { policies: [] },
    ]) {
      const refused = await put("/v1/auth/token/create", body, at("ns1", plain));
      expect([refused.status, refused.body.errors], JSON.stringify(body)).toEqual([
        400,
        ["child policies must be subset of parent"],
      ]);
    }
    expect((await list("/v1/auth/token/accessors", at("ns1"))).status).toBe(404);
    await policies({ same: path("ns1/auth/token/create", "update", "sudo") });
    expect((await put("/v1/auth/token/create", { policies: ["same"] }, at("ns1", plain))).status).toBe(200);
  });

  it("is authorized without the trailing slash of the path", async () => {
    const rules = path("auth/token/*", "update", "sudo") + path("auth/token/create", "update");
    const { client_token: token } = await holderOf(rules);
    for (const route of ["/v1/auth/token/create", "/v1/auth/token/create/"]) {
      const refused = await put(route, { policies: ["tokens"] }, { token });
      expect([refused.status, refused.body.errors], route).toEqual([400, ["child policies must be subset of parent"]]);
    }
  });
});

describe("the policies of a new token", () => {
  it("are not inherited if the request names blanks", async () => {
    for (const named of [[""], [" ", ""], "", " "]) {
      const { policies: given } = await issue({ policies: named });
      expect(given, JSON.stringify(named)).toEqual(["default"]);
    }
    expect((await issue({ policies: [] })).policies).toEqual(["root"]);
  });

  it("never turn a client token of the cluster API into a management token, for any spelling of root", async () => {
    for (const name of ["root", "ROOT", "Root", " root", "rOOt\t", "root "]) {
      for (const more of [[], ["app"]]) {
        const refused = await put("/v1/acl/token", { Type: "client", Policies: [name, ...more] });
        expect([refused.status, refused.text], name).toEqual([
          400,
          expect.stringMatching(/policy root belongs to management|must be in lower case/),
        ]);
      }
    }
    const { AccessorID } = (await put("/v1/acl/token", { Type: "client", Policies: ["app", "app "] })).body;
    expect((await get(`/v1/acl/token/${AccessorID}`)).body.Policies).toEqual(["app"]);
    expect((await put(`/v1/acl/token/${AccessorID}`, { Type: "client", Policies: ["ROOT"] })).status).toBe(400);
    expect((await put("/v1/acl/token", { Type: "client", Policies: [" "] })).status).toBe(400);
  });
});

describe("a token with limited uses", () => {
  it("counts every use, also by requests with cached authorization", async () => {
    await mountKv();
    await policies({ writer: path("kv/data/*", "create", "update") });
    const { client_token: token } = await issue({ policies: ["writer"], num_uses: 3 });
    const statuses: number[] = [];
    for (let n = 0; n < 5; n++) statuses.push((await put("/v1/kv/data/a", { data: { n } }, { token })).status);
    expect(statuses).toEqual([200, 200, 200, 403, 403]);
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ n: 2 });
  });
});
