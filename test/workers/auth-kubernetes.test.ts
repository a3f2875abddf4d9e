import { exportSPKI } from "jose";
import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, list, put } from "./client.ts";
import { type Cluster, newCluster, newIssuer, podClaims } from "./issuers.ts";

const NOBODY = { token: null };
/** A token of an OpenShift user. */
const REVIEWER = "sha256~reviewer-of-tokens";
const ROLE = {
  bound_service_account_names: "app",
  bound_service_account_namespaces: "prod",
  audience: "sallyport",
  token_policies: "reader",
};

let cluster: Cluster;

const configure = (body: object) => put("/v1/auth/kubernetes/config", body);
const putRole = async (role: object) => {
  const { status, text } = await put("/v1/auth/kubernetes/role/app", { ...ROLE, ...role });
  expect(status, text).toBeLessThan(300);
};
const login = (jwt: string, role = "app", options: Parameters<typeof put>[2] = NOBODY) =>
  put("/v1/auth/kubernetes/login", { role, jwt }, options);
const refusal = async (jwt: string, role = "app") => {
  const { status, body } = await login(jwt, role);
  return [status, body.errors?.[0]];
};
const byKeys = async () => ({
  kubernetes_host: "https://10.0.0.1:6443",
  pem_keys: [await exportSPKI(cluster.publicKey)],
});

beforeEach(async () => {
  cluster = await newCluster("cluster", [REVIEWER]);
  expect((await put("/v1/sys/auth/kubernetes", { type: "kubernetes" })).status).toBe(204);
  expect((await configure({ kubernetes_host: cluster.url, token_reviewer_jwt: ` ${REVIEWER}\n` })).status).toBe(204);
  await putRole({});
});

describe("a login of a service account", () => {
  it("returns a token with the role's policies, metadata and an entity", async () => {
    await putRole({ alias_metadata: { team: "ops" } });
    const { status, body } = await login(await cluster.sign(podClaims()), "App");
    expect([status, body.errors]).toEqual([200, undefined]);
    const account = {
      service_account_uid: "0b1f7c3e-uid",
      service_account_name: "app",
      service_account_namespace: "prod",
      service_account_secret_name: "",
    };
    expect(body.auth).toMatchObject({ policies: ["default", "reader"], metadata: { ...account, role: "app" } });
    const { data } = (await get("/v1/auth/token/lookup-self", { token: body.auth.client_token })).body;
    expect(data).toMatchObject({ display_name: "kubernetes-prod-app", path: "auth/kubernetes/login" });
    const entity = (await get(`/v1/identity/entity/id/${body.auth.entity_id}`)).body.data;
    const custom = { custom_metadata: { team: "ops" } };
    expect(entity.aliases[0]).toMatchObject({ name: "0b1f7c3e-uid", metadata: account, ...custom });
  });

  it("uses namespace and name as its alias, if the role specifies that", async () => {
    await putRole({ alias_name_source: "serviceaccount_name" });
    const { auth } = (await login(await cluster.sign(podClaims()))).body;
    const { data } = (await get(`/v1/identity/entity/id/${auth.entity_id}`)).body;
    expect(data.aliases[0].name).toBe("prod/app");
  });

  it("is reviewed with its own token when there is no reviewer", async () => {
    await configure({ kubernetes_host: cluster.url });
    const jwt = await cluster.sign(podClaims());
    expect(await refusal(jwt)).toEqual([403, expect.stringContaining("status 401")]);
    await cluster.change({ reviewers: [jwt] });
    expect((await login(jwt)).status).toBe(200);
  });

  it("is reviewed without the white space of the file that held its token", async () => {
    await configure({ kubernetes_host: cluster.url });
    const jwt = await cluster.sign(podClaims());
    await cluster.change({ reviewers: [jwt] });
    expect((await login(` ${jwt}\n`)).status).toBe(200);
  });

  it("is verified by the cluster's keys alone, also with a private API", async () => {
    expect((await configure(await byKeys())).status).toBe(204);
    expect((await login(await cluster.sign(podClaims()))).status).toBe(200);
    const old = {
      "kubernetes.io/serviceaccount/service-account.uid": "u",
      "kubernetes.io/serviceaccount/service-account.name": "app",
      "kubernetes.io/serviceaccount/namespace": "prod",
      "kubernetes.io/serviceaccount/secret.name": "app-token",
    };
    await putRole({ audience: "" });
    expect((await login(await cluster.sign(old))).body.auth.metadata).toMatchObject({
      service_account_secret_name: "app-token",
    });
    const unlimited = await cluster.sign({ ...old, exp: undefined as unknown as number });
    expect(await refusal(unlimited)).toEqual([403, "permission denied: the token has no exp claim"]);
  });

  it("is verified by keys and reviewed when both are configured", async () => {
    await configure({ ...(await byKeys()), kubernetes_host: cluster.url, token_reviewer_jwt: REVIEWER });
    const jwt = await cluster.sign(podClaims());
    expect((await login(jwt)).status).toBe(200);
    await cluster.change({ deleted: ["0b1f7c3e-uid"] });
    expect(await refusal(jwt)).toEqual([403, expect.stringContaining("service account jwt not valid")]);
  });

  it("checks the issuer if configured", async () => {
    await configure({ ...(await byKeys()), issuer: cluster.url, disable_iss_validation: false });
    expect((await login(await cluster.sign(podClaims()))).status).toBe(200);
    await configure({ ...(await byKeys()), disable_iss_validation: false });
    expect(await refusal(await cluster.sign(podClaims()))).toEqual([403, expect.stringContaining("(iss)")]);
    const reviewed = { kubernetes_host: cluster.url, token_reviewer_jwt: REVIEWER, disable_iss_validation: false };
    await configure({ ...reviewed, issuer: "x" });
    expect(await refusal(await cluster.sign(podClaims()))).toEqual([403, expect.stringContaining("(iss)")]);
  });
});

describe("a login that is refused", () => {
  it.each<[string, object, Record<string, unknown>, RegExp]>([
    ["another name", {}, podClaims("other"), /^service account name not authorized$/],
    ["another namespace", {}, podClaims("app", "dev"), /^namespace not authorized$/],
    ["a wrong audience", { audience: "x" }, podClaims(), /invalid audience/],
    ["no uid", {}, podClaims("app", "prod", ""), /could not parse UID/],
    ["no service account", {}, { sub: "x", aud: "sallyport" }, /could not parse UID/],
  ])("has %s, and causes no request to the cluster", async (_name, role, claims, message) => {
    await putRole(role);
    expect(await refusal(await cluster.sign(claims))).toEqual([403, expect.stringMatching(message)]);
    expect((await cluster.requests("/apis/authentication.k8s.io/v1/tokenreviews")).count).toBe(0);
  });

  it("belongs to another cluster or a deleted account, or has expired", async () => {
    const other = await newIssuer("other-cluster");
    const invalid = [403, "permission denied: lookup failed: service account jwt not valid"];
    expect(await refusal(await other.sign(podClaims()))).toEqual(invalid);
    expect(await refusal(await cluster.sign({ ...podClaims(), exp: 1_000 }))).toEqual(invalid);
    const jwt = await cluster.sign(podClaims());
    await cluster.change({ deleted: ["0b1f7c3e-uid"] });
    expect(await refusal(jwt)).toEqual(invalid);
    await configure(await byKeys());
    expect(await refusal(await other.sign(podClaims()))).toEqual([403, expect.stringContaining("signature")]);
  });

  itRows<[string, object, RegExp]>([
    ["another account", { user: { username: "system:serviceaccount:prod:other", uid: "0b1f7c3e-uid" } }, /another/],
    ["another uid", { user: { username: "system:serviceaccount:prod:app", uid: "x" } }, /another/],
    ["no audience", { audiences: [] }, /audience not confirmed/],
    ["not authenticated", { authenticated: false }, /not valid/],
  ])("is reviewed as %s", async (_name, status, message) => {
    await cluster.change({ status });
    expect(await refusal(await cluster.sign(podClaims()))).toEqual([403, expect.stringMatching(message)]);
  });

  it("lacks a role, a token or a signature, or comes from another network", async () => {
    expect(await refusal("x.y.z", "none")).toEqual([400, 'invalid role name "none"']);
    expect(await refusal("x.y.z", "")).toEqual([400, "missing role"]);
    expect(await refusal("")).toEqual([400, "missing jwt"]);
    expect((await refusal("x.y.z"))[0]).toBe(403);
    const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    await configure(await byKeys());
    expect((await refusal(`${base64({ alg: "none" })}.${base64(podClaims())}.`))[0]).toBe(403);
    await putRole({ token_bound_cidrs: "10.0.0.0/8" });
    const from = { ...NOBODY, headers: { "CF-Connecting-IP": "192.0.2.1" } };
    expect((await login(await cluster.sign(podClaims()), "app", from)).status).toBe(403);
    await put("/v1/sys/auth/bare", { type: "kubernetes" });
    await put("/v1/auth/bare/role/app", ROLE);
    const bare = await put("/v1/auth/bare/login", { role: "app", jwt: "x.y.z" }, NOBODY);
    expect([bare.status, bare.body.errors]).toEqual([400, ["could not load backend configuration"]]);
  });
});

describe("the configuration of a cluster", () => {
  it("is read back without the reviewer's token", async () => {
    const fields = { issuer: "i", disable_iss_validation: false, disable_local_ca_jwt: true };
    const { pem_keys } = await byKeys();
    const unused = { kubernetes_ca_cert: "", use_annotations_as_alias_metadata: false };
    const host = { kubernetes_host: cluster.url, token_reviewer_jwt: REVIEWER };
    expect((await configure({ ...host, ...fields, pem_keys, ...unused })).status).toBe(204);
    const { body, text } = await get("/v1/auth/kubernetes/config");
    expect(body.data).toEqual({
      kubernetes_host: cluster.url,
      ...fields,
      pem_keys,
      ...unused,
      token_reviewer_jwt_set: true,
    });
    expect(text).not.toContain(REVIEWER);
  });

  itRows<[object, RegExp]>([
    [{ kubernetes_host: "" }, /kubernetes_host/],
    [{ kubernetes_host: "https://10.0.0.1" }, /kubernetes_host: must not be a private address.*pem_keys/],
    [{ kubernetes_host: "http://api.example" }, /kubernetes_host: must begin with https/],
    [{ kubernetes_ca_cert: "-----BEGIN CERTIFICATE-----" }, /kubernetes_ca_cert: must be empty.*pem_keys/],
    [{ token_reviewer_jwt: "two words" }, /token_reviewer_jwt: must hold printable ASCII/],
    [{ token_reviewer_jwt: "pass\u00e9" }, /token_reviewer_jwt: must hold printable ASCII/],
    [{ pem_keys: "x" }, /pem_keys/],
    [{ use_annotations_as_alias_metadata: true }, /use_annotations_as_alias_metadata/],
  ])("refuses %j, and keeps the previous configuration", async (settings, message) => {
    const { status, body } = await configure({ kubernetes_host: "api.example:6443", ...settings });
    expect([status, body.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await get("/v1/auth/kubernetes/config")).body.data.kubernetes_host).toBe(cluster.url);
  });
});

describe("a role of service accounts", () => {
  it("stores every field, and keeps those that an update does not name", async () => {
    const fields = {
      bound_service_account_names: ["a-*"],
      bound_service_account_namespaces: ["*"],
      audience: "x",
      bound_service_account_namespace_selector: "",
      alias_name_source: "serviceaccount_name",
      token_ttl: 60,
      token_max_ttl: 120,
      token_explicit_max_ttl: 600,
      token_period: 30,
      token_num_uses: 3,
      token_policies: ["a"],
      token_bound_cidrs: ["10.0.0.0/8"],
      token_no_default_policy: true,
      token_type: "service",
      alias_metadata: { team: "ops" },
    };
    expect((await put("/v1/auth/kubernetes/role/All", fields)).status).toBe(204);
    expect((await get("/v1/auth/kubernetes/role/all")).body.data).toEqual(fields);
    const older = { ttl: 61, max_ttl: 121, period: 31, policies: "b", bound_cidrs: "10.0.0.1", num_uses: 4 };
    const updated = await put("/v1/auth/kubernetes/role/all", { ...older, audience: "" });
    expect([updated.status, updated.body.warnings]).toEqual([200, [expect.stringContaining("audience")]]);
    expect((await get("/v1/auth/kubernetes/role/all")).body.data).toEqual({
      ...fields,
      audience: "",
      token_ttl: 61,
      token_max_ttl: 121,
      token_period: 31,
      token_policies: ["b"],
      token_bound_cidrs: ["10.0.0.1"],
      token_num_uses: 4,
      ...older,
      policies: ["b"],
      bound_cidrs: ["10.0.0.1"],
    });
    expect((await list("/v1/auth/kubernetes/role")).body.data.keys).toEqual(["all", "app"]);
    expect((await del("/v1/auth/kubernetes/role/all")).status).toBe(204);
    expect((await get("/v1/auth/kubernetes/role/all")).status).toBe(404);
  });

  itRows<[object, RegExp]>([
    [{ bound_service_account_names: [] }, /"bound_service_account_names" can not be empty/],
    [{ bound_service_account_namespaces: [] }, /"bound_service_account_namespaces" can not be empty/],
    [{ bound_service_account_names: ["*", "a"] }, /can not mix/],
    [{ bound_service_account_namespace_selector: '{"matchLabels":{}}' }, /bound_service_account_namespace_selector/],
    [{ alias_name_source: "x" }, /alias_name_source/],
    [{ token_policies: "root" }, /root/],
  ])("is refused with %j and not stored", async (role, message) => {
    const refused = await put("/v1/auth/kubernetes/role/new", { ...ROLE, ...role });
    expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringMatching(message)]);
    expect((await list("/v1/auth/kubernetes/role")).body.data.keys).toEqual(["app"]);
  });
});
