import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { path, policies } from "./access.ts";
import { del, get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { newIssuer } from "./issuers.ts";

clock.moves = true;

const NOBODY = { token: null };
const USER = "/v1/auth/userpass/users/ann";
const RENEW = "/v1/auth/token/renew-self";
const SELF = "/v1/auth/token/lookup-self";
const inside = (namespace: string) => ({ headers: { "X-Vault-Namespace": namespace } });
const signIn = (name = "ann", password = "right", options: Parameters<typeof put>[2] = {}) =>
  put(`/v1/auth/userpass/login/${name}`, { password }, { ...NOBODY, ...options });
const accessorOf = async (mount: string, options: Parameters<typeof get>[1] = {}): Promise<string> =>
  (await get(`/v1/sys/auth/${mount}`, options)).body.data.accessor;

/** Sets the clock forward and stops it. */
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

beforeEach(async () => {
  await mountKv();
  await put("/v1/kv/data/app", { data: { a: "1" } });
  await policies({ reader: path("kv/data/app", "read"), other: path("kv/data/other", "read") });
  await put("/v1/sys/auth/userpass", { type: "userpass" });
  expect((await put(USER, { password: "right", token_policies: "reader", token_ttl: "1h" })).status).toBe(204);
});

afterEach(() => {
  vi.useRealTimers();
});

describe("an auth method that is disabled and enabled again at the same path", () => {
  it("gives its users other entities, without the policies, groups and metadata of the earlier ones", async () => {
    const before = (await signIn()).body.auth;
    await put(`/v1/identity/entity/id/${before.entity_id}`, { policies: "other", metadata: { team: "ops" } });
    await put("/v1/identity/group", { name: "ops", policies: "other", member_entity_ids: [before.entity_id] });
    expect((await signIn()).body.auth.identity_policies).toEqual(["other"]);
    await del("/v1/sys/auth/userpass");
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put(USER, { password: "right", token_policies: "reader" });
    const after = (await signIn()).body.auth;
    expect(after.entity_id).not.toBe(before.entity_id);
    expect(after.identity_policies).toBeNull();
    expect((await get(SELF, { token: before.client_token })).status).toBe(403);
  });

  it("does not accept the secret ids, states and lockouts of the earlier one", async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    await put("/v1/auth/approle/role/web", { role_id: "web-id" });
    const { secret_id } = (await put("/v1/auth/approle/role/web/secret-id", {})).body.data;
    for (let i = 0; i < 5; i += 1) await signIn("ann", "wrong");
    expect((await signIn()).status).toBe(403);
    for (const type of ["approle", "userpass"]) {
      await del(`/v1/sys/auth/${type}`);
      await put(`/v1/sys/auth/${type}`, { type });
    }
    await put("/v1/auth/approle/role/web", { role_id: "web-id" });
    expect((await put("/v1/auth/approle/login", { role_id: "web-id", secret_id }, NOBODY)).status).toBe(400);
    await put(USER, { password: "right" });
    expect((await signIn()).status).toBe(200);
  });
});

describe("an entity alias", () => {
  it("is not moved to an entity of another namespace, nor made for a mount of another one", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/sys/auth/userpass", { type: "userpass" }, inside("team"));
    const [here, there] = [await accessorOf("userpass"), await accessorOf("userpass", inside("team"))];
    const mine = (await put("/v1/identity/entity", { name: "mine" }, inside("team"))).body.data.id;
    const stolen = { name: "ann", mount_accessor: here, canonical_id: mine };
    expect((await put("/v1/identity/entity-alias", stolen, inside("team"))).status).toBe(400);
    const victim = (await signIn()).body.auth.entity_id;
    const foreign = { name: "ann", mount_accessor: there, canonical_id: victim };
    expect((await put("/v1/identity/entity-alias", foreign, inside("team"))).status).toBe(400);
    expect((await put("/v1/identity/entity-alias", foreign)).status).toBe(400);
    expect((await signIn()).body.auth.entity_id).toBe(victim);
  });

  it("is found by its name in any letter case at its own mount, not by that of another mount", async () => {
    const issuer = await newIssuer("aliases");
    await put("/v1/sys/auth/jwt", { type: "jwt" });
    await put("/v1/auth/jwt/config", { oidc_discovery_url: issuer.url });
    await put("/v1/auth/jwt/role/ci", { role_type: "jwt", user_claim: "sub", bound_audiences: "us" });
    const entity = (await signIn()).body.auth.entity_id;
    const seen = new Set([entity]);
    const names = ["ann", "ann ", "ann\u0000", "a\u0301nn", "\u00e1nn", "ａｎｎ", "ann\u200b", `userpass/ann`];
    const signedIn = async (sub: string) =>
      put("/v1/auth/jwt/login", { role: "ci", jwt: await issuer.sign({ sub, aud: "us" }) }, NOBODY);
    for (const sub of names) {
      const answer = await signedIn(sub);
      if (answer.status !== 200) continue;
      expect(seen, JSON.stringify(sub)).not.toContain(answer.body.auth.entity_id);
      seen.add(answer.body.auth.entity_id);
    }
    expect(seen.size).toBeGreaterThan(5);
    expect(seen).toContain((await signedIn("Ann")).body.auth.entity_id);
  });
});

describe("the lockout of a name", () => {
  it("holds for the name in any letter case and by any way to its namespace", async () => {
    await put("/v1/sys/namespaces/team", {});
    await put("/v1/sys/auth/userpass", { type: "userpass" }, inside("team"));
    await put(USER, { password: "right" }, inside("team"));
    const ways = ["ann", "ANN", "Ann", "aNn"].map((name) => () => signIn(name, "wrong", inside("team")));
    ways.push(() => put("/v1/team/auth/userpass/login/ann", { password: "wrong" }, NOBODY));
    for (const way of ways) expect((await way()).status).toBe(400);
    expect((await signIn("ann", "right", inside("team"))).status).toBe(403);
    expect((await signIn("AnN", "right", inside("team/"))).status).toBe(403);
    expect((await put("/v1/team/auth/userpass/login/ann", { password: "right" }, NOBODY)).status).toBe(403);
    expect((await put("/v1//team//auth/userpass//login/ann", { password: "right" }, NOBODY)).status).not.toBe(200);
    expect((await signIn()).status).toBe(200);
  });

  it("holds for a role id with white space around it", async () => {
    await put("/v1/sys/auth/approle", { type: "approle" });
    await put("/v1/auth/approle/role/web", { role_id: "web-id" });
    const { secret_id } = (await put("/v1/auth/approle/role/web/secret-id", {})).body.data;
    const approle = (role_id: string, secret: string) =>
      put("/v1/auth/approle/login", { role_id, secret_id: secret }, NOBODY);
    for (const role of ["web-id", " web-id", "web-id\n", "\tweb-id", "web-id "]) {
      expect((await approle(role, "wrong")).status).toBe(400);
    }
    expect((await approle("web-id", secret_id)).status).toBe(403);
    expect((await approle(" web-id ", secret_id)).status).toBe(403);
  });
});

describe("names that become equal in lower case", () => {
  it("are one user and one role, also for the rules of a policy", async () => {
    // U+212A, the Kelvin sign, is "k" in lower case; U+0130 is two characters.
    expect((await signIn("kim")).status).toBe(400);
    await put("/v1/auth/userpass/users/kim", { password: "right" });
    expect([200, 400]).toContain((await signIn(encodeURIComponent("\u212aim"))).status);
    const rules =
      path("auth/userpass/users/*", "create", "update", "read", "delete") + path("auth/userpass/users/kim", "deny");
    await policies({ almost: rules });
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["almost"] })).body.auth;
    for (const name of ["kim", "KIM", "\u212aim", "%4bim", "ki%6d", "kim/", "./kim", "x/../kim"]) {
      const at = `/v1/auth/userpass/users/${/[%/]/.test(name) ? name : encodeURIComponent(name)}`;
      const { status } = await put(at, { password: "stolen" }, { token });
      expect([400, 403, 404, 405], name).toContain(status);
    }
    expect((await signIn("kim", "stolen")).status).toBe(400);
  });
});

describe("a token of a login", () => {
  it("is not renewed after its user or role was deleted, and works until its time", async () => {
    const token = (await signIn()).body.auth.client_token;
    await del(USER);
    expect((await get("/v1/kv/data/app", { token })).status).toBe(200);
    expect((await put(RENEW, {}, { token })).status).toBe(400);
    later(3_601);
    expect((await get("/v1/kv/data/app", { token })).status).toBe(403);
  });

  it("is renewed by the limits of its role as they are then, and not under changed policies of its user", async () => {
    await put(USER, { token_policies: "reader", token_period: "1h" });
    const token = (await signIn()).body.auth.client_token;
    const renew = async () => (await put(RENEW, {}, { token })).body;
    expect((await renew()).auth.lease_duration).toBe(3600);
    await put(USER, { token_period: "10m" });
    expect((await renew()).auth.lease_duration).toBe(600);
    await put(USER, { token_period: 0, token_max_ttl: "2m", token_ttl: "1m" });
    expect((await renew()).auth.lease_duration).toBe(60);
    await put(USER, { token_policies: "other" });
    expect((await renew()).errors).toEqual(["policies have changed, not renewing"]);
    await put(USER, { token_policies: ["default", "reader"] });
    expect((await renew()).auth.lease_duration).toBe(60);
    await put("/v1/sys/auth/userpass/tune", { max_lease_ttl: "30s" });
    expect((await renew()).auth.lease_duration).toBeLessThanOrEqual(30);
  });

  it("with limited uses is good for exactly so many requests, also at the same time", async () => {
    await put(USER, { token_num_uses: 5 });
    const token = (await signIn()).body.auth.client_token;
    const answers = await Promise.all(Array.from({ length: 40 }, () => get("/v1/kv/data/app", { token })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    expect((await put(RENEW, {}, { token })).status).toBe(403);
  });

  it("never lives beyond its maximum, however often it is renewed", async () => {
    await put(USER, { token_ttl: "10m", token_max_ttl: "25m" });
    const token = (await signIn()).body.auth.client_token;
    const left: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      later(480);
      const renewed = await put(RENEW, { increment: "99h" }, { token });
      left.push(renewed.body.auth?.lease_duration ?? 0);
    }
    expect(left).toEqual([1020, 540, 60]);
    later(61);
    expect((await put(RENEW, {}, { token })).status).toBe(403);
  });
});
