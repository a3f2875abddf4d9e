import { beforeAll, describe, expect, inject, it } from "vitest";
import { LocalIssuer, POD_CLAIMS } from "./local-issuer.ts";

/*
 * The requests of the GitHub action hashicorp/vault-action, whose compiled code no package registry has: a login by each
 * of its methods with the body that it sends, its reads with their selectors, and the revocation of its last step.
 */

const { address, token: root } = inject("service");
const READER = 'path "action/*" { capabilities = ["read"] } path "action-v1/*" { capabilities = ["read"] }';
const HEADERS = { "X-Vault-Namespace": "", "User-Agent": "got (https://github.com/sindresorhus/got)" };

const actions = new LocalIssuer("vault-action");
const cluster = new LocalIssuer("kubernetes/serviceaccount");

async function call(method: string, path: string, token: string | null, body?: object) {
  const headers = { ...HEADERS, ...(token !== null && { "X-Vault-Token": token }), "Content-Type": "application/json" };
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
  const answer = await fetch(`${address}/v1/${path}`, init);
  const text = await answer.text();
  return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
}

async function admin(path: string, body: object): Promise<Record<string, string>> {
  const { status, body: answer } = await call("POST", path, root, body);
  expect([200, 204], path).toContain(status);
  return answer?.data ?? {};
}

/** The action's `method`, and the login that it sends for it. */
const LOGINS: Readonly<Record<string, () => Promise<{ path: string; body: object }>>> = {
  approle: async () => {
    const { secret_id } = await admin("auth/action-approle/role/web/secret-id", {});
    return { path: "action-approle/login", body: { role_id: "action-web", secret_id } };
  },
  // Without `role`, as the action sends when its input is absent: the method's default role.
  jwt: async () => {
    const claims = { event: "push", workflow: "ci", repository: "acme/shop", ref: "refs/heads/main" };
    return { path: "action-jwt/login", body: { jwt: await actions.sign(claims), role: "" } };
  },
  "jwt with a role and an audience": async () => {
    const claims = { aud: "https://vault.example", sub: "repo:acme/shop:ref:refs/heads/main" };
    return { path: "action-jwt/login", body: { jwt: await actions.sign(claims), role: "shop" } };
  },
  kubernetes: async () => ({
    path: "action-kubernetes/login",
    body: { jwt: await cluster.sign(POD_CLAIMS), role: "app" },
  }),
  userpass: async () => ({ path: "action-userpass/login/ann", body: { password: "p" } }),
};

beforeAll(async () => {
  await admin("sys/policies/acl/action-reader", { policy: READER });
  await admin("sys/mounts/action", { type: "kv", options: { version: "2" } });
  await admin("sys/mounts/action-v1", { type: "kv", options: { version: "1" } });
  await admin("action/data/test", {
    data: { secret: "SUPERSECRET", "otherSecret-with-dash": "OTHER", json: { a: 1 } },
  });
  await admin("action-v1/test", { secret: "CUSTOMSECRET" });
  const policies = { token_policies: "action-reader" };
  for (const type of ["approle", "jwt", "kubernetes", "userpass"]) await admin(`sys/auth/action-${type}`, { type });
  await admin("auth/action-approle/role/web", policies);
  await admin("auth/action-approle/role/web/role-id", { role_id: "action-web" });
  const keys = { jwt_validation_pubkeys: await actions.publicKey(), default_role: "default" };
  await admin("auth/action-jwt/config", keys);
  const role = {
    role_type: "jwt",
    user_claim: "iss",
    bound_claims: { iss: "vault-action" },
    policies: "action-reader",
  };
  await admin("auth/action-jwt/role/default", role);
  const shop = { role_type: "jwt", user_claim: "sub", bound_audiences: ["https://vault.example"], ...policies };
  await admin("auth/action-jwt/role/shop", { ...shop, bound_subject: "repo:acme/shop:ref:refs/heads/main" });
  const pemKeys = { kubernetes_host: "https://cluster.example", pem_keys: await cluster.publicKey() };
  await admin("auth/action-kubernetes/config", pemKeys);
  const pods = { bound_service_account_names: "app", bound_service_account_namespaces: "prod", audience: "sallyport" };
  await admin("auth/action-kubernetes/role/app", { ...pods, ...policies });
  await admin("auth/action-userpass/users/ann", { password: "p", ...policies });
});

describe.each(Object.entries(LOGINS))("the requests of vault-action with %s", (_method, login) => {
  it("log in, read the secrets of the role, and revoke the token", async () => {
    const { path, body } = await login();
    const { status, body: answer } = await call("POST", `auth/${path}`, null, body);
    expect([status, answer.errors]).toEqual([200, undefined]);
    const token = answer.auth.client_token;
    expect(answer.auth.policies).toEqual(["action-reader", "default"]);
    const secret = (await call("GET", "action/data/test", token)).body;
    // The action reads `data.data` when there is one.
    expect(secret.data.data).toEqual({ secret: "SUPERSECRET", "otherSecret-with-dash": "OTHER", json: { a: 1 } });
    expect((await call("GET", "action-v1/test", token)).body.data).toEqual({ secret: "CUSTOMSECRET" });
    // It tells a missing secret by the status, and prints the body.
    expect(await call("GET", "action/data/none", token)).toMatchObject({ status: 404, body: { errors: [] } });
    expect((await call("GET", "sys/mounts", token)).status).toBe(403);
    expect((await call("POST", "auth/token/revoke-self", token, {})).status).toBe(204);
    expect((await call("GET", "action/data/test", token)).status).toBe(403);
  });
});

it("the requests of vault-action with a token read every secret of a path", async () => {
  const { body } = await call("POST", "auth/token/create", root, { policies: ["action-reader"] });
  const { status, body: secret } = await call("GET", "action/data/test", body.auth.client_token);
  expect([status, Object.keys(secret.data.data).sort()]).toEqual([200, ["json", "otherSecret-with-dash", "secret"]]);
});

it("the requests of vault-action in a namespace log in there", async () => {
  const inside = async (method: string, path: string, token: string | null, body?: object) => {
    const headers = { "X-Vault-Namespace": "action-team", ...(token !== null && { "X-Vault-Token": token }) };
    const answer = await fetch(`${address}/v1/${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : JSON.parse(text) };
  };
  await admin("sys/namespaces/action-team", {});
  await inside("POST", "sys/mounts/secret", root, { type: "kv-v2" });
  await inside("POST", "secret/data/test", root, { data: { secret: "IN_NAMESPACE" } });
  await inside("POST", "sys/policies/acl/reader", root, { policy: 'path "secret/*" { capabilities = ["read"] }' });
  await inside("POST", "sys/auth/userpass", root, { type: "userpass" });
  await inside("POST", "auth/userpass/users/ann", root, { password: "p", token_policies: "reader" });
  const login = await inside("POST", "auth/userpass/login/ann", null, { password: "p" });
  expect([login.status, login.body.errors]).toEqual([200, undefined]);
  const read = await inside("GET", "secret/data/test", login.body.auth.client_token);
  expect(read.body.data.data).toEqual({ secret: "IN_NAMESPACE" });
});

it("a login of a method that the service does not have answers 403", async () => {
  const { status, body } = await call("POST", "auth/github/login", null, { token: "ghp_none" });
  expect([status, body.errors[0]]).toEqual([403, "permission denied"]);
});
