import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf, holderOf, issue, path, policies } from "./access.ts";
import { del, get, list, mountKv, put, send } from "./client.ts";

const policy = (name: string) => `/v1/sys/policies/acl/${name}`;

describe("policies", () => {
  it("can be written, read, listed and deleted", async () => {
    const text = path("kv/data/x", "read");
    expect([
      (await put(policy("app"), { policy: text })).status,
      (await put(policy("b"), { policy: 'path "a" {}' })).status,
    ]).toEqual([204, 204]);
    const read = await get(policy("app"));
    expect(read.body.data).toEqual({ name: "app", policy: text });
    expect(read.body).toMatchObject({ name: "app", policy: text, auth: null, warnings: null, lease_id: "" });
    expect((await list("/v1/sys/policies/acl")).body.data).toEqual({ keys: ["app", "b", "default", "root"] });
    expect((await del(policy("app"))).status).toBe(204);
    const gone = await get(policy("app"));
    expect([gone.status, gone.body]).toEqual([404, { errors: [] }]);
    expect((await del(policy("app"))).status).toBe(204);
  });

  it("are available under the legacy path with its field names", async () => {
    await put("/v1/sys/policy/old", { rules: path("a", "read") });
    expect((await get("/v1/sys/policy/old")).body).toMatchObject({
      data: { name: "old", rules: path("a", "read") },
      rules: path("a", "read"),
    });
    const keys = ["default", "old", "root"];
    for (const answer of [await get("/v1/sys/policy"), await list("/v1/sys/policy")]) {
      expect(answer.body).toMatchObject({ data: { keys, policies: keys }, keys, policies: keys });
    }
    expect((await del("/v1/sys/policy/old")).status).toBe(204);
  });

  it("have case-insensitive names", async () => {
    await put(policy("MixedCase"), { policy: path("sys/mounts", "read") });
    expect((await get(policy("mixedCASE"))).body.data.name).toBe("mixedcase");
    const { client_token, policies: named } = await issue({ policies: ["MIXEDcase"] });
    expect(named).toEqual(["default", "mixedcase"]);
    expect((await get("/v1/sys/mounts", { token: client_token })).status).toBe(200);
  });

  it("have names of several segments, and of any printable characters", async () => {
    await mountKv();
    const names = ["team/app", "team:app", "Équipe+1", "a/b/c*"];
    for (const name of names) {
      const at = policy(name.split("/").map(encodeURIComponent).join("/"));
      expect((await put(at, { policy: path("sys/mounts", "read") })).status, name).toBe(204);
      expect((await get(`${at}/`)).body.data.name, name).toBe(name.toLowerCase());
      const { client_token: token } = await issue({ policies: [name] });
      expect((await get("/v1/sys/mounts", { token })).status, name).toBe(200);
    }
    expect((await list("/v1/sys/policies/acl")).body.data.keys).toEqual(expect.arrayContaining(["team/app", "a/b/c*"]));
    expect((await get("/v1/sys/policy/team/app")).body.data.rules).toContain("sys/mounts");
    expect((await del("/v1/sys/policy/Team/App")).status).toBe(204);
    expect((await get(policy("team%2Fapp"))).status).toBe(404);
  });

  it("are accepted as HCL, as JSON, and in base64", async () => {
    const documents = [
      'path "sys/mounts" { capabilities = ["read"] }',
      '{"path":{"sys/mounts":{"capabilities":["read"]}}}',
    ];
    for (const text of [...documents, ...documents.map((each) => btoa(each))]) {
      const { client_token } = await holderOf(text);
      expect((await get("/v1/sys/mounts", { token: client_token })).status, text).toBe(200);
    }
  });

  itRows([
    [{}, "'policy' parameter not supplied or empty"],
    ["null", "'policy' parameter not supplied or empty"],
    [{ policy: null }, "'policy' parameter not supplied or empty"],
    [{ policy: 5 }, "'policy' parameter not supplied or empty"],
    [{ policy: "" }, "'policy' parameter not supplied or empty"],
    [{ policy: " \r\n\t" }, "'policy' parameter not supplied or empty"],
    [{ rules: "" }, "'policy' parameter not supplied or empty"],
    [{ policy: "{}" }, "the document holds no rule"],
    [{ policy: '{"path": {}}' }, "the document holds no rule"],
    [{ policy: '# path "a" { }\n// x\n/* y */' }, "the document holds no rule"],
    [{ policy: 'name = "a"' }, "the document holds no rule"],
    [{ policy: btoa("# nothing") }, "the document holds no rule"],
    [{ policy: 'path "a" {' }, "failed to parse policy: At 1:10: "],
    [{ policy: 'path "a" { capabilities = ["fly"] }' }, 'failed to parse policy: path "a": invalid capability "fly"'],
    [{ policy: '{"path":{"a":{"policy":"fly"}}}' }, 'failed to parse policy: path "a": invalid policy "fly"'],
    [{ policy: 'path "a" { foo = 1 }' }, 'failed to parse policy: path "a": invalid key "foo" on line 1'],
    [{ policy: 'path "a/+*" { capabilities = ["read"] }' }, "('+*' is forbidden)"],
    [{ policy: 'pth "a" { capabilities = ["read"] }' }, 'failed to parse policy: invalid key "pth" on line 1'],
  ])("return 400 for %j", async (body, because) => {
    const refused = await put(policy("bad"), body);
    expect(refused.status).toBe(400);
    expect(refused.body.errors.join()).not.toContain("policy: 'policy'");
    expect(refused.body.errors.join()).toContain(because);
    expect((await get(policy("bad"))).status).toBe(404);
  });

  itRows(["root", "a%20", "%E2%80%AEa", "a%00b", "x".repeat(129)])("cannot be named %s", async (name) => {
    expect((await put(policy(name), { policy: 'path "a" {}' })).status).toBe(400);
  });

  it("named root and default cannot be deleted", async () => {
    for (const name of ["root", "default"]) {
      const refused = await del(policy(name));
      expect([refused.status, refused.body.errors]).toEqual([400, [`cannot delete "${name}" policy`]]);
    }
    expect((await get(policy("root"))).body.data).toEqual({ name: "root", policy: "" });
  });

  it("named default can be replaced, for all its tokens", async () => {
    const { client_token } = await issue({ policies: ["default"] });
    await put(policy("default"), { policy: path("sys/mounts", "read") });
    expect((await get("/v1/sys/mounts", { token: client_token })).status).toBe(200);
    expect((await get("/v1/auth/token/lookup-self", { token: client_token })).status).toBe(403);
  });

  it("named default lets a token look up, renew and revoke itself, and query its capabilities", async () => {
    const { client_token } = await issue({ policies: ["default"] });
    const own = { token: client_token };
    expect((await get("/v1/auth/token/lookup-self", own)).status).toBe(200);
    expect((await put("/v1/auth/token/renew-self", {}, own)).status).toBe(200);
    expect((await put("/v1/sys/capabilities-self", { path: "a" }, own)).status).toBe(200);
    expect((await get("/v1/sys/policies/acl/default", own)).status).toBe(403);
    expect((await put("/v1/auth/token/create", {}, own)).status).toBe(403);
    expect((await put("/v1/auth/token/revoke-self", {}, own)).status).toBe(204);
  });

  it("apply at once to their tokens after a write, change or deletion", async () => {
    const { client_token } = await issue({ policies: ["later"] });
    const status = async () => (await get("/v1/sys/mounts", { token: client_token })).status;
    const seen = [await status()];
    await policies({ later: path("sys/mounts", "read") });
    seen.push(await status());
    await policies({ later: path("sys/mounts", "deny") });
    seen.push(await status());
    await policies({ later: path("sys/mounts", "read") });
    await del(policy("later"));
    seen.push(await status());
    expect(seen).toEqual([403, 200, 403, 403]);
  });

  it("are shared by both APIs", async () => {
    await put("/v1/acl/policy/shared", { Rules: path("sys/mounts", "read") });
    expect((await get(policy("shared"))).body.data.policy).toBe(path("sys/mounts", "read"));
  });

  it("require update to be written; create applies to routes that check existence", async () => {
    const maker = await holderOf(path("sys/policies/acl/*", "create"));
    expect((await put(policy("x"), { policy: 'path "a" {}' }, { token: maker.client_token })).status).toBe(403);
    const writer = await holderOf(path("sys/policies/acl/*", "update"));
    expect((await put(policy("x"), { policy: 'path "a" {}' }, { token: writer.client_token })).status).toBe(204);
  });

  // Proves: C.event.Key, C.event.Namespace.none, C.payload.ACLPolicy
  it("appear in events with the indexes of reads", async () => {
    await put("/v1/acl/policy/p", { Rules: path("a", "read"), Description: "one" });
    await put("/v1/acl/policy/p", { Rules: path("a", "list"), Description: "two" });
    const { body: shown, headers } = await get("/v1/acl/policy/p");
    await del(policy("p"));
    const events = await eventsOf("ACLPolicy:p");
    expect(events.map(({ Type }) => Type)).toEqual(["ACLPolicyUpserted", "ACLPolicyUpserted", "ACLPolicyDeleted"]);
    const [made, changed, deleted] = events;
    expect(made).toEqual({
      Topic: "ACLPolicy",
      Type: "ACLPolicyUpserted",
      Key: "p",
      Namespace: "",
      FilterKeys: null,
      Index: made.Index,
      Payload: {
        ACLPolicy: {
          Name: "p",
          Description: "one",
          Rules: path("a", "read"),
          RulesJSON: null,
          JobACL: null,
          Hash: expect.any(String),
          CreateIndex: made.Index,
          ModifyIndex: made.Index,
        },
      },
    });
    expect(changed.Payload.ACLPolicy).toEqual({
      ...shown,
      RulesJSON: null,
      CreateIndex: made.Index,
      ModifyIndex: changed.Index,
    });
    expect([shown.CreateIndex, shown.ModifyIndex]).toEqual([made.Index, changed.Index]);
    expect(headers.get("x-orch-index")).toBe(String(changed.Index));
    expect(deleted.Payload.ACLPolicy).toEqual({ ...shown, RulesJSON: null });
    expect(deleted.Index).toBeGreaterThan(changed.Index);
  });
});

describe("a path rule", () => {
  // The rules of precedence are tested in src/access; this test covers their use for requests.
  it.each([
    ["an exact path beats a prefix", path("kv/data/*", "read") + path("kv/data/a", "deny"), "GET", "kv/data/a", 403],
    ["the prefix decides elsewhere", path("kv/data/*", "read") + path("kv/data/a", "deny"), "GET", "kv/data/b", 404],
    ["+ is one segment", path("kv/data/+/x", "read"), "GET", "kv/data/a/x", 404],
    ["+ is not two", path("kv/data/+/x", "read"), "GET", "kv/data/a/b/x", 403],
    ["the longer prefix wins", path("kv/data/*", "read") + path("kv/data/a*", "list"), "GET", "kv/data/ab", 403],
    ["LIST asks for list", path("kv/metadata/*", "read"), "LIST", "kv/metadata/a", 403],
    ["LIST of a/ is judged by a, too", path("kv/metadata/a", "list"), "LIST", "kv/metadata/a/", 404],
    ["DELETE asks for delete", path("kv/data/*", "update", "read"), "DELETE", "kv/data/a", 403],
    ["PATCH asks for patch", path("kv/data/*", "update", "create"), "PATCH", "kv/data/a", 403],
    ["paths are case-sensitive", path("kv/data/a", "read"), "GET", "kv/data/A", 403],
    ["an encoded path is the path", path("kv/data/a b", "read"), "GET", "kv/data/a%20b", 404],
    [
      "an encoded slash is a slash to the rule",
      path("kv/data/a/secret", "deny") + path("kv/data/*", "read"),
      "GET",
      "kv/data/a%2Fsecret",
      403,
    ],
    ["doubled slashes are one", path("kv/data/a", "deny") + path("kv/*", "read"), "GET", "kv//data//a", 403],
  ])("%s", async (_rule, rules, method, at, status) => {
    await mountKv();
    const { client_token } = await holderOf(rules);
    const body = method === "PATCH" ? { data: {} } : undefined;
    expect((await send(method, `/v1/${at}`, body, { token: client_token })).status).toBe(status);
  });

  it("adds the capabilities of several policies for one pattern, and deny wins", async () => {
    await policies({ a: path("sys/mounts", "read"), b: path("sys/mounts", "list"), c: path("sys/mounts", "deny") });
    const both = await issue({ policies: ["a", "b"] });
    const ask = (token: string) => put("/v1/sys/capabilities-self", { path: "sys/mounts" }, { token });
    expect((await ask(both.client_token)).body.data.capabilities).toEqual(["list", "read"]);
    const all = await issue({ policies: ["a", "b", "c"] });
    expect((await ask(all.client_token)).body.data.capabilities).toEqual(["deny"]);
  });
});

describe("a trailing slash in a path", () => {
  it("does not bypass the rule for the path without it", async () => {
    await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" });
    const rules = path("cloud-b/*", "read", "list") + path("cloud-b/config", "deny") + path("cloud-b/roles/+", "list");
    const { client_token: token } = await holderOf(rules);
    for (const at of ["cloud-b/config", "cloud-b/config/", "cloud-b/roles/r", "cloud-b/roles/r/"]) {
      expect((await get(`/v1/${at}`, { token })).status, at).toBe(403);
    }
    expect((await list("/v1/cloud-b/roles/", { token })).status).toBe(404);
  });

  it("is part of a list path, and does not affect a following write", async () => {
    await mountKv();
    const { client_token: token } = await holderOf(path("kv/metadata/x/", "list", "update"));
    expect((await list("/v1/kv/metadata/x", { token })).status).toBe(404);
    expect((await put("/v1/kv/metadata/x", { max_versions: 3 }, { token })).status).toBe(403);
  });

  it("applies if only a rule with the slash matches", async () => {
    const rules = path("sys/leases/revoke-prefix/cloud-b/*", "update", "sudo");
    const { client_token: token } = await holderOf(rules);
    expect((await put("/v1/sys/leases/revoke-prefix/cloud-b/", {}, { token })).status).toBe(204);
    expect((await put("/v1/sys/leases/revoke-prefix/cloud-b", {}, { token })).status).toBe(403);
  });
});

describe("a case-insensitive name", () => {
  it("of a role or policy matches rules in any case", async () => {
    await put("/v1/sys/mounts/Azure", { type: "cloud-b" });
    await policies({ admin: path("a", "read") });
    const rules = [
      path("Azure/*", "read") + path("Azure/roles/Prod", "deny") + path("Azure/creds/prod-*", "deny"),
      path("sys/policies/acl/*", "update", "read") + path("sys/policies/acl/Admin", "deny"),
      path("sys/policy/+", "read") + path("sys/policy/admin", "deny"),
    ];
    const { client_token: token } = await holderOf(rules.join(""));
    for (const name of ["prod", "Prod", "PROD", "prod/"]) {
      expect((await get(`/v1/Azure/roles/${name}`, { token })).status, name).toBe(403);
      expect((await get(`/v1/Azure/creds/${name.replace("/", "")}-x`, { token })).status, name).toBe(403);
    }
    for (const name of ["admin", "Admin", "ADMIN"]) {
      expect((await put(`/v1/sys/policies/acl/${name}`, { policy: 'path "a" {}' }, { token })).status, name).toBe(403);
      expect((await get(`/v1/sys/policy/${name}`, { token })).status, name).toBe(403);
    }
    for (const name of ["team/ADMIN", "TEAM/admin", "TEAM%2Fadmin"]) {
      const { client_token: other } = await holderOf(
        path("sys/policies/acl/*", "read") + path("sys/policies/acl/Team/Admin", "deny"),
      );
      expect((await get(`/v1/sys/policies/acl/${name}`, { token: other })).status, name).toBe(403);
    }
    const { client_token: member } = await holderOf(
      path("identity/group/name/*", "read", "update") + path("identity/group/name/Admins", "deny"),
    );
    for (const name of ["admins", "ADMINS"]) {
      expect((await put(`/v1/identity/group/name/${name}`, { policies: ["a"] }, { token: member })).status).toBe(403);
      expect((await get(`/v1/identity/group/name/${name}`, { token: member })).status, name).toBe(403);
    }
    expect((await get("/v1/Azure/roles/Other", { token })).status).toBe(404);
    expect((await put("/v1/sys/policies/acl/Other", { policy: 'path "a" {}' }, { token })).status).toBe(204);
  });

  it("does not include names of secrets", async () => {
    await put("/v1/sys/mounts/roles", { type: "kv-v2" });
    await put("/v1/roles/data/roles/A", { data: {} });
    const { client_token: token } = await holderOf(path("roles/*", "read") + path("roles/data/roles/a", "deny"));
    expect((await get("/v1/roles/data/roles/A", { token })).status).toBe(200);
    expect((await get("/v1/roles/data/roles/a", { token })).status).toBe(403);
  });
});

describe("parameter constraints", () => {
  const AT = "/v1/sys/sync/destinations/in-mem/d";
  const limited = async (at: string, field: string, parameters: object) =>
    (
      await holderOf(
        `path "${at}" { capabilities = ["create", "read", "update", "delete"]\n${field} = ${JSON.stringify(parameters).replaceAll(":", " = ")} }`,
      )
    ).client_token as string;

  it("apply to the query and the body", async () => {
    await mountKv();
    for (const k of [1, 2]) await put("/v1/kv/data/a", { data: { k } });
    await put(AT, {});
    const token = await limited("sys/sync/destinations/*", "denied_parameters", { purge: [], force_delete: [] });
    for (const said of ["purge=true", "force_delete=1"]) {
      const refused = await del(`${AT}?${said}`, { token });
      expect([refused.status, refused.body.errors[0]]).toEqual([403, expect.stringContaining("is denied by policy")]);
    }
    const none = await limited("sys/sync/destinations/*", "denied_parameters", { purge: ["true"] });
    for (const purge of [false, "true"]) {
      const both = await send("DELETE", `${AT}?purge=true`, { purge }, { token: none });
      expect([both.status, purge]).toEqual([403, purge]);
    }
    expect((await get(AT)).status).toBe(200);
    expect((await del(AT, { token })).status).toBe(204);
    const reader = await limited("kv/data/*", "denied_parameters", { version: ["1"] });
    expect((await get("/v1/kv/data/a?version=1", { token: reader })).status).toBe(403);
    expect((await get("/v1/kv/data/a?version=2", { token: reader })).status).toBe(200);
    // As upstream, required parameters apply to reads, too.
    const exact = await limited("kv/data/*", "required_parameters", ["version"]);
    expect((await get("/v1/kv/data/a", { token: exact })).status).toBe(403);
    expect((await get("/v1/kv/data/a?version=2", { token: exact })).status).toBe(200);
  });

  it("apply to fields and values by either name", async () => {
    await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" });
    for (const field of ["cloud_roles", "azure_roles"]) {
      const token = await limited("cloud-b/roles/*", "denied_parameters", { [field]: [] });
      for (const said of ["cloud_roles", "azure_roles"]) {
        expect((await put("/v1/cloud-b/roles/r", { [said]: [] }, { token })).status, `${field} ${said}`).toBe(403);
      }
    }
    const audiences = ["AzureADMyOrg", "DirectoryMyOrg"];
    for (const listed of [...audiences, "AzureADMy*"]) {
      const token = await limited("cloud-b/roles/*", "denied_parameters", { sign_in_audience: [listed] });
      for (const sign_in_audience of audiences) {
        expect((await put("/v1/cloud-b/roles/r", { sign_in_audience }, { token })).status).toBe(403);
      }
      expect((await put("/v1/cloud-b/roles/r", { sign_in_audience: "PersonalAccount" }, { token })).status).toBe(400);
    }
  });
});

describe("a rule that allows only wrapped responses", () => {
  const CANARY = "canary";
  const rule = (more: string) => `path "kv/data/a" { capabilities = ["read", "update"] ${more} }`;
  /** The status of a read with a wrap TTL; 200 only for a wrapped answer. */
  async function wrapped(token: string, ttl: string | null): Promise<number> {
    const headers: Record<string, string> = ttl === null ? {} : { "X-Vault-Wrap-TTL": ttl };
    const answer = await get("/v1/kv/data/a", { token, headers });
    expect(answer.text).not.toContain(CANARY);
    return answer.status;
  }
  beforeEach(async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: { k: CANARY } });
  });

  itRows([
    ['min_wrapping_ttl = "1m"', [null, "0", "59", "1s"], ["60", "1m", "2h"]],
    ['max_wrapping_ttl = "1m"', [null, "0", "61", "2h"], ["1", "60", "1m"]],
    ['min_wrapping_ttl = "10s" max_wrapping_ttl = "1m"', [null, "9", "61"], ["10", "30s", "60"]],
  ])("(%s) returns 403 for %j and a wrapped answer for %j", async (bounds, refused, allowed) => {
    const { client_token: token } = await holderOf(rule(bounds.replace(" max", "\n max")));
    for (const ttl of refused) expect(await wrapped(token, ttl), String(ttl)).toBe(403);
    for (const ttl of allowed) expect(await wrapped(token, ttl), ttl).toBe(200);
  });

  it("names the bounds in the refusal, and does nothing", async () => {
    const { client_token: token } = await holderOf(rule('min_wrapping_ttl = "10s"\n max_wrapping_ttl = "1m"'));
    const refused = await put("/v1/kv/data/a", { data: {} }, { token });
    expect([refused.status, refused.body.errors]).toEqual([
      403,
      ["permission denied: a policy allows only wrapped answers here, with a TTL from 10 s to 60 s"],
    ]);
    expect((await get("/v1/kv/data/a")).body.data.metadata.version).toBe(1);
    const { client_token: open } = await holderOf(rule(""));
    expect((await get("/v1/kv/data/a", { token: open })).status).toBe(200);
  });

  it("applies to cached grants of the same token and path: one TTL is no grant for another", async () => {
    const { client_token: token } = await holderOf(rule('max_wrapping_ttl = "1m"'));
    const write = async (ttl: string | null) => {
      const headers: Record<string, string> = ttl === null ? {} : { "X-Vault-Wrap-TTL": ttl };
      return (await put("/v1/kv/data/a", { data: { k: CANARY } }, { token, headers })).status;
    };
    expect([await write("60"), await write(null), await write("61"), await write("60")]).toEqual([200, 403, 403, 200]);
    expect([await write(null), await write("60")]).toEqual([403, 200]);
  });

  it("combines the bounds of several policies, and allows nothing where they contradict each other", async () => {
    await policies({ long: rule('min_wrapping_ttl = "2m"'), short: rule('max_wrapping_ttl = "1m"') });
    const { client_token: token } = await issue({ policies: ["long", "short"], no_default_policy: true });
    for (const ttl of [null, "30", "90", "180"]) expect(await wrapped(token, ttl), String(ttl)).toBe(403);
  });

  it("counts the 300 s of sys/wrapping/wrap without the header, and does not bind root", async () => {
    const wrap = (bound: string) => `path "sys/wrapping/wrap" { capabilities = ["update"] ${bound} }`;
    const status = async (bound: string) =>
      (await put("/v1/sys/wrapping/wrap", { a: 1 }, { token: (await holderOf(wrap(bound))).client_token })).status;
    expect(await status('min_wrapping_ttl = "300s"')).toBe(200);
    expect(await status('min_wrapping_ttl = "301s"')).toBe(403);
    expect((await get("/v1/kv/data/a")).status).toBe(200);
  });

  it("applies to a token that a request names, too", async () => {
    const bound = (route: string) =>
      `path "auth/token/${route}" { capabilities = ["update"] min_wrapping_ttl = "10s" }`;
    const { client_token: token } = await holderOf(bound("lookup"));
    const { client_token: other } = await issue();
    const lookup = (headers: Record<string, string>) =>
      put("/v1/auth/token/lookup", { token: other }, { token, headers });
    expect((await lookup({})).status).toBe(403);
    const answer = await lookup({ "X-Vault-Wrap-TTL": "10" });
    expect([answer.status, answer.body.data, answer.body.wrap_info.ttl]).toEqual([200, null, 10]);
  });
});

describe("capabilities", () => {
  const rules = path("kv/data/*", "update", "read") + path("kv/metadata/x/", "list");
  const route = "/v1/sys/capabilities-self";

  it("are returned sorted, in data and at the top level, as `capabilities` for a single path only", async () => {
    const { client_token } = await issue({ policies: ["p"] });
    await policies({ p: rules });
    const one = await put(route, { path: "kv/data/a" }, { token: client_token });
    expect(one.body.data).toEqual({ "kv/data/a": ["read", "update"], capabilities: ["read", "update"] });
    expect(one.body.capabilities).toEqual(["read", "update"]);
    const several = await put(route, { paths: ["/kv/data/a", "kv/metadata/x/", "z"] }, { token: client_token });
    expect(several.body.data).toEqual({ "/kv/data/a": ["read", "update"], "kv/metadata/x/": ["list"], z: ["deny"] });
  });

  it("are returned under the text that was sent, and for `path` only without `paths`", async () => {
    const { client_token: token } = await issue({ policies: ["p"] });
    await policies({ p: rules });
    const joined = await put(route, { paths: "/kv/data/a, kv/metadata/x/", path: "z" }, { token });
    expect(joined.body.data).toEqual({ "/kv/data/a": ["read", "update"], "kv/metadata/x/": ["list"] });
    const older = await put(route, { paths: [], path: "/kv/data/a" }, { token });
    expect(older.body.data).toEqual({ "/kv/data/a": ["read", "update"], capabilities: ["read", "update"] });
  });

  it("of root are root", async () => {
    expect((await put(route, { path: "any" })).body.data.any).toEqual(["root"]);
  });

  it("of another token are returned by its text or accessor", async () => {
    await policies({ p: rules });
    const { client_token: token, accessor } = await issue({ policies: ["p"] });
    const answers = [
      await put("/v1/sys/capabilities", { token, path: "kv/data/a" }),
      await put("/v1/sys/capabilities-accessor", { accessor, paths: "kv/data/a" }),
    ];
    for (const { body } of answers) expect(body.data.capabilities).toEqual(["read", "update"]);
  });

  itRows([
    [route, {}, 400, "paths must be supplied"],
    [route, { paths: [] }, 400, "paths must be supplied"],
    [route, { paths: Array(1_001).fill("a") }, 400, "paths: at most 1000"],
    ["/v1/sys/capabilities", { path: "a" }, 400, "no token found"],
    ["/v1/sys/capabilities", { path: "a", token: "unknown" }, 400, "invalid token"],
    ["/v1/sys/capabilities-accessor", { path: "a" }, 400, "missing accessor"],
    ["/v1/sys/capabilities-accessor", { path: "a", accessor: "x" }, 400, "invalid accessor"],
  ])("return 400 for %s", async (at, body, status, text) => {
    const refused = await put(at, body);
    expect([refused.status, refused.body.errors]).toEqual([status, [text]]);
  });
});

it("a document above the row limit returns 400 with the limit", async () => {
  const policy = `# ${"x".repeat(512 * 1024)}`;
  const refused = await put("/v1/sys/policies/acl/big", { policy });
  expect([refused.status, refused.body.errors]).toEqual([400, ["policy: the document may have at most 524288 bytes"]]);
  expect((await get("/v1/sys/policies/acl/big")).status).toBe(404);
});
