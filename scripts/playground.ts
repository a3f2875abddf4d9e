/**
 * The providers on this machine (`PLAYGROUND=1 npm start`): the servers of the tests, each with one account whose
 * credentials are ready as request bodies for a destination or the credentials engine; and the systems for logins. No
 * request reaches a real cloud.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import gitlab from "../examples/producers/gitlab-project-token.json" with { type: "json" };
import { type AccountView, startIam } from "../test/doubles/cloud-a/server.ts";
import { startAzure } from "../test/doubles/cloud-b/azure.ts";
import { startGoogle } from "../test/doubles/cloud-c/server.ts";
import { startLoginIssuers } from "../test/doubles/login-issuers.ts";
import { type ProducerView, startProducers } from "../test/doubles/producers/server.ts";
import { settingsOf, startStandIns } from "../test/doubles/stand-ins.ts";

export interface Playground {
  /** Settings of the Worker with the providers' addresses. */
  readonly settings: Readonly<Record<string, string>>;
  /** Folder of seeds (scripts/seed.ts): an engine at `azure/` with the role `reader`, ready to issue credentials. */
  readonly seeds: string;
  close(): Promise<void>;
}

/**
 * Starts the providers, and writes their addresses and credentials into `dir`, which is emptied first.
 * @param serviceUrl the address of the service for logins
 */
export async function startPlayground(dir: string, serviceUrl: string): Promise<Playground> {
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const azure = await startAzure();
  const { details: tenant } = azure.openAccount();
  // The seeded engine has an application of its own, whose secret no other engine rotates away.
  const { details: seededTenant } = azure.openAccount();
  const google = await startGoogle();
  const [iam, producers, standIns, logins] = await Promise.all([
    startIam(),
    startProducers(),
    startStandIns({ otherTenants: azure.otherTenants, otherAccounts: google.others }),
    startLoginIssuers(serviceUrl),
  ]);
  const account = iam.open({ userMs: 500, keyMs: 2_000 });
  const bodies: Record<string, object> = {
    ...awsBodies(iam.url, account),
    ...(await googleBodies(google.url)),
    ...(await producerBodies(producers.url)),
    "cloud-b": engineBody(tenant),
    "cloud-b-role": roleBody(tenant),
  };
  for (const standIn of standIns) {
    const { body, bodies: further } = await standIn.open();
    Object.assign(bodies, { [standIn.type]: body, ...further });
  }
  for (const [name, body] of Object.entries(bodies)) {
    writeFileSync(join(dir, `${name}.json`), `${JSON.stringify(body, null, 2)}\n`, { mode: 0o600 });
  }
  const seeds = join(dir, "seeds");
  mkdirSync(seeds, { mode: 0o700 });
  const engine = {
    because: "A newcomer issues credentials without an account of a cloud.",
    requests: [
      { method: "POST", path: "/v1/sys/mounts/azure", body: { type: "cloud-b", description: "a stand-in of Azure" } },
      { method: "POST", path: "/v1/azure/config", body: engineBody(seededTenant) },
      { method: "POST", path: "/v1/azure/roles/reader", body: roleBody(seededTenant) },
    ],
  };
  writeFileSync(join(seeds, "credentials.json"), JSON.stringify(engine), { mode: 0o600 });
  const shell = {
    ...Object.assign({}, ...standIns.map((standIn) => standIn.shell)),
    CLOUD_A_EVERYTHING: `${iam.url}/_double/everything?account=${account.account}`,
    CLOUD_B_EVERYTHING: `${azure.graphUrl}/_double/everything?account=${tenant.account}`,
    ...logins.values,
  };
  const script = Object.entries(shell)
    .map(([name, value]) => `export ${name}='${value}'\n`)
    .join("");
  writeFileSync(join(dir, "providers.sh"), script, { mode: 0o600 });
  return {
    seeds,
    settings: {
      ...settingsOf(standIns),
      CLOUD_B_GRAPH_URL: azure.graphUrl,
      CLOUD_B_ARM_URL: azure.armUrl,
      CLOUD_C_API_URL: google.url,
    },
    close: async () => {
      await Promise.all([azure, google, iam, producers, logins, ...standIns].map((provider) => provider.close()));
    },
  };
}

/** Bodies of the engine of AWS: its configuration, and roles for sessions and for users. */
const awsBodies = (url: string, { access_key, secret_key, role_arn, policy_arn }: AccountView) => ({
  "cloud-a": { access_key, secret_key, iam_endpoint: url, sts_endpoint: url },
  "cloud-a-role": { credential_type: "assumed_role", role_arns: [role_arn], max_sts_ttl: "4h" },
  "cloud-a-user": { credential_type: "iam_user", policy_arns: [policy_arn], iam_groups: ["developers"] },
});

/** Bodies of the engine of Google Cloud: its configuration, an account for tokens, and a roleset for keys. */
async function googleBodies(url: string): Promise<Record<string, object>> {
  const control = async (path: string, body: object = {}) => {
    const answer = await fetch(`${url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) });
    return (await answer.json()) as Record<string, string>;
  };
  const { account = "", root = "", credentials } = await control("accounts");
  const { email = "" } = await control(`account?account=${account}`, { id: "reader" });
  await control(`bindings?account=${account}`, {
    resource: `//iam.googleapis.com/projects/${account}/serviceAccounts/${email}`,
    bindings: [{ role: "roles/iam.serviceAccountTokenCreator", members: [`serviceAccount:${root}`] }],
  });
  const bindings = `resource "//cloudresourcemanager.googleapis.com/projects/${account}" { roles = ["roles/viewer"] }`;
  return {
    "cloud-c": { credentials: JSON.stringify(credentials), ttl: "1h" },
    "cloud-c-account": {
      service_account_email: email,
      token_scopes: ["https://www.googleapis.com/auth/cloud-platform"],
    },
    "cloud-c-roleset": { secret_type: "service_account_key", project: account, bindings },
  };
}

/** Bodies of the HTTPS producer: the definition of GitLab's project tokens with a token, and a role. */
async function producerBodies(url: string): Promise<Record<string, object>> {
  const body = JSON.stringify({ provider: "gitlab" });
  const answer = await fetch(`${url}/_double/accounts`, { method: "POST", body });
  const { token } = (await answer.json()) as ProducerView;
  const base = url + new URL(gitlab.url).pathname.replace(/\/$/, "");
  return {
    "https-producer": { ...gitlab, url: base, secrets: { token }, vars: { project: "42" } },
    "https-producer-role": { ttl: "1h", max_ttl: "24h" },
  };
}

type Tenant = Readonly<Record<"subscription_id" | "tenant_id" | "client_id" | "client_secret", string>>;

const engineBody = ({ subscription_id, tenant_id, client_id, client_secret }: Tenant): object => ({
  subscription_id,
  tenant_id,
  client_id,
  client_secret,
});

const roleBody = ({ subscription_id }: Tenant): object => ({
  cloud_roles: [{ role_name: "Reader", scope: `/subscriptions/${subscription_id}` }],
  cloud_groups: [{ group_name: "developers" }],
  ttl: "1h",
  max_ttl: "24h",
});
