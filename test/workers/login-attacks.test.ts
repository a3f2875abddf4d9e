import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DEFAULT_TOKEN_SETTINGS } from "../../src/auth/token-settings.ts";
import { accessObject, holderOf, path, policies } from "./access.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { holdAnswer } from "./held-call.ts";
import { CLIENT, newIssuer, newProvider } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const REDIRECT = "http://localhost:8250/oidc/callback";
const signIn = (password: string, name = "ann") => put(`/v1/auth/userpass/login/${name}`, { password }, NOBODY);

afterEach(() => {
  vi.useRealTimers();
});

/** Sets the clock forward and stops it. */
const later = (minutes: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + minutes * 60_000 });

beforeEach(async () => {
  expect((await put("/v1/sys/auth/userpass", { type: "userpass" })).status).toBe(204);
  expect((await put("/v1/auth/userpass/users/ann", { password: "right" })).status).toBe(204);
});

describe("concurrent password guesses", () => {
  it("are verified up to the threshold of the lockout", async () => {
    const guesses = await Promise.all(Array.from({ length: 30 }, (_, i) => signIn(`wrong-${i}`)));
    const answers = guesses.map(({ status, body }) => [status, body.errors]);
    expect(answers.filter(([status]) => status === 400)).toEqual(
      Array.from({ length: 5 }, () => [400, ["invalid username or password"]]),
    );
    expect(answers.filter(([status]) => status !== 400)).toEqual(
      Array.from({ length: 25 }, () => [403, ["permission denied"]]),
    );
  });

  it("return the same error for the right password, when the name was locked meanwhile", async () => {
    const { uuid: mount } = (await get("/v1/sys/auth/userpass")).body.data;
    const entry = { mount, kind: "user", name: "ann" };
    const attempt = await accessObject().authAttempt(entry, "ann");
    for (let i = 0; i < 5; i += 1) expect(await accessObject().authFailed(mount, "ann", true)).toBe(false);
    expect(await accessObject().authFailed(mount, "ann", true)).toBe(true);
    const login = {
      entry,
      alias: { name: "ann", metadata: {} },
      groups: [],
      displayName: "ann",
      metadata: {},
      settings: DEFAULT_TOKEN_SETTINGS,
      address: null,
      path: "auth/userpass/login/ann",
      seen: [{ kind: "user", name: "ann", text: attempt.ok ? (attempt.value ?? "") : "" }],
    };
    expect(await accessObject().login(login)).toEqual({ ok: false, reason: "denied", message: "permission denied" });
    later(16);
    expect((await accessObject().login(login)).ok).toBe(true);
  });

  it("do not lock out logins with the right password", async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => signIn("right")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("are not counted for names that no user can have", async () => {
    const name = encodeURIComponent(`${"x".repeat(2_000)} y`);
    for (let i = 0; i < 6; i += 1) expect((await signIn("wrong", name)).status).toBe(400);
    expect((await get("/v1/sys/locked-users")).body.data.total).toBe(0);
  });
});

describe("a concurrent change of a user", () => {
  it("does not restore a deleted user", async () => {
    for (const [way, body] of [
      ["/password", { password: "new" }],
      ["", { password: "new", token_policies: "reader" }],
    ] as const) {
      await put("/v1/auth/userpass/users/ann", { password: "right" });
      const changing = put(`/v1/auth/userpass/users/ann${way}`, body);
      expect((await del("/v1/auth/userpass/users/ann")).status).toBe(204);
      const changed = await changing;
      // A change of the whole user creates it, when it comes after the deletion.
      if (way === "") continue;
      expect([204, 404]).toContain(changed.status);
      expect((await get("/v1/auth/userpass/users/ann")).status, way).toBe(404);
    }
  });

  it("is kept next to a change of the password", async () => {
    await put("/v1/auth/userpass/users/ann", { token_policies: "admin" });
    const changing = put("/v1/auth/userpass/users/ann/password", { password: "new" });
    expect((await put("/v1/auth/userpass/users/ann/policies", { token_policies: "reader" })).status).toBe(204);
    expect((await changing).status).toBe(204);
    expect((await get("/v1/auth/userpass/users/ann")).body.data.token_policies).toEqual(["reader"]);
    expect((await signIn("new")).status).toBe(200);
  });

  it("is kept next to other changes of a role", async () => {
    await put("/v1/sys/auth/jwt", { type: "jwt" });
    const role = { role_type: "jwt", user_claim: "sub", bound_subject: "x" };
    await put("/v1/auth/jwt/role/ci", role);
    const changes = [{ token_ttl: 60 }, { token_policies: "a" }, { groups_claim: "g" }, { bound_audiences: "b" }];
    const made = await Promise.all(
      changes.map((change) => put("/v1/auth/jwt/role/ci", { role_type: "jwt", ...change })),
    );
    expect(made.map(({ status }) => status)).toEqual([204, 204, 204, 204]);
    expect((await get("/v1/auth/jwt/role/ci")).body.data).toMatchObject({
      token_ttl: 60,
      token_policies: ["a"],
      groups_claim: "g",
      bound_audiences: ["b"],
      bound_subject: "x",
    });
  });
});

describe("a login during which", () => {
  it.each([
    ["its role gets other policies", () => put("/v1/auth/oidc/role/people", { token_policies: "none" })],
    ["the configuration is replaced", () => configure("other")],
    [
      "its role is deleted and created again",
      async () => {
        await del("/v1/auth/oidc/role/people");
        return put("/v1/auth/oidc/role/people", { ...ROLE, token_policies: "none" });
      },
    ],
  ])("%s gets no token", async (_what, change) => {
    provider = await newProvider("oidc-races", [REDIRECT]);
    await put("/v1/sys/auth/oidc", { type: "oidc" });
    expect((await configure(CLIENT.oidc_client_id)).status).toBe(204);
    expect((await put("/v1/auth/oidc/role/people", ROLE)).status).toBe(204);
    const begun = await put("/v1/auth/oidc/oidc/auth_url", { role: "people", redirect_uri: REDIRECT }, NOBODY);
    const returned = await provider.visit(begun.body.data.auth_url);
    const { isHeld, release } = holdAnswer(([to]) => String(to instanceof Request ? to.url : to).endsWith("/token"));
    const completing = get(`/v1/auth/oidc/oidc/callback?${new URLSearchParams(returned)}`, NOBODY);
    await vi.waitUntil(isHeld);
    expect((await change()).status).toBe(204);
    release();
    const { status, body } = await completing;
    expect([status, body.errors]).toEqual([403, ["permission denied"]]);
  });

  const ROLE = { user_claim: "sub", allowed_redirect_uris: [REDIRECT], token_policies: "reader" };
  let provider: Awaited<ReturnType<typeof newProvider>>;
  const configure = (client: string) =>
    put("/v1/auth/oidc/config", { oidc_discovery_url: provider.url, ...CLIENT, oidc_client_id: client });

  it("the password is changed gets no token for the old one", async () => {
    const logins = Array.from({ length: 8 }, () => signIn("right"));
    await put("/v1/auth/userpass/users/ann/password", { password: "new" });
    const changed = Date.now();
    for (const { status, body } of await Promise.all(logins)) {
      if (status !== 200) continue;
      const { data } = (await get("/v1/auth/token/lookup-self", { token: body.auth.client_token })).body;
      expect(Date.parse(data.issue_time)).toBeLessThanOrEqual(changed);
    }
  });
});

describe("concurrent logins", () => {
  it("share the fetch of the issuer's keys when the cached ones are too old", async () => {
    const issuer = await newIssuer("jwt-herd");
    await put("/v1/sys/auth/jwt", { type: "jwt" });
    await put("/v1/auth/jwt/config", { oidc_discovery_url: issuer.url });
    await put("/v1/auth/jwt/role/ci", { role_type: "jwt", user_claim: "sub", bound_audiences: "a" });
    later(11);
    const jwt = await issuer.sign({ sub: "app", aud: "a" });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => put("/v1/auth/jwt/login", { role: "ci", jwt }, NOBODY)),
    );
    expect(answers.map(({ status, body }) => body.errors?.[0] ?? status)).toEqual(
      Array.from({ length: 12 }, () => 200),
    );
    expect((await issuer.requests("/keys")).count).toBe(2);
  });
});

describe("a policy about a user or role", () => {
  it("holds for its name in any letter case", async () => {
    const names = { userpass: "users/admin", jwt: "role/admin", kubernetes: "role/admin", approle: "role/admin" };
    for (const [type, name] of Object.entries(names)) {
      if (type !== "userpass") await put(`/v1/sys/auth/${type}`, { type });
      const folder = name.split("/", 1)[0];
      const all = ["create", "read", "update", "delete"];
      const rules =
        path(`auth/${type}/${folder}/*`, ...all) +
        path(`auth/${type}/${name}`, "deny") +
        path(`auth/${type}/${name}/*`, "deny");
      const { client_token: token } = await holderOf(rules);
      for (const written of [name, `${folder}/ADMIN`, `${folder}/Admin`, `${folder}/%41dmin`]) {
        for (const below of ["", ...(type === "approle" ? ["/policies", "/secret-id"] : [])]) {
          const { status } = await put(`/v1/auth/${type}/${written}${below}`, {}, { token });
          expect(status, `${type} ${written}${below}`).toBe(403);
        }
        expect((await get(`/v1/auth/${type}/${written}`, { token })).status).toBe(403);
        expect((await del(`/v1/auth/${type}/${written}`, { token })).status).toBe(403);
      }
      expect((await get(`/v1/auth/${type}/${folder}/Other`, { token })).status).toBe(404);
      const asked = { token, paths: [`auth/${type}/${folder}/ADMIN`] };
      const { body } = await put("/v1/sys/capabilities", asked);
      expect(body[`auth/${type}/${folder}/ADMIN`]).toEqual(["deny"]);
    }
  });

  it("allows its name in any letter case", async () => {
    const { client_token: token } = await holderOf(path("auth/userpass/users/Ann/password", "update"));
    for (const name of ["ann", "ANN"]) {
      expect((await put(`/v1/auth/userpass/users/${name}/password`, { password: "new" }, { token })).status).toBe(204);
    }
    expect((await put("/v1/auth/userpass/users/anna/password", { password: "new" }, { token })).status).toBe(403);
  });
});

describe("an external group", () => {
  it("loses its members when the auth method of its alias is disabled", async () => {
    const issuer = await newIssuer("jwt-groups");
    await put("/v1/sys/auth/jwt", { type: "jwt" });
    await put("/v1/auth/jwt/config", { oidc_discovery_url: issuer.url });
    await put("/v1/auth/jwt/role/ci", {
      role_type: "jwt",
      user_claim: "sub",
      bound_audiences: "a",
      groups_claim: "groups",
    });
    const accessorOf = async (mount: string) => (await get(`/v1/sys/auth/${mount}`)).body.data.accessor;
    const group = (await put("/v1/identity/group", { name: "ops", type: "external", policies: "ops" })).body.data.id;
    const alias = { name: "ops", mount_accessor: await accessorOf("jwt"), canonical_id: group };
    expect((await put("/v1/identity/group-alias", alias)).status).toBe(200);
    const entity = (await signIn("right")).body.auth.entity_id;
    await put("/v1/identity/entity-alias", {
      name: "ann",
      mount_accessor: await accessorOf("jwt"),
      canonical_id: entity,
    });
    const jwt = await issuer.sign({ sub: "ann", aud: "a", groups: ["ops"] });
    const joined = (await put("/v1/auth/jwt/login", { role: "ci", jwt }, NOBODY)).body.auth;
    expect([joined.entity_id, joined.identity_policies]).toEqual([entity, ["ops"]]);
    expect((await signIn("right")).body.auth.identity_policies).toEqual(["ops"]);
    expect((await del("/v1/sys/auth/jwt")).status).toBe(204);
    expect((await signIn("right")).body.auth.identity_policies).toBeNull();
    expect((await get(`/v1/identity/group/id/${group}`)).body.data.member_entity_ids).toBeNull();
  });
});

describe("a token that is bound to networks", () => {
  it("works from them right after a refusal elsewhere", async () => {
    await mountKv();
    await policies({ writer: path("kv/data/*", "create", "update") });
    await put("/v1/auth/userpass/users/ann", { token_policies: "writer", token_bound_cidrs: "10.0.0.0/8" });
    const from = (address: string, token: string | null = null) => ({
      token,
      headers: { "CF-Connecting-IP": address },
    });
    const login = await put("/v1/auth/userpass/login/ann", { password: "right" }, from("10.1.2.3"));
    const write = async (address: string) =>
      (await put("/v1/kv/data/app", { data: {} }, from(address, login.body.auth.client_token))).status;
    expect([await write("192.0.2.1"), await write("10.1.2.3"), await write("192.0.2.1")]).toEqual([403, 200, 403]);
  });
});

describe("the lifetime of a login's token", () => {
  const lasting = async (user: object) => {
    expect((await put("/v1/auth/userpass/users/ann", user)).status).toBe(204);
    const { auth, warnings } = (await signIn("right")).body;
    return [auth.lease_duration, warnings];
  };
  const NO_LIMITS = { token_ttl: 0, token_max_ttl: 0, token_period: 0 };
  const capped = (asked: string, most: string) => [
    `TTL of "${asked}" exceeded the effective max_ttl of "${most}"; TTL value is capped accordingly`,
  ];

  it("is bounded by the auth method, for any role", async () => {
    await put("/v1/sys/auth/userpass/tune", { max_lease_ttl: "1h" });
    expect(await lasting({ ...NO_LIMITS, token_ttl: "10h", token_max_ttl: "100h" })).toEqual([
      3600,
      capped("10h0m0s", "1h0m0s"),
    ]);
    const token = (await signIn("right")).body.auth.client_token;
    later(30);
    expect((await put("/v1/auth/token/renew-self", { increment: "10h" }, { token })).body.auth.lease_duration).toBe(
      1800,
    );
    vi.useRealTimers();
    expect(await lasting({ ...NO_LIMITS, token_period: "100h" })).toEqual([3600, capped("100h0m0s", "1h0m0s")]);
    expect(await lasting({ ...NO_LIMITS, token_ttl: "30m" })).toEqual([1800, null]);
  });

  it("is bounded by the system", async () => {
    const most = 768 * 3600;
    expect(await lasting({ ...NO_LIMITS, token_ttl: "1000h", token_max_ttl: "2000h" })).toEqual([
      most,
      capped("1000h0m0s", "768h0m0s"),
    ]);
    expect(await lasting({ ...NO_LIMITS, token_period: "1000h" })).toEqual([most, capped("1000h0m0s", "768h0m0s")]);
  });
});

describe("a token of a child namespace", () => {
  it("does not get that namespace's policies by the names of its entity's policies", async () => {
    await mountKv();
    await put("/v1/sys/namespaces/team", {});
    const team = { "X-Orch-Namespace": "team" };
    await mountKv("kv", { headers: team });
    await put("/v1/kv/data/app", { data: { a: "1" } }, { headers: team });
    await policies({ ops: path("kv/data/*", "read") }, { headers: team });
    await policies({ maker: path("team/auth/token/create", "create", "update", "sudo") });
    await put("/v1/auth/userpass/users/ann", { token_policies: "maker" });
    const { auth } = (await signIn("right")).body;
    expect((await put(`/v1/identity/entity/id/${auth.entity_id}`, { policies: "ops" })).status).toBe(204);
    const made = await put(
      "/v1/auth/token/create",
      { policies: ["default"] },
      { token: auth.client_token, headers: team },
    );
    expect([made.status, made.body.auth.policies, made.body.auth.identity_policies]).toEqual([200, ["default"], null]);
    const token = made.body.auth.client_token;
    expect((await get("/v1/kv/data/app", { token, headers: team })).status).toBe(403);
    expect((await list("/v1/kv/metadata", { token, headers: team })).status).toBe(403);
  });
});
