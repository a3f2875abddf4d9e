import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { get, put, send } from "./client.ts";

const MAX = 768 * 3600;
const capped = (asked: string, most: string) =>
  `TTL of "${asked}" exceeded the effective max_ttl of "${most}"; TTL value is capped accordingly`;
const create = (body: object, token?: string) =>
  send("POST", "/v1/auth/token/create", body, token === undefined ? {} : { token });

describe("presenting a token", () => {
  const self = "/v1/auth/token/lookup-self";

  itRows([
    ["X-Orch-Token", "root"],
    ["X-Vault-Token", "root"],
    ["X-Nomad-Token", "root"],
    ["Authorization", "Bearer root"],
    ["Authorization", "bearer root"],
  ])("accepts it in %s: %s", async (name, value) => {
    expect((await get(self, { token: null, headers: { [name]: value } })).status).toBe(200);
  });

  itRows([
    ["none", {}],
    ["an unknown one", { "X-Orch-Token": "hvs.nobody" }],
    ["an empty one", { "X-Orch-Token": "" }],
    ["a token under another scheme", { Authorization: "Basic root" }],
    ["a token that is far too long", { "X-Orch-Token": "x".repeat(5_000) }],
  ])("returns 403 for %s in the format of its API", async (_what, headers) => {
    const secrets = await get(self, { token: null, headers });
    expect(secrets.status).toBe(403);
    expect(secrets.body.errors.join()).toMatch(/^permission denied/);
    expect(secrets.headers.get("content-type")).toBe("application/json");
    const cluster = await get("/v1/nodes", { token: null, headers });
    expect([cluster.status, cluster.text]).toEqual([403, "Permission denied"]);
  });

  it("returns 403 for a token without policies", async () => {
    const { client_token } = await holderOf(path("none", "deny"));
    for (const wanted of ["/v1/sys/mounts", "/v1/sys/policies/acl/default", self, "/v1/acl/tokens"]) {
      expect((await get(wanted, { token: client_token })).status, wanted).toBe(403);
    }
  });
});

describe("creating a token", () => {
  it("returns the whole envelope, with data null and all fields of auth", async () => {
    const answer = await create({ policies: ["app"], meta: { team: "x" }, ttl: "20m", renewable: false });
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.body).toEqual({
      request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      lease_id: "",
      renewable: false,
      lease_duration: 0,
      data: null,
      wrap_info: null,
      warnings: ['Policy "app" does not exist'],
      mount_type: "token",
      auth: {
        client_token: expect.stringMatching(/^hvs\.[A-Za-z0-9]{24}$/),
        accessor: expect.stringMatching(/^[A-Za-z0-9]{24}$/),
        policies: ["app", "default"],
        token_policies: ["app", "default"],
        identity_policies: null,
        metadata: { team: "x" },
        orphan: false,
        entity_id: "",
        lease_duration: 1200,
        renewable: false,
        mfa_requirement: null,
        num_uses: 0,
        token_type: "service",
      },
    });
  });

  it("accepts the zero values that command-line clients send", async () => {
    const answer = await create({
      policies: null,
      ttl: "0s",
      explicit_max_ttl: "0s",
      period: "0s",
      num_uses: 0,
      type: "service",
      entity_alias: "",
      display_name: "",
      renewable: true,
      no_default_policy: false,
    });
    expect([answer.status, answer.body.auth.policies, answer.body.warnings]).toEqual([200, ["root"], null]);
  });

  it("inherits the parent's policies by default", async () => {
    const parent = await issue({ policies: ["a", "b"] });
    await policies({ a: path("auth/token/create", "update") });
    expect((await issue({}, { token: parent.client_token })).policies).toEqual(["a", "b", "default"]);
  });

  it("omits the default policy on request, also an inherited one", async () => {
    await policies({ a: path("auth/token/create", "update") });
    const parent = await issue({ policies: ["a"] });
    expect((await issue({ no_default_policy: true }, { token: parent.client_token })).policies).toEqual(["a"]);
  });

  it("adds no default policy if the parent lacks it", async () => {
    const parent = await holderOf(path("auth/token/create", "update"));
    expect((await issue({}, { token: parent.client_token })).policies).not.toContain("default");
    expect((await create({ policies: ["default"] }, parent.client_token)).status).toBe(400);
  });

  it("returns 400 for policies that the parent lacks, unless it has sudo on the path", async () => {
    const plain = await holderOf(path("auth/token/create", "update"));
    const refused = await create({ policies: ["other"] }, plain.client_token);
    expect([refused.status, refused.body.errors]).toEqual([400, ["child policies must be subset of parent"]]);
    const strong = await holderOf(path("auth/token/create", "update", "sudo"));
    expect((await issue({ policies: ["other"] }, { token: strong.client_token })).policies).toEqual([
      "default",
      "other",
    ]);
  });

  it("requires root for a root token, sudo is not enough", async () => {
    const strong = await holderOf(path("auth/token/create", "update", "sudo"));
    const refused = await create({ policies: ["root"] }, strong.client_token);
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["root tokens may not be created without parent token being root"],
    ]);
    expect((await issue({ policies: ["root"] })).policies).toEqual(["root"]);
  });

  itRows([
    [{ id: "my-token" }, "specify token id"],
    [{ no_parent: true }, "create orphan token"],
    [{ period: "1h" }, "create periodic token"],
  ] as const)("requires sudo for %j", async (wish, what) => {
    const plain = await holderOf(path("auth/token/create", "update"));
    const { status, body } = await create(wish, plain.client_token);
    expect([status, body.errors]).toEqual([400, [`root or sudo privileges required to ${what}`]]);
    const strong = await holderOf(path("auth/token/create", "update", "sudo"));
    expect((await create(wish, strong.client_token)).status).toBe(200);
  });

  it("requires only the capability on create-orphan for an orphan", async () => {
    const plain = await holderOf(path("auth/token/create-orphan", "update"));
    const answer = await send("POST", "/v1/auth/token/create-orphan", {}, { token: plain.client_token });
    expect([answer.status, answer.body.auth.orphan]).toEqual([200, true]);
    expect((await create({}, plain.client_token)).status).toBe(403);
  });

  it("requires update: create alone is not enough", async () => {
    const holder = await holderOf(path("auth/token/*", "create"));
    expect((await create({}, holder.client_token)).status).toBe(403);
  });

  it("accepts a chosen id once, and none in the format of a generated one", async () => {
    expect((await issue({ id: "testtoken" })).client_token).toBe("testtoken");
    expect((await get("/v1/auth/token/lookup-self", { token: "testtoken" })).status).toBe(200);
    for (const id of ["testtoken", "root", "a.b", "hvs.mine", "a b"]) {
      expect((await create({ id })).status, id).toBe(400);
    }
  });

  itRows([
    [{ ttl: "1h" }, 3600, null],
    [{ ttl: "60" }, 60, null],
    [{ ttl: 90 }, 90, null],
    [{ lease: "2h" }, 7200, null],
    [{}, MAX, null],
    [{ ttl: "2h", explicit_max_ttl: "1h" }, 3600, [capped("2h0m0s", "1h0m0s")]],
    [{ explicit_max_ttl: "1h" }, 3600, null],
    [{ ttl: "9000h" }, MAX, [capped("9000h0m0s", "768h0m0s")]],
    [
      { period: "9000h" },
      MAX,
      ['period of "9000h0m0s" exceeded the effective max_ttl of "768h0m0s"; period value is capped accordingly'],
    ],
    [{ period: "1h", ttl: "5h" }, 3600, null],
  ])("gives %j a TTL of %i seconds", async (wish, seconds, warnings) => {
    const answer = await create({ policies: ["default"], ...wish });
    expect([answer.body.auth.lease_duration, answer.body.warnings]).toEqual([seconds, warnings]);
  });

  it("gives a root token no expiry, unless it has a TTL", async () => {
    const forever = await issue({ policies: ["root"] });
    expect([forever.lease_duration, forever.renewable]).toEqual([0, false]);
    expect((await issue({ policies: ["root"], ttl: "1h" })).lease_duration).toBe(3600);
    expect((await issue({ policies: ["root"], explicit_max_ttl: "1h" })).lease_duration).toBe(3600);
  });

  it("makes no root token without an expiry by a root token with one", async () => {
    const { client_token: ending } = await issue({ policies: ["root"], ttl: "1h" });
    const root = { policies: ["root"] };
    const orphan = await send("POST", "/v1/auth/token/create-orphan", root, { token: ending });
    for (const { status, body } of [orphan, await create(root, ending), await create({ no_parent: true }, ending)])
      expect([status, body.errors]).toEqual([400, ["expiring root tokens cannot create non-expiring root tokens"]]);
    expect((await create({ ...root, ttl: "2h" }, ending)).status).toBe(200);
  });

  itRows([
    ["terraform", "token-terraform"],
    ["a b/c", "token-a-b-c"],
    ["", "token"],
  ])("turns the display name %j into %j", async (display_name, shown) => {
    const { accessor } = await issue({ display_name });
    expect((await send("POST", "/v1/auth/token/lookup-accessor", { accessor })).body.data.display_name).toBe(shown);
  });

  itRows([
    [{ type: "bath" }, "type"],
    [{ ttl: "soon" }, "ttl"],
    [{ ttl: -5 }, "ttl"],
    [{ num_uses: -1 }, "num_uses"],
    [{ num_uses: "many" }, "num_uses"],
    [{ meta: 5 }, "meta"],
    [{ meta: { a: { deep: 5 } } }, "meta"],
    [{ policies: [5] }, "policies"],
    [{ policies: [`${"x".repeat(129)}`] }, "policies"],
    [{ entity_alias: "me" }, "entity_alias"],
    [{ renewable: "perhaps" }, "renewable"],
  ])("returns 400 with the field for %j", async (body, field) => {
    const answer = await create(body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors.join()).toContain(field);
  });

  it("accepts every value as text", async () => {
    const answer = await create({ policies: "b, a", meta: "k=v,k2=v2", renewable: "false", num_uses: "3", ttl: "60" });
    expect(answer.body.auth).toMatchObject({
      policies: ["a", "b", "default"],
      metadata: { k: "v", k2: "v2" },
      renewable: false,
      num_uses: 3,
      lease_duration: 60,
    });
  });

  it("returns 403 for parameters that the caller's policy denies", async () => {
    const rules = 'path "auth/token/create" { capabilities = ["update"] denied_parameters = { "num_uses" = ["5"] } }';
    const holder = await holderOf(rules);
    expect((await create({ num_uses: 5 }, holder.client_token)).status).toBe(403);
    expect((await create({ num_uses: 4 }, holder.client_token)).status).toBe(200);
  });

  it("treats PUT like POST, with and without the version prefix", async () => {
    expect((await put("/v1/auth/token/create", {})).status).toBe(200);
    expect((await put("/auth/token/create", {})).status).toBe(200);
  });
});

itRows([
  [{ policies: Array.from({ length: 257 }, (_, each) => `p${each}`) }, "policies: at most 256 policies"],
  [{ meta: { note: "x".repeat(16 * 1024) } }, "meta: at most 16384 characters in all"],
])("returns 400 with the limit for a token above the row limit", async (body, message) => {
  const refused = await put("/v1/auth/token/create", body);
  expect([refused.status, refused.body.errors]).toEqual([400, [message]]);
});

it("warns about unknown fields, because the token may have more rights than intended", async () => {
  const created = await put("/v1/auth/token/create", { polices: ["app"], ttl: "1h" });
  expect(created.body.warnings).toEqual([
    "Endpoint ignored these unrecognized parameters: [polices]",
    "polices: did you mean policies?",
  ]);
  expect((await put("/v1/auth/token/create", { policies: ["default"] })).body.warnings).toBeNull();
});
