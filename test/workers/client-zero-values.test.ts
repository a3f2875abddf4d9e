import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, mountKv, put } from "./client.ts";
import { succeeded } from "./engine-helpers.ts";
import { nomad, vault } from "./terraform.ts";

/**
 * Fields that stock clients always send, also without a value: those of the structures without `omitempty` in
 * github.com/hashicorp/vault/api v1.23.0, github.com/openbao/openbao/api v2.7.1 and github.com/hashicorp/nomad/api, as
 * encoding/json prints them.
 */

/** MountConfigInput of `TuneMount`, of Vault and of OpenBao. */
const tuned = { options: null, default_lease_ttl: "", max_lease_ttl: "", force_no_cache: false };
/** TuneMountConfigInput of `TuneMountAllowNil`. */
const tunedOrNil = { options: null, default_lease_ttl: "", max_lease_ttl: "" };
const newMount = { local: false, seal_wrap: false, external_entropy_access: false, options: null };

const limits = { default_lease_ttl: 600, max_lease_ttl: 3600 };
const config = { ...limits, force_no_cache: true };
const lockout = { lockout_threshold: 3, lockout_duration: 60, lockout_counter_reset_duration: 70 };

describe("a tune of the Go client", () => {
  const mounts = [
    ["/v1/sys/mounts/kv", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } }],
    ["/v1/sys/auth/machines", "/v1/sys/auth/machines", { type: "approle" }],
    ["/v1/sys/mounts/auth/machines", "/v1/sys/auth/machines", { type: "approle" }],
  ] as const;

  itRows(mounts.flatMap((mount) => [tuned, tunedOrNil].map((body) => [...mount, body] as const)))(
    "changes the description of %s, and nothing else",
    async (at, made, type, body) => {
      const path = made.replace(/[^/]+$/, crypto.randomUUID());
      const tune = `${at.replace(/[^/]+$/, path.split("/").at(-1) ?? "")}/tune`;
      succeeded(await put(path, { ...type, config }, vault));
      const before = (await get(path, vault)).body.data;
      succeeded(await put(tune, { ...body, description: "new" }, vault));
      expect((await get(path, vault)).body.data).toEqual({ ...before, description: "new" });
    },
  );

  it("sets the system's TTL by its name, and by 0", async () => {
    await mountKv();
    for (const system of ["system", "0", "0s", 0]) {
      succeeded(await put("/v1/sys/mounts/kv/tune", limits, vault));
      succeeded(await put("/v1/sys/mounts/kv/tune", { ...tuned, max_lease_ttl: system, default_lease_ttl: system }));
      const { data } = (await get("/v1/sys/mounts/kv", vault)).body;
      expect(data.config).toMatchObject({ default_lease_ttl: 0, max_lease_ttl: 0 });
    }
  });

  it("removes an option by an empty text, and keeps the version", async () => {
    const at = "/v1/sys/mounts/kv";
    succeeded(await put(at, { type: "kv", options: { version: "2", a: "b", c: "d" } }, vault));
    succeeded(await put(`${at}/tune`, { ...tuned, options: { a: "" } }, vault));
    expect((await get(at, vault)).body.data.options).toEqual({ version: "2", c: "d" });
  });

  it("keeps the numbers of a lockout that it sends empty; 0 and `system` are the default", async () => {
    const at = "/v1/sys/auth/up";
    succeeded(await put(at, { type: "userpass", config: { user_lockout_config: lockout } }, vault));
    const read = async () => (await get(at, vault)).body.data.config.user_lockout_config;
    const empty = { lockout_threshold: "", lockout_duration: "", lockout_counter_reset_duration: "" };
    succeeded(await put(`${at}/tune`, { ...tunedOrNil, user_lockout_config: empty }, vault));
    expect(await read()).toEqual({ ...lockout, lockout_disable: false });
    const system = { lockout_threshold: "0", lockout_duration: "system", lockout_counter_reset_duration: "0" };
    succeeded(await put(`${at}/tune`, { ...tunedOrNil, user_lockout_config: system }, vault));
    const defaults = { lockout_threshold: 5, lockout_duration: 900, lockout_counter_reset_duration: 900 };
    expect(await read()).toEqual({ ...defaults, lockout_disable: false });
  });
});

describe("what the Go clients make with empty fields", () => {
  it("is a mount with the system's TTLs", async () => {
    const body = { type: "kv", description: "", config: tuned, ...newMount };
    succeeded(await put("/v1/sys/mounts/a", body, vault));
    expect((await get("/v1/sys/mounts/a", vault)).body.data).toMatchObject({
      config: { default_lease_ttl: 0, max_lease_ttl: 0 },
      options: null,
    });
    succeeded(await put("/v1/sys/auth/a", { ...body, type: "approle" }, vault));
  });

  it("is a token without limits", async () => {
    const body = { display_name: "", num_uses: 0, type: "", entity_alias: "" };
    const { auth } = succeeded(await put("/v1/auth/token/create", body, vault)).body;
    expect(auth).toMatchObject({ num_uses: 0, token_type: "service", entity_id: "", policies: ["root"] });
  });

  itRows([
    ["a flag", { token_no_default_policy: "" }, { token_no_default_policy: false }],
    ["a number", { token_num_uses: "" }, { token_num_uses: 0 }],
    ["a list", { token_policies: "" }, { token_policies: [] }],
    ["a duration", { token_ttl: "" }, { token_ttl: 0 }],
    ["a type", { token_type: "" }, { token_type: "default" }],
    ["a password", { password: "" }, { token_policies: ["a"] }],
  ])("is, by `vault write`, an empty value: %s", async (_what, body, shown) => {
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    const before = { token_no_default_policy: true, token_num_uses: 5, token_policies: "a", token_ttl: 60 };
    succeeded(await put("/v1/auth/userpass/users/ann", { ...before, token_type: "service", password: "a-password" }));
    succeeded(await put("/v1/auth/userpass/users/ann", body, vault));
    expect((await get("/v1/auth/userpass/users/ann", vault)).body.data).toMatchObject(shown as object);
    const login = await put("/v1/auth/userpass/login/ann", { password: "a-password" }, { token: null });
    expect(login.status, login.text).toBe(200);
  });

  itRows([
    ["an entity", "/v1/identity/entity", { id: "", name: "ann", metadata: null, policies: null, disabled: false }],
    ["a nameless entity", "/v1/identity/entity", { id: "", name: "" }],
    ["a group", "/v1/identity/group", { id: "", name: "g", type: "", member_entity_ids: null, metadata: null }],
  ])("is %s", async (_what, at, body) => {
    const { data } = succeeded(await put(at as string, body, vault)).body;
    const read = await get(`${at}/id/${data.id}`, vault);
    expect(read.body.data.name).toMatch(/^./);
  });

  const time = "0001-01-01T00:00:00Z";
  const indexes = { CreateIndex: 0, ModifyIndex: 0 };
  const times = { CreateTime: time, ModifyTime: time, ...indexes };
  const unset = {
    ExpirationLeeway: "",
    NotBeforeLeeway: "",
    ClockSkewLeeway: "",
    JWTValidationPubKeys: null,
    OIDCDiscoveryURL: "",
    OIDCClientID: "",
    OIDCClientSecret: "",
    OIDCClientAssertion: null,
    OIDCEnablePKCE: false,
    OIDCDisableUserInfo: false,
    OIDCScopes: null,
    BoundAudiences: null,
    BoundIssuer: null,
    AllowedRedirectURIs: null,
    DiscoveryCaPem: null,
    JWKSCACert: "",
    SigningAlgs: null,
    ClaimMappings: null,
    ListClaimMappings: null,
    VerboseLogging: false,
  };
  const text = (name: string) => ({ Name: name, Description: "" });

  it("is each object of Nomad's ACL, a namespace and a node pool, also written twice", async () => {
    const token = { AccessorID: "", SecretID: "", Roles: null, Global: false, CreateTime: time, ...indexes };
    const pem = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
      "sign",
    ])) as CryptoKeyPair;
    const key = Buffer.from((await crypto.subtle.exportKey("spki", pem.publicKey)) as ArrayBuffer).toString("base64");
    const JWTValidationPubKeys = [`-----BEGIN PUBLIC KEY-----\n${key}\n-----END PUBLIC KEY-----`];
    const method = {
      Name: "m",
      Type: "JWT",
      TokenLocality: "local",
      TokenNameFormat: "",
      MaxTokenTTL: 3_600_000_000_000,
      Default: false,
      Config: { ...unset, JWTValidationPubKeys },
      ...times,
    };
    const rule = {
      ID: "",
      Description: "",
      AuthMethod: "m",
      Selector: "",
      BindType: "policy",
      BindName: "p",
      ...times,
    };
    const policies = {
      Quota: "",
      Capabilities: null,
      NodePoolConfiguration: null,
      VaultConfiguration: null,
      Meta: null,
      ConsulConfiguration: null,
      RequiredExtraClaims: null,
      OptionalExtraClaims: null,
    };
    const writes: readonly (readonly [string, object])[] = [
      ["/v1/acl/policy/p", { ...text("p"), Rules: 'node { policy = "read" }', JobACL: null, ...indexes }],
      ["/v1/acl/token", { ...token, Name: "t", Type: "client", Policies: ["p"] }],
      ["/v1/acl/token", { ...token, Name: "", Type: "management", Policies: null }],
      ["/v1/acl/role", { ID: "", ...text("r"), Policies: [{ Name: "p" }], ...indexes }],
      ["/v1/acl/auth-method", method],
      ["/v1/acl/binding-rule", rule],
      ["/v1/namespace/n", { ...text("n"), ...policies, ...indexes }],
      ["/v1/namespace/n", { ...text("n"), ...policies, ...indexes }],
      ["/v1/node/pools", { ...text("np"), Meta: null, NodeIdentityTTL: 0, SchedulerConfiguration: null, ...indexes }],
    ];
    for (const [at, body] of writes) {
      const { status, text: answer } = await put(at, body, nomad);
      expect([at, status, answer]).toEqual([at, 200, expect.anything()]);
    }
  });
});
