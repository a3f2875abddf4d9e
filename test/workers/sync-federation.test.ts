import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import type { CloudBAccount } from "../doubles/cloud-b-kv/server.ts";
import type { OpenedAccount } from "../doubles/cloud-c-sm/server.ts";
import { get, mountKv, patch, put } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { makeDestination, setAssociation, write } from "./sync-helpers.ts";

/* Sync destinations that log in with identity tokens instead of stored credentials. */

const POOLS = "//iam.googleapis.com/projects/100000000001/locations/global/workloadIdentityPools";
const json = async (url: string, body?: unknown) => {
  const answer = await fetch(url, { method: "POST", ...(body !== undefined && { body: JSON.stringify(body) }) });
  if (!answer.ok) throw new Error(`${url}: ${await answer.text()}`);
  return answer.json();
};

/** The trust of a provider: the tokens of one destination. The key set is copied, because doubles cannot fetch it. */
async function trustOf(subject: string, audience: string, namespace = "") {
  const documents = `/v1/${namespace}identity/oidc/secrets-sync/.well-known`;
  const { issuer } = (await get(`${documents}/openid-configuration`, { token: null })).body;
  const keys = (await get(`${documents}/keys`, { token: null })).body;
  return { issuer, subject, audience, keys };
}

interface Provider {
  readonly type: string;
  readonly audience: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** The same destination with stored credentials instead. */
  readonly stored: Readonly<Record<string, unknown>>;
  trust(subject: string, namespace?: string): Promise<unknown>;
}

const PROVIDERS: Readonly<Record<string, () => Promise<Provider>>> = {
  "cloud-a-sm": async () => {
    await cloudA.begin();
    const { accessKeyId: access_key_id, secretAccessKey: secret_access_key } = cloudA.key();
    const role_arn = `arn:aws:iam::123456789012:role/${crypto.randomUUID()}`;
    const audience = "sts.amazonaws.com";
    return {
      type: "cloud-a-sm",
      audience,
      body: { region: "eu-west-1", role_arn, identity_token_audience: audience },
      stored: { access_key_id, secret_access_key, role_arn: "", identity_token_audience: "" },
      trust: async (subject, namespace) =>
        json(`${env.TEST_CLOUD_A.url}/_double/trust?key=${access_key_id}`, {
          ...(await trustOf(subject, audience, namespace)),
          arn: role_arn,
        }),
    };
  },
  "cloud-b-kv": async () => {
    const account = (await json(`${env.TEST_DOUBLES.cloudB}/_double/accounts`)) as CloudBAccount;
    const { client_secret, ...body } = account;
    const audience = "api://AzureADTokenExchange";
    return {
      type: "cloud-b-kv",
      audience,
      body: { ...body, identity_token_audience: audience },
      stored: { client_secret, identity_token_audience: "" },
      trust: async (subject, namespace) =>
        json(
          `${env.TEST_DOUBLES.cloudB}/_double/trust?account=${account.tenant_id}`,
          await trustOf(subject, audience, namespace),
        ),
    };
  },
  "cloud-c-sm": async () => {
    const account = (await json(`${env.TEST_DOUBLES.cloudC}/_double/accounts`)) as OpenedAccount;
    const name = `${POOLS}/${crypto.randomUUID()}/providers/sallyport`;
    const audience = `https:${name}`;
    return {
      type: "cloud-c-sm",
      audience,
      body: {
        project_id: account.projectId,
        identity_token_audience: audience,
        service_account_email: account.credentials.client_email,
      },
      stored: {
        credentials: JSON.stringify(account.credentials),
        identity_token_audience: "",
        service_account_email: "",
      },
      trust: async (subject, namespace) =>
        json(`${env.TEST_DOUBLES.cloudC}/_double/trust?account=${account.account}`, {
          ...(await trustOf(subject, audience, namespace)),
          provider: name,
        }),
    };
  },
};

describe.each(Object.keys(PROVIDERS))("a federated destination of type %s", (type) => {
  let provider: Provider;
  let name: string;
  const verify = async (at = "") => (await put(`/v1/${at}sys/sync/destinations/${type}/${name}/verify`, {})).body.data;

  beforeEach(async () => {
    // A name of its own, because isolates cache tokens by subject.
    name = `d-${crypto.randomUUID()}`;
    provider = await (PROVIDERS[type] as () => Promise<Provider>)();
    await mountKv();
  });

  it("pushes with tokens for its own type and name, and stores no credentials", async () => {
    const { connection_details: shown } = (await makeDestination(type, name, { ...provider.body })).body.data;
    expect(shown.identity_token_audience).toBe("*****");
    expect(await verify()).toMatchObject({
      ok: false,
      error_code: expect.stringMatching(/auth_failed|permission_denied/),
    });
    const subject = `secrets-sync::${type}:${name}`;
    const { identity_token } = (await get(`/v1/sys/sync/destinations/${type}/${name}`)).body.data;
    expect(identity_token).toEqual({ issuer: expect.any(String), subject, audience: provider.audience });
    const { message } = await verify();
    for (const claim of Object.values(identity_token as Record<string, string>)) expect(message).toContain(claim);
    await provider.trust(subject);
    expect(await verify()).toMatchObject({ ok: true });
    await write("app", { a: "1" });
    const set = await setAssociation(`${type}/${name}`, "app");
    const statuses = Object.values(set.body.data.associated_secrets as Record<string, { sync_status: string }>);
    expect(statuses.map(({ sync_status }) => sync_status)).toEqual(["SYNCED"]);
  });

  it("names upstream's type and its namespace in the subject", async () => {
    await put("/v1/sys/namespaces/team", {});
    const upstream = { "cloud-a-sm": "aws-sm", "cloud-b-kv": "azure-kv", "cloud-c-sm": "gcp-sm" }[type];
    const made = await put(`/v1/team/sys/sync/destinations/${upstream}/${name}`, { ...provider.body });
    expect(made.status, made.text).toBe(200);
    await provider.trust(`secrets-sync:team:${upstream}:${name}`, "team/");
    expect(await verify("team/")).toEqual({ ok: true, message: expect.any(String) });
  });

  it.each(["X-Vault-Token", "X-Orch-Token"])("spells the type as the path does, with a token in %s", async (header) => {
    const headers = { [header]: "root", "Content-Type": "application/json" };
    const url = `https://x/v1/sys/sync/destinations/${type}/${name}`;
    const made = await exports.default.fetch(url, { method: "PUT", headers, body: JSON.stringify(provider.body) });
    expect(made.status).toBe(200);
    const { subject } = (await get(`/v1/sys/sync/destinations/${type}/${name}`)).body.data.identity_token;
    expect(subject).toBe(`secrets-sync::${type}:${name}`);
  });

  it("keeps the issuer of the request that set the audience, until it is set again", async () => {
    const elsewhere = async (body: object) => {
      const headers = { "X-Vault-Token": "root", "Content-Type": "application/json" };
      const init = { method: "PUT", headers, body: JSON.stringify(body) };
      expect((await exports.default.fetch(`https://other.example${at}`, init)).status).toBe(200);
    };
    const at = `/v1/sys/sync/destinations/${type}/${name}`;
    await put(at, { ...provider.body });
    await provider.trust(`secrets-sync::${type}:${name}`);
    await elsewhere({ identity_token_ttl: "10m", identity_token_audience: "*****" });
    expect((await get(at)).body.data.connection_details.identity_token_ttl).toBe(600);
    expect(await verify()).toMatchObject({ ok: true });
    await elsewhere({ identity_token_audience: provider.audience });
    expect(await verify()).toMatchObject({ ok: false });
  });

  it("is refused together with stored credentials, and replaces them", async () => {
    const at = `/v1/sys/sync/destinations/${type}/${name}`;
    const stored = Object.fromEntries(Object.entries(provider.stored).filter(([, value]) => value !== ""));
    const both = await put(at, { ...provider.body, ...stored });
    expect([both.status, both.text]).toEqual([
      400,
      expect.stringContaining("identity_token_audience: cannot be set together"),
    ]);
    expect((await put(at, { ...provider.body })).status).toBe(200);
    expect((await patch(at, { ...provider.stored })).status).toBe(200);
    expect((await get(at)).body.data.connection_details).not.toHaveProperty("identity_token_audience");
    expect(await verify()).toMatchObject({ ok: true });
    const other = await put(at, { identity_token_key: "other" });
    expect([other.status, other.text]).toEqual([400, expect.stringContaining('there is no key but \\"default\\"')]);
  });
});

describe("the fields of federation", () => {
  it.each([
    [
      "cloud-a-sm",
      { region: "eu-west-1", identity_token_audience: "a" },
      "role_arn: is required with identity_token_audience",
    ],
    [
      "cloud-b-kv",
      { key_vault_uri: "https://acme-eu.vault.azure.net", tenant_id: "t", client_id: "c" },
      "client_secret: is required",
    ],
    [
      "cloud-c-sm",
      { project_id: "acme-prod", identity_token_audience: "a" },
      "workload identity federation auth requires both identity_token_audience and service_account_email",
    ],
    [
      "cloud-c-sm",
      { project_id: "acme-prod", service_account_email: "s@acme-prod.iam.gserviceaccount.com" },
      "workload identity federation auth requires both identity_token_audience and service_account_email",
    ],
    [
      "cloud-c-sm",
      { project_id: "acme-prod", identity_token_audience: "a", service_account_email: "me" },
      "invalid service account email format",
    ],
    [
      "cloud-c-sm",
      { identity_token_audience: "a", service_account_email: "s@acme-prod.iam.gserviceaccount.com" },
      "project_id: is required, because there is no key that names the project",
    ],
    ["cloud-a-sm", { region: "eu-west-1", identity_token_ttl: -1 }, "identity_token_ttl: must not be negative"],
  ])("of %s: %j is refused", async (type, body, rule) => {
    const { status, text } = await put(`/v1/sys/sync/destinations/${type}/d`, body);
    expect([status, text]).toEqual([400, expect.stringContaining(rule)]);
  });
});
