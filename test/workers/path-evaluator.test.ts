import { beforeEach, describe, expect, it } from "vitest";
import { holderOf, path } from "./access.ts";
import { get, mountKv, put, send } from "./client.ts";
import { makeDestination, write } from "./sync-helpers.ts";

/** Further rights that a request needs, beyond those on its own path, are evaluated by the same function. */

const SYNC = path("sys/sync/*", "create", "update", "read");
const rule = (pattern: string, more: string) => `path "${pattern}" { capabilities = ["read"] ${more} }\n`;

describe("a rule that allows only wrapped responses", () => {
  beforeEach(async () => {
    await mountKv();
    await write("app", { a: 1 });
  });

  it.each(['min_wrapping_ttl = "10s"', 'max_wrapping_ttl = "60s"', "min_wrapping_ttl = 1"])(
    "(%s) returns 403 for open answers on every route",
    async (wrapped) => {
      await makeDestination("in-mem", "m");
      const rules =
        SYNC + rule("kv/data/app", wrapped) + rule("kv/subkeys/app", wrapped) + path("kv/subkeys/*", "read");
      const { client_token: token } = await holderOf(rules + path("sys/capabilities-self", "update"));
      const refused = [
        await get("/v1/kv/data/app", { token }),
        await put(
          "/v1/sys/sync/destinations/in-mem/m/associations/set",
          { mount: "kv", secret_name: "app" },
          { token },
        ),
        await get("/v1/kv/subkeys/app", { token }),
        await get("/v1/kv/subkeys/app%3Fdepth=1", { token }),
        await get("/v1/kv/subkeys/app%3Fversion=1", { token }),
      ];
      expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403]);
      for (const { text } of refused) expect(text).toContain("a policy allows only wrapped answers here");
      const { body } = await send(
        "POST",
        "/v1/sys/capabilities-self",
        { paths: ["kv/data/app", "kv/subkeys/x"] },
        { token },
      );
      expect(body.data).toEqual({ "kv/data/app": ["read"], "kv/subkeys/x": ["read"] });
    },
  );
});

it("GET subkeys/PATH%3Fdepth=1 follows the parameter constraints of the rule", async () => {
  await mountKv();
  await write("app", { a: { b: 1 } });
  const rules = rule("kv/subkeys/app", "denied_parameters = { depth = [] }") + path("kv/subkeys/*", "read");
  const { client_token: token } = await holderOf(rules);
  expect((await get("/v1/kv/subkeys/app?depth=1", { token })).status).toBe(403);
  expect((await get("/v1/kv/subkeys/app%3Fdepth=1", { token })).status).toBe(403);
  expect((await get("/v1/kv/subkeys/app%3Fversion=1", { token })).status).toBe(200);
});

it("sys/capabilities agrees with the authorization of requests, for any spelling of names", async () => {
  await put("/v1/sys/mounts/azure", { type: "cloud-b" });
  const { client_token: token } = await holderOf(
    path("sys/policies/acl/*", "read") +
      path("sys/policies/acl/foo", "deny") +
      path("sys/policy/Bar", "deny") +
      path("azure/*", "read") +
      path("azure/roles/prod", "deny") +
      path("kv/*", "read") +
      path("kv/data/foo", "deny"),
  );
  const expected = {
    "sys/policies/acl/foo": ["deny"],
    "sys/policies/acl/FOO": ["deny"],
    "sys/policies/acl/Foo": ["deny"],
    "sys/policies/acl/other": ["read"],
    "sys/policy/BAR": ["deny"],
    "azure/roles/PROD": ["deny"],
    "azure/creds/Prod": ["read"],
    "kv/data/FOO": ["read"],
    "kv/data/foo": ["deny"],
  };
  const { body } = await send("POST", "/v1/sys/capabilities", { token, paths: Object.keys(expected) });
  expect(body.data).toEqual(expected);
});

/** Paths of folders, and the rules with `+` that name them. */
const FOLDERS: readonly (readonly [string, string])[] = [
  ["k/metadata/team1", "k/metadata/+"],
  ["k/metadata/team1", "k/+/team1"],
  ["k/metadata/team1/db", "k/metadata/team1/+"],
  ["k/metadata/team1/db", "k/metadata/+/+"],
  ["k/metadata/team1/db", "k/+/team1/d*"],
  ["sys/sync/destinations/in-mem", "sys/sync/destinations/+"],
  ["sys/sync/destinations/in-mem", "sys/+/destinations/+"],
  ["auth/approle/role", "auth/+/role"],
  ["sys/policies/acl", "sys/policies/+"],
  ["identity/entity/id", "identity/entity/+"],
  ["ns1/k/metadata/team1", "ns1/k/metadata/+"],
];

describe("LIST of a folder that a rule with + names", () => {
  const lists = (at: string, token: string) => [
    send("LIST", `/v1/${at}`, undefined, { token }),
    send("LIST", `/v1/${at}/`, undefined, { token }),
    get(`/v1/${at}?list=true`, { token }),
    get(`/v1/${at}/?list=true`, { token }),
  ];
  const statuses = async (at: string, token: string) =>
    (await Promise.all(lists(at, token))).map(({ status }) => (status === 403 ? "refused" : "allowed"));
  const rights = async (at: string, token: string): Promise<string[][]> => {
    const paths = [at, `${at}/`];
    const { body } = await send("POST", "/v1/sys/capabilities", { token, paths });
    return paths.map((each) => body.data[each]);
  };

  beforeEach(async () => {
    await put("/v1/sys/mounts/k", { type: "kv-v2" });
    await put("/v1/k/data/team1/db/one", { data: { a: 1 } });
    await put("/v1/sys/auth/approle", { type: "approle" });
    await put("/v1/sys/namespaces/ns1", {});
    await put("/v1/sys/mounts/k", { type: "kv-v2" }, { headers: { "X-Vault-Namespace": "ns1" } });
  });

  it.each(FOLDERS)("%s is refused by deny on %s, and capabilities agree", async (at, pattern) => {
    const { client_token: token } = await holderOf(path("*", "list", "read") + path(pattern, "deny"));
    expect(await statuses(at, token)).toEqual(Array(4).fill("refused"));
    expect(await rights(at, token)).toEqual([["deny"], ["deny"]]);
  });

  it.each(FOLDERS)("%s is allowed by list on %s, and capabilities agree", async (at, pattern) => {
    const { client_token: token } = await holderOf(path(pattern, "list"));
    expect(await statuses(at, token)).toEqual(Array(4).fill("allowed"));
    expect(await rights(at, token)).toEqual([["list"], ["list"]]);
  });

  it("follows a changed policy on the next request", async () => {
    const at = "k/metadata/team1";
    const { client_token: token, policies: names } = await holderOf(path("k/*", "list"));
    expect(await statuses(at, token)).toEqual(Array(4).fill("allowed"));
    const policy = path("k/*", "list") + path("k/+/team1", "deny");
    await put(`/v1/sys/policies/acl/${names[0]}`, { policy });
    expect(await statuses(at, token)).toEqual(Array(4).fill("refused"));
  });
});

describe("sys/internal/ui", () => {
  it("lists a mount that a rule with + grants, and none that one denies", async () => {
    for (const name of ["k", "other"]) await put(`/v1/sys/mounts/${name}`, { type: "kv-v2" });
    const seen = async (rules: string) => {
      const { client_token: token } = await holderOf(rules);
      return Object.keys((await get("/v1/sys/internal/ui/mounts", { token })).body.data.secret).sort();
    };
    expect(await seen(path("k/+/team1", "list"))).toEqual(["k/"]);
    expect(await seen(path("+/metadata/+", "list") + path("other*", "deny"))).not.toContain("other/");
    expect(await seen(path("k/+/team1", "deny"))).toEqual([]);
  });

  it("returns 403 for a resultant ACL that a policy denies, and its constraints otherwise", async () => {
    const at = "sys/internal/ui/resultant-acl";
    const denied = await holderOf(path(at, "deny"), { no_default_policy: false });
    expect((await get(`/v1/${at}`, { token: denied.client_token })).status).toBe(403);
    const rules = `path "k/+" { capabilities = ["update"] allowed_parameters = { a = ["x"] } denied_parameters = { b = [] }
      required_parameters = ["a"] min_wrapping_ttl = "1m" max_wrapping_ttl = "1h" }`;
    const { client_token: token } = await holderOf(rules + path(at, "read") + path("no/*", "deny"));
    expect((await get(`/v1/${at}`, { token })).body.data).toMatchObject({
      exact_paths: { [at]: { capabilities: ["read"] } },
      glob_paths: {
        "no/": { capabilities: ["deny"] },
        "k/+": {
          capabilities: ["update"],
          allowed_parameters: { a: ["x"] },
          denied_parameters: { b: [] },
          required_parameters: ["a"],
          min_wrapping_ttl: 60,
          max_wrapping_ttl: 3600,
        },
      },
    });
  });
});

describe("a rule with pagination_limit", () => {
  it("bounds the keys of lists, and refuses a greater limit", async () => {
    await mountKv();
    for (const key of ["a", "b", "c"]) await write(key, { k: 1 });
    const limited = (more = "") => `path "kv/metadata/*" { capabilities = ["list"] pagination_limit = 2 ${more} }`;
    const { client_token: token } = await holderOf(limited());
    const lists = async (query: string, who = token) => {
      const { status, body } = await get(`/v1/kv/metadata?list=true${query}`, { token: who });
      return status === 200 ? body.data.keys : status;
    };
    expect(await lists("")).toEqual(["a", "b"]);
    for (const given of ["0", "max"]) expect(await lists(`&limit=${given}`)).toEqual(["a", "b"]);
    expect(await lists("&limit=1&after=b")).toEqual(["c"]);
    for (const given of ["3", "-1", "many"]) expect(await lists(`&limit=${given}`)).toBe(403);
    const { client_token: aware } = await holderOf(limited('required_parameters = ["limit"]'));
    expect(await lists("", aware)).toBe(403);
    expect(await lists("&limit=2", aware)).toEqual(["a", "b"]);
  });
});
