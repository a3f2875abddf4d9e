import { createPublicKey } from "node:crypto";
import { expect, it } from "vitest";
import { describeConsole, type Suite } from "./support/console.ts";
import { providerValue } from "./support/providers.ts";

/** Callers and their secrets: each has its own policy, which permits to read that secret only. */
const CALLERS = ["workflow", "service-account", "machine", "person"] as const;
type Caller = (typeof CALLERS)[number];

const secretOf = (caller: Caller): string => `secret/data/four-logins/${caller}`;
const valueIn = (caller: Caller): string => `only for the ${caller}`;
const roleOf = (caller: Caller): object => ({ token_policies: `four-${caller}`, token_ttl: "10m" });

interface Reply {
  readonly status: number;
  readonly body: string;
}

async function request(suite: Suite, method: string, path: string, token: string, body?: object): Promise<Reply> {
  const response = await fetch(`${suite.bench.url}/v1/${path}`, {
    method,
    headers: token === "" ? {} : { "X-Vault-Token": token },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.text() };
}

/** Enables an auth method below `four-…`, replacing that of an earlier run, and writes the secrets and policies. */
async function enable(suite: Suite, type: string): Promise<string> {
  for (const caller of CALLERS) {
    await suite.call("PUT", secretOf(caller), { data: { value: valueIn(caller) } });
    const policy = `path "${secretOf(caller)}" { capabilities = ["read"] }`;
    await suite.call("PUT", `sys/policies/acl/four-${caller}`, { policy });
  }
  await suite.call("DELETE", `sys/auth/four-${type}`);
  await suite.call("POST", `sys/auth/four-${type}`, { type });
  return `auth/four-${type}`;
}

const tokenOf = ({ status, body }: Reply): string => {
  expect(status, body).toBe(200);
  return JSON.parse(body).auth.client_token;
};

/** A token reads the caller's secret; everything else that it could want is refused. */
async function expectReadsOnly(suite: Suite, caller: Caller, token: string): Promise<void> {
  const own = await request(suite, "GET", secretOf(caller), token);
  expect([own.status, JSON.parse(own.body).data?.data]).toEqual([200, { value: valueIn(caller) }]);
  const foreign = CALLERS.filter((other) => other !== caller).map((other) => ["GET", secretOf(other)]);
  const refused = [
    ...foreign,
    ["PUT", secretOf(caller)],
    ["DELETE", secretOf(caller)],
    ["GET", "secret/metadata/four-logins?list=true"],
    ["GET", "secret/data/app/database"],
    ["GET", "sys/mounts"],
    ["GET", "sys/policies/acl/root"],
    ["POST", "auth/token/create"],
    ["GET", "nodes"],
  ];
  for (const [method = "", path = ""] of refused) {
    const { status, body } = await request(suite, method, path, token, method === "GET" ? undefined : { data: {} });
    expect(status, `${method} ${path}: ${body}`).toBe(403);
  }
}

describeConsole("four logins", (suite) => {
  it("a job of GitHub Actions reads the secret that its role permits, and nothing else", async () => {
    const { bench } = suite();
    const method = await enable(suite(), "jwt");
    await suite().call("POST", `${method}/config`, { oidc_discovery_url: providerValue(bench, "ACTIONS_ISSUER") });
    const claims = { repository: "acme/app", ref: "refs/heads/main" };
    const bound = { role_type: "jwt", user_claim: "sub", bound_audiences: bench.url, bound_claims: claims };
    await suite().call("POST", `${method}/role/deploy`, { ...bound, ...roleOf("workflow") });
    const logIn = async (job: string): Promise<Reply> => {
      const url = `${providerValue(bench, "ACTIONS_ID_TOKEN_REQUEST_URL")}&audience=${encodeURIComponent(bench.url)}`;
      const issued = await fetch(url, { headers: { Authorization: `Bearer ${providerValue(bench, job)}` } });
      const { value } = (await issued.json()) as { value: string };
      return request(suite(), "POST", `${method}/login`, "", { role: "deploy", jwt: value });
    };
    await expectReadsOnly(suite(), "workflow", tokenOf(await logIn("ACTIONS_ID_TOKEN_REQUEST_TOKEN")));
    const refused = await logIn("BRANCH_ID_TOKEN_REQUEST_TOKEN");
    expect([refused.status, refused.body]).toEqual([400, expect.stringContaining('claim \\"ref\\" does not match')]);
  });

  it.each(["keys", "a review"])(
    "a Kubernetes service account, verified by %s, reads the secret that its role permits, and nothing else",
    async (verified) => {
      const { bench } = suite();
      const cluster = providerValue(bench, "CLUSTER_URL");
      const admin = providerValue(bench, "CLUSTER_TOKEN");
      const method = await enable(suite(), "kubernetes");
      const { keys } = (await (await fetch(`${cluster}/openid/v1/jwks`)).json()) as { keys: JsonWebKey[] };
      const pems = keys.map((key) => createPublicKey({ key: { ...key }, format: "jwk" }));
      const by =
        verified === "keys"
          ? { pem_keys: pems.map((key) => key.export({ type: "spki", format: "pem" })) }
          : { token_reviewer_jwt: admin };
      await suite().call("POST", `${method}/config`, { kubernetes_host: cluster, ...by });
      const bound = { bound_service_account_names: "app", bound_service_account_namespaces: "prod" };
      await suite().call("POST", `${method}/role/app`, { ...bound, audience: "vault", ...roleOf("service-account") });
      const logIn = async (namespace: string): Promise<Reply> => {
        const issued = await fetch(`${cluster}/api/v1/namespaces/${namespace}/serviceaccounts/app/token`, {
          method: "POST",
          headers: { Authorization: `Bearer ${admin}` },
          body: JSON.stringify({ kind: "TokenRequest", spec: { audiences: ["vault"] } }),
        });
        const { status } = (await issued.json()) as { status: { token: string } };
        return request(suite(), "POST", `${method}/login`, "", { role: "app", jwt: status.token });
      };
      await expectReadsOnly(suite(), "service-account", tokenOf(await logIn("prod")));
      expect(await logIn("test")).toEqual({ status: 403, body: expect.stringContaining("namespace not authorized") });
    },
  );

  it("a machine with an AppRole reads the secret that its role permits, and nothing else", async () => {
    const method = await enable(suite(), "approle");
    await suite().call("POST", `${method}/role/web`, { ...roleOf("machine"), secret_id_num_uses: 1 });
    const { data: role } = (await suite().call("GET", `${method}/role/web/role-id`)) as { data: { role_id: string } };
    const { data: secret } = (await suite().call("POST", `${method}/role/web/secret-id`)) as {
      data: { secret_id: string };
    };
    const credentials = { role_id: role.role_id, secret_id: secret.secret_id };
    const logIn = () => request(suite(), "POST", `${method}/login`, "", credentials);
    await expectReadsOnly(suite(), "machine", tokenOf(await logIn()));
    expect(await logIn()).toEqual({ status: 400, body: expect.stringContaining("invalid role or secret ID") });
  });

  it("a person in a browser, logged in by OpenID Connect, reads the secret that the role permits, and nothing else", async () => {
    const { bench } = suite();
    const method = await enable(suite(), "oidc");
    await suite().call("POST", `${method}/config`, {
      oidc_discovery_url: providerValue(bench, "PEOPLE_ISSUER"),
      oidc_client_id: providerValue(bench, "PEOPLE_CLIENT_ID"),
      oidc_client_secret: providerValue(bench, "PEOPLE_CLIENT_SECRET"),
      default_role: "people",
    });
    const allowed_redirect_uris = `${bench.url}/ui/oidc/callback`;
    const bound = { user_claim: "sub", bound_subject: "ann", allowed_redirect_uris };
    await suite().call("POST", `${method}/role/people`, { ...bound, ...roleOf("person") });
    const logIn = async (name: string, password: string, path: string) => {
      const opened = await suite().open({ token: null, path, refusals: [/40[03] (GET|POST)/] });
      const { page } = opened;
      const tokens = new Set<string>();
      page.on("request", (sent) => {
        const { "x-orch-token": neutral, "x-vault-token": token = neutral } = sent.headers();
        if (token) tokens.add(token);
      });
      await page.getByRole("button", { name: "Single sign-on" }).click();
      await page.getByText("Namespace and auth method").click();
      await page.getByLabel("Path of the auth method").fill("four-oidc");
      await page.getByRole("button", { name: "Continue to the identity provider" }).click();
      // The console's own page has a field "Namespace".
      await page.waitForURL(/\/authorize\?/);
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Log in", exact: true }).click();
      return { opened, page, tokens };
    };

    const { opened, page, tokens } = await logIn("ann", "correct horse", "secrets/secret/at/four-logins/person");
    await page.getByRole("button", { name: "Reveal value" }).click();
    await page.getByText(valueIn("person"), { exact: true }).waitFor();
    await opened.visit("secrets/secret/at/four-logins/machine");
    await page
      .getByText(/permission denied/i)
      .first()
      .waitFor();
    expect(await page.content()).not.toContain(valueIn("machine"));
    const [token = ""] = tokens;
    expect(tokens.size).toBe(1);
    await expectReadsOnly(suite(), "person", token);
    await opened.close();

    const refused = await logIn("bob", "battery staple", "secrets");
    await refused.page.getByText(/invalid subject \(sub\) claim/).waitFor();
    await refused.opened.close();
  });
});
